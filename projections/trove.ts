import { type DomainEvent, isAnyOf } from './events.js';
import { type TroveEvent, type TroveRecord, type TroveStatus, evolve } from '../src/features/trove/domain/record.js';
import { type Projection, keysOf, rowAt } from './projection.js';

/** Records by id, and `trove.list`: ids in order of submission, by identity and status. */
export const trove: Projection = {
  name: 'trove',
  version: 5,
  views: ['trove', 'trove.list'],
  share: (event) => (isOfTrove(event) ? event.data.tris_id : undefined),

  reads: (event) => (isOfTrove(event) ? [recordRow(recordIdIn(event))] : []),

  apply(event, rows) {
    if (!isOfTrove(event)) return;
    const row = recordRow(recordIdIn(event));
    const before = rows.get<TroveRecord>(row);
    const after = evolve(before, event);
    if (!after) return;
    rows.put(row, after);
    if (before?.status === after.status) return;
    if (before) for (const key of listsOf(before)) rows.delete(key);
    const entry: TroveEntry = { record_id: after.record_id, tris_id: after.tris_id };
    for (const key of listsOf(after)) rows.put(key, entry);
  },
};

export interface TroveEntry {
  record_id: string;
  tris_id: string;
}

const STREAM = 'trove-';
const isOfRecord = isAnyOf(
  'TroveRecordSubmitted',
  'TroveProofSubmitted',
  'TroveRecordApproved',
  'TroveRecordRejected',
  'TroveRecordRevoked',
  'TroveRejectionLifted',
  'ActionRelayed',
);

/** The action that follows from an approval is in the record's own stream. */
function isOfTrove(event: DomainEvent): event is Extract<DomainEvent, TroveEvent> {
  return event.stream.startsWith(STREAM) && isOfRecord(event);
}

const recordIdIn = ({ stream }: DomainEvent): string => stream.slice(STREAM.length);

export const recordRow = keysOf('trove');

/** Rows of the list of an identity's records (null: everybody's) in a status (null: any). */
export function troveList(trisId: string | null, status: TroveStatus | null) {
  return { view: 'trove.list', key: `${status ?? '*'} ${trisId ?? '*'}` };
}

/** A record is in four lists. */
function listsOf({ tris_id, status, position }: TroveRecord) {
  return [null, tris_id].flatMap((id) => [null, status].map((s) => rowAt(troveList(id, s), position)));
}
