import type { DomainEvent, EventOf } from './events.js';
import type { RecordProof } from '../src/features/trove/trove.events.js';
import { type Projection, sortByPosition } from './projection.js';

export const TROVE_STATUSES = ['Pending', 'Approved', 'Rejected'] as const;
export type TroveStatus = (typeof TROVE_STATUSES)[number];

/** A submitted record with what became of it. Times in ms. */
export interface TroveRecord extends Omit<EventOf<'TroveRecordSubmitted'>['data'], 'proof'> {
  /** Position of its submission, by which lists are ordered. */
  position: number;
  occurred_at: number;
  submitted_at: number;
  status: TroveStatus;
  /** The last one; its verification decides. */
  proof: RecordProof | null;
  /** How many proofs were offered so far. */
  proofs: number;
  decision: {
    method: string;
    decided_by: string;
    reason_code: string | null;
    decided_at: number;
    /** Id of the action it became; null if rejected. */
    action_id: string | null;
  } | null;
}

type TroveEvent = EventOf<
  'TroveRecordSubmitted' | 'TroveProofSubmitted' | 'TroveRecordApproved' | 'TroveRecordRejected'
>;

/** The record after an event of its stream. The same fold serves the command side and the lists. */
export function evolve(record: TroveRecord | undefined, event: DomainEvent): TroveRecord | undefined {
  switch (event.type) {
    case 'TroveRecordSubmitted': {
      const { proof, ...data } = event.data;
      return {
        ...data,
        position: event.position,
        occurred_at: event.occurred_at,
        submitted_at: event.recorded_at,
        status: 'Pending',
        proof,
        proofs: proof === null ? 0 : 1,
        decision: null,
      };
    }
    case 'TroveProofSubmitted':
      return (
        record && { ...record, status: 'Pending', proof: event.data.proof, proofs: record.proofs + 1, decision: null }
      );
    case 'TroveRecordApproved':
      return record && { ...record, status: 'Approved', decision: decisionOf(event, null) };
    case 'TroveRecordRejected':
      return record && { ...record, status: 'Rejected', decision: decisionOf(event, event.data.reason_code) };
    case 'ActionRelayed': // in the same append as the approval
      return record?.decision ? { ...record, decision: { ...record.decision, action_id: event.id } } : record;
    default:
      return record;
  }
}

function decisionOf(
  { data, recorded_at }: EventOf<'TroveRecordApproved' | 'TroveRecordRejected'>,
  reason: string | null,
) {
  const { method, decided_by } = data;
  return { method, decided_by, reason_code: reason, decided_at: recorded_at, action_id: null };
}

/** Records by id (the content hash), and `trove.list`: ids in order of submission, by identity and status. */
export const trove: Projection = {
  name: 'trove',
  version: 1,
  views: ['trove', 'trove.list'],
  share: {
    ofEvent: (event) => (isOfTrove(event) ? event.data.tris_id : undefined),
    ofRow: (_row, value) => (value as { tris_id: string }).tris_id,
  },

  reads: (event) => (isOfTrove(event) ? [recordRow(contentHashOf(event))] : []),

  apply(event, rows) {
    if (!isOfTrove(event)) return;
    const row = recordRow(contentHashOf(event));
    const before = rows.get<TroveRecord>(row);
    const after = evolve(before, event);
    if (!after) return;
    rows.put(row, after);
    if (before?.status === after.status) return;
    if (before) for (const key of listsOf(before)) rows.delete(key);
    const entry: TroveEntry = { content_hash: after.content_hash, tris_id: after.tris_id };
    for (const key of listsOf(after)) rows.put(key, entry);
  },
};

export interface TroveEntry {
  content_hash: string;
  tris_id: string;
}

const STREAM = 'trove-';

/** The action that an approval became is in the record's own stream. */
function isOfTrove(event: DomainEvent): event is TroveEvent | EventOf<'ActionRelayed'> {
  switch (event.type) {
    case 'TroveRecordSubmitted':
    case 'TroveProofSubmitted':
    case 'TroveRecordApproved':
    case 'TroveRecordRejected':
      return true;
    case 'ActionRelayed':
      return event.stream.startsWith(STREAM);
    default:
      return false;
  }
}

function contentHashOf(event: TroveEvent | EventOf<'ActionRelayed'>): string {
  return event.stream.slice(STREAM.length);
}

export function recordRow(contentHash: string) {
  return { view: 'trove', key: contentHash };
}

/** Rows of the list of an identity's records (null: everybody's) in a status (null: any). */
export function troveList(trisId: string | null, status: TroveStatus | null) {
  return { view: 'trove.list', key: `${status ?? '*'} ${trisId ?? '*'}` };
}

/** A record stands in four lists. */
function listsOf({ tris_id, status, position }: TroveRecord) {
  const sort = sortByPosition(position);
  return [null, tris_id].flatMap((id) => [null, status].map((s) => ({ ...troveList(id, s), sort })));
}
