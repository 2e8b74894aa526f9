import { metricCategory } from '../src/scoring/names.js';
import { endorserOf } from '../src/features/relay/domain/relay.js';
import { isActionChange, signOf } from './identity-events.js';
import { type Projection, keysOf, rowAt, rowIn, shortId } from './projection.js';

/** One received credonation, or its withdrawal or reinstatement. The position is in the row's sort key. */
export type CredonationRow = [
  /** TRIS of the sender: the counterparty, else the platform's organization, else `tris:platform:<platform_id>`. */
  from: string,
  /** TCT of the action by its own criticality. */
  amount: number,
  /** When the action occurred, ms. */
  occurred_at: number,
  category: string,
  /** `shortId` of the credonation's event, by which its withdrawal finds it. */
  id: string,
  /** Absent in the row of the credonation itself; -1 withdraws it, 1 reinstates it. */
  change?: 1 | -1,
];

export const isChange = (row: CredonationRow): boolean => row.length > 5;

/**
 * Credonations received, in log order. A sender is the counterparty or the organization that owned the platform at that
 * point of the log, so a rebuild gives the same sender. A withdrawal and a reinstatement are rows of their own, so that
 * the sums up to any position follow from the rows; `credonations.withdrawn` has a row for each that is withdrawn now.
 */
export const credonations: Projection = {
  name: 'credonations',
  version: 4,
  views: ['credonations', 'credonations.endorsers', 'credonations.withdrawn'],
  share: (event) => (event.type === 'CredonationRecorded' || isActionChange(event) ? event.data.tris_id : undefined),

  reads: (event) => (event.type === 'CredonationRecorded' ? [endorserRow(event.data.platform_id)] : []),

  apply(event, rows) {
    if (event.type === 'PlatformRegistered') {
      rows.put(endorserRow(event.data.platform_id), event.data.tris_org);
    } else if (event.type === 'CredonationRecorded') {
      const { tris_id, platform_id, amount, category } = event.data;
      const from = endorserOf(event.data, rows.get<string>(endorserRow(platform_id)));
      if (from === tris_id) return; // an identity does not endorse itself
      const credonation: CredonationRow = [from, amount, event.occurred_at, category, shortId(event.id)];
      rows.insert(rowAt(credonationsOf(tris_id), event.position), credonation);
    } else if (isActionChange(event)) {
      const { tris_id, metric, endorser: from, amount, credonation_id: id } = event.data;
      if (from === undefined || amount === undefined || id === undefined || from === tris_id) return;
      const change = signOf(event);
      const row: CredonationRow = [from, amount, event.occurred_at, metricCategory(metric), shortId(id), change];
      rows.insert(rowAt(credonationsOf(tris_id), event.position), row);
      if (change < 0) rows.put(withdrawnMark(tris_id, row), true);
      else rows.delete(withdrawnMark(tris_id, row));
    }
  },
};

/** The row that a credonation has while it is withdrawn. */
export const withdrawnMark = (trisId: string, [, , , , id]: CredonationRow) =>
  rowIn({ view: 'credonations.withdrawn', key: trisId }, id);

export const credonationsOf = keysOf('credonations');
const endorserRow = keysOf('credonations.endorsers');
