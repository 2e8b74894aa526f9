import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, hashedStream, streamDecoderFor } from '../../../kernel/event-definition.js';
import { Problem } from '../../../kernel/problems.js';
import { disputeAnswered, disputeOpened } from './disputes.events.js';

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

/** The dispute of one statement. After a rejection it can be opened again, with another text. */
export interface Dispute extends Opened {
  dispute_id: string;
  /** When it was opened last, and at which position. */
  opened_at: number;
  position: number;
  isOpen: boolean;
  /** The oldest first. Unless it is open, the last one holds. */
  answers: Answer[];
}

const PREFIX = 'dispute-';
export const disputeStream = (disputeId: string): string => PREFIX + disputeId;
export const disputeIdIn = ({ stream }: { stream: string }): string => stream.slice(PREFIX.length);
/** One for each statement about an identity. */
export const disputeIdOf = (trisId: string, eventId: string): string =>
  hashedStream('dispute', trisId, eventId).slice(PREFIX.length);

const EVENTS = [disputeOpened, disputeAnswered] as const;
export type DisputeEvent = Decoded<(typeof EVENTS)[number]>;
const decode = streamDecoderFor(EVENTS);

/** Folds a `dispute-<id>` stream. @throws Problem history_unreadable */
export function disputeOf(history: readonly RecordedEvent[]): Dispute | undefined {
  return decode(history).reduce(evolve, undefined as Dispute | undefined);
}

/** Applies one event. The read model uses it too. */
export function evolve(before: Dispute | undefined, event: DisputeEvent): Dispute | undefined {
  const { position, recorded_at } = event;
  if (event.type === 'DisputeOpened') {
    const dispute_id = disputeIdIn(event);
    const answers = before?.answers ?? [];
    return { ...event.data, dispute_id, opened_at: recorded_at, position, isOpen: true, answers };
  }
  if (!before) return undefined;
  const { outcome, decided_by, note_hash } = event.data;
  const { statement_hash } = before;
  const answer = { outcome, decided_by, note_hash, statement_hash, answered_at: recorded_at };
  return { ...before, isOpen: false, answers: [...before.answers, answer] };
}

/**
 * Does nothing if it is open with this text.
 * @param statementHash null: the person says nothing
 * @throws Problem dispute_open, dispute_answered
 */
export function decideOpen(before: Dispute | undefined, disputed: Disputed, statementHash: string | null): Fact[] {
  if (before?.isOpen) {
    if (before.statement_hash === statementHash) return [];
    throw new Problem('dispute_open', `The dispute ${before.dispute_id} of it is open, with another text.`);
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
  const last = dispute.answers.at(-1);
  if (!dispute.isOpen && last) {
    if (last.outcome === outcome && last.note_hash === note_hash) return [];
    throw answered(dispute, last);
  }
  return [fact(disputeAnswered, { tris_id: dispute.tris_id, outcome, decided_by, note_hash })];
}

function answered({ dispute_id }: Dispute, { outcome, answered_at }: Answer): Problem {
  const at = new Date(answered_at).toISOString();
  const again = outcome === 'rejected' ? ' It can be opened again, with another text.' : '';
  return new Problem('dispute_answered', `The dispute ${dispute_id} was ${outcome} at ${at}.${again}`, {
    members: { dispute_id, outcome, answered_at: at },
  });
}
