import { defineEvent, nullable, oneOf, text } from '../../../kernel/event-definition.js';

/** What kinds of statements can be disputed. */
export const DISPUTABLE = ['action', 'verification', 'bad_status'] as const;
export const OUTCOMES = ['upheld', 'rejected'] as const;

/** The person that a statement is about disputes it. Stream `dispute-<hash of the TRIS and the statement's event>`. */
export const disputeOpened = defineEvent('DisputeOpened', {
  tris_id: text,
  about: oneOf(DISPUTABLE),
  /** Id of the event since which the statement holds: of a reinstated action that of the reinstatement. */
  event_id: text,
  /** Of an action. */
  action_id: nullable(text),
  platform_id: nullable(text),
  /** Of a verification. */
  status: nullable(text),
  /** Who made the statement: the TRIS of an organization, or the name of a key; null: the operators. */
  issuer: nullable(text),
  /** SHA-256 of what the person says, which is stored in a deletable side table (docs/decisions/0010). */
  statement_hash: nullable(text),
});

/** Same stream. An upheld dispute of an action withdraws the action; that is recorded in the action's own stream. */
export const disputeAnswered = defineEvent('DisputeAnswered', {
  tris_id: text,
  outcome: oneOf(OUTCOMES),
  /** The organization, or the key of an operator. */
  decided_by: text,
  /** SHA-256 of the note, which is stored as statements are. */
  note_hash: nullable(text),
});

/** Same stream. Nobody answered the dispute of an action in time: the action is withdrawn, until a rejection. */
export const disputeLapsed = defineEvent('DisputeLapsed', { tris_id: text });
