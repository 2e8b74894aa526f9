import { defineEvent, nullable, oneOf, optional, text, wholeNumber } from '../../../kernel/event-definition.js';
import type { JsonObject } from '../../../kernel/json.js';
import { CRITICALITIES, MODEL } from '../../../scoring/model.js';

/**
 * Whether the operators stand behind a statement: an operator made it, or an organization that was vetted then. It was
 * not recorded before schema 2, and all statements counted alike.
 */
export const SOURCES = ['vouched', 'unvouched'] as const;
export type Source = (typeof SOURCES)[number];

const said = {
  source: oneOf(SOURCES),
  /** TRIS of the other side: who rated, lent, reviewed. Never the identity itself. */
  counterparty: optional(text),
};
const versions = { schema: 2, upcasters: { 1: (data: JsonObject) => ({ ...data, source: 'vouched' }) } };

/** An identity did something that a platform verified. Stream `action-<hash>`, revision 0. */
export const actionRelayed = defineEvent(
  'ActionRelayed',
  {
    tris_id: text,
    /** Canonical, `<category>_<action_type>`. */
    metric: text,
    criticality: oneOf(CRITICALITIES),
    platform_id: text,
    /** SHA-256 of the evidence's URI, which is stored in a deletable side table (docs/decisions/0010). */
    evidence_hash: nullable(text),
    ...said,
  },
  versions,
);

/**
 * The other side, or else the platform's organization, endorsed the identity for that action (requirement 6). Same
 * stream, revision 1.
 */
export const credonationRecorded = defineEvent(
  'CredonationRecorded',
  {
    tris_id: text,
    /** Without a counterparty the projection resolves the sender: the owner of the platform at this position of the log. */
    platform_id: text,
    /** TCT of the action's criticality. */
    amount: wholeNumber(0, Number.MAX_SAFE_INTEGER),
    category: oneOf(MODEL.categories),
    ...said,
  },
  versions,
);

/** Why an action is withdrawn, or a withdrawal taken back. */
export const REASONS = ['mistake', 'duplicate', 'reversed', 'disputed', 'key_compromised'] as const;
export type Reason = (typeof REASONS)[number];

/** A copy of what a fold needs to take the action out, or in again, without reading another row. */
const change = {
  tris_id: text,
  /** Id of the event `ActionRelayed`. */
  action_id: text,
  metric: text,
  criticality: oneOf(CRITICALITIES),
  platform_id: text,
  ...said,
  /** Of the action's credonation, if it has one: who gave it, its TCT, and the id of its event. */
  endorser: optional(text),
  amount: optional(wholeNumber(0, Number.MAX_SAFE_INTEGER)),
  credonation_id: optional(text),
  reason: oneOf(REASONS),
};

/**
 * The action and its credonation count nowhere from here on. Same stream; it occurred when the action did, so that no
 * time of the past after it has the action any more, while what was known before is unchanged.
 */
export const actionWithdrawn = defineEvent('ActionWithdrawn', change);

/** A withdrawn action counts again. Same stream. */
export const actionReinstated = defineEvent('ActionReinstated', change);
