import type { Position } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, hashedStream, streamFold } from '../../../kernel/event-definition.js';
import { Problem } from '../../../kernel/problems.js';
import { type ActionState, type RecordedAction, stateOf } from '../../relay/domain/withdrawal.js';
import { OUTCOMES, disputeAnswered, disputeLapsed, disputeOpened } from './disputes.events.js';

type Opened = Decoded<typeof disputeOpened>['data'];
/** What is disputed, and who made the statement. */
export type Disputed = Omit<Opened, 'statement_hash'>;
export type Outcome = Decoded<typeof disputeAnswered>['data']['outcome'];

/** Times in ms. */
export interface Answer extends Omit<Decoded<typeof disputeAnswered>['data'], 'tris_id'> {
  /** Of what the person said. */
  statement_hash: string | null;
  answered_at: number;
}

/** How disputes stand. One that has lapsed can still be answered. */
export const DISPUTE_STATES = ['open', 'lapsed', ...OUTCOMES] as const;

/** The dispute of one statement. After a rejection it can be opened again, with another text. */
export interface Dispute extends Opened {
  dispute_id: string;
  /** When it was opened last, and at which position. */
  opened_at: number;
  position: number;
  state: (typeof DISPUTE_STATES)[number];
  /** When nobody had answered it in time, the last time, and at which position; null: that never happened. */
  lapsed: { at: number; position: Position } | null;
  /** The oldest first. */
  answers: Answer[];
}

const PREFIX = 'dispute-';
export const disputeStream = (disputeId: string): string => PREFIX + disputeId;
export const disputeIdIn = ({ stream }: { stream: string }): string => stream.slice(PREFIX.length);
/** One for each statement about an identity. */
export const disputeIdOf = (trisId: string, eventId: string): string =>
  hashedStream('dispute', trisId, eventId).slice(PREFIX.length);

const EVENTS = [disputeOpened, disputeAnswered, disputeLapsed] as const;
export type DisputeEvent = Decoded<(typeof EVENTS)[number]>;

/** Folds a `dispute-<id>` stream. @throws Problem history_unreadable */
export const disputeOf = streamFold(EVENTS, evolve);

/** Applies one event. The read model uses it too. */
export function evolve(before: Dispute | undefined, event: DisputeEvent): Dispute | undefined {
  const { position, recorded_at } = event;
  if (event.type === 'DisputeOpened') {
    const dispute_id = disputeIdIn(event);
    const { answers = [], lapsed = null } = before ?? {};
    return { ...event.data, dispute_id, opened_at: recorded_at, position, state: 'open', lapsed, answers };
  }
  if (!before) return undefined;
  if (event.type === 'DisputeLapsed') return { ...before, state: 'lapsed', lapsed: { at: recorded_at, position } };
  const { outcome, decided_by, note_hash } = event.data;
  const { statement_hash } = before;
  const answer = { outcome, decided_by, note_hash, statement_hash, answered_at: recorded_at };
  return { ...before, state: outcome, answers: [...before.answers, answer] };
}

/**
 * Does nothing if it is open with this text.
 * @param statementHash null: the person says nothing
 * @throws Problem dispute_open, dispute_answered, statement_withdrawn
 */
export function decideOpen(before: Dispute | undefined, disputed: Disputed, statementHash: string | null): Fact[] {
  if (before?.state === 'open') {
    if (before.statement_hash === statementHash) return [];
    throw new Problem('dispute_open', `The dispute ${before.dispute_id} of it is open, with another text.`);
  }
  if (before?.state === 'lapsed') {
    throw new Problem('statement_withdrawn', `The dispute ${before.dispute_id} of it has lapsed: it is withdrawn.`);
  }
  const answer = before?.answers.find(
    ({ outcome, statement_hash }) => outcome === 'upheld' || statement_hash === statementHash,
  );
  if (answer) throw answered(before!, answer);
  return [fact(disputeOpened, { ...disputed, statement_hash: statementHash })];
}

/** Does nothing if that was the answer. @throws Problem dispute_answered */
export function decideAnswer(
  dispute: Dispute,
  { outcome, decided_by, note_hash }: Pick<Answer, 'outcome' | 'decided_by' | 'note_hash'>,
): Fact[] {
  if (dispute.state !== 'open' && dispute.state !== 'lapsed') {
    const last = dispute.answers.at(-1)!;
    if (last.outcome === outcome && last.note_hash === note_hash) return [];
    throw answered(dispute, last);
  }
  return [fact(disputeAnswered, { tris_id: dispute.tris_id, outcome, decided_by, note_hash })];
}

/** Lets a dispute of an action lapse that was opened before a time (ms), or then, and still waits. */
export function decideLapse({ tris_id, about, state, opened_at }: Dispute, opened: number): Fact[] {
  return about === 'action' && state === 'open' && opened_at <= opened ? [fact(disputeLapsed, { tris_id })] : [];
}

/** Who does to actions what follows from disputes. */
export const DISPUTES_ACTOR = 'job:dispute_withdrawal';

/**
 * The state into which a dispute brings its action; null: it is in it, or somebody else has changed it since.
 * @param changed position of the last event of the dispute
 */
export function dueState({ state, lapsed }: Dispute, changed: Position, action: RecordedAction): ActionState | null {
  const isWithdrawn = stateOf(action) === 'withdrawn';
  if (state === 'upheld' || state === 'lapsed') {
    return isWithdrawn || (action.changes.at(-1)?.position ?? 0) > changed ? null : 'withdrawn';
  }
  // What a lapse has withdrawn counts again.
  const since = action.changes.filter(({ position }) => lapsed && position > lapsed.position);
  const isOurs = since.length === 1 && since[0]!.by === DISPUTES_ACTOR;
  return isWithdrawn && isOurs && !action.revoked ? 'counted' : null;
}

function answered({ dispute_id }: Dispute, { outcome, answered_at }: Answer): Problem {
  const at = new Date(answered_at).toISOString();
  const again = outcome === 'rejected' ? ' It can be opened again, with another text.' : '';
  return new Problem('dispute_answered', `The dispute ${dispute_id} was ${outcome} at ${at}.${again}`, {
    members: { dispute_id, outcome, answered_at: at },
  });
}
