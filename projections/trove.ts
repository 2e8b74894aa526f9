import type { DomainEvent, EventOf } from './events.js';
import { type TroveRecord, type TroveStatus, evolve } from '../src/features/trove/domain/record.js';
import { type Projection, sortByPosition } from './projection.js';

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

type RecordEvent = EventOf<
  'TroveRecordSubmitted' | 'TroveProofSubmitted' | 'TroveRecordApproved' | 'TroveRecordRejected' | 'ActionRelayed'
>;
const STREAM = 'trove-';

/** The action that follows from an approval is in the record's own stream. */
function isOfTrove(event: DomainEvent): event is RecordEvent {
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

function contentHashOf(event: RecordEvent): string {
  return event.stream.slice(STREAM.length);
}

export function recordRow(contentHash: string) {
  return { view: 'trove', key: contentHash };
}

/** Rows of the list of an identity's records (null: everybody's) in a status (null: any). */
export function troveList(trisId: string | null, status: TroveStatus | null) {
  return { view: 'trove.list', key: `${status ?? '*'} ${trisId ?? '*'}` };
}

/** A record is in four lists. */
function listsOf({ tris_id, status, position }: TroveRecord) {
  const sort = sortByPosition(position);
  return [null, tris_id].flatMap((id) => [null, status].map((s) => ({ ...troveList(id, s), sort })));
}
