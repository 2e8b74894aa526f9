import { endorserOf } from '../src/features/relay/domain/relay.js';
import { type Projection, rowAt } from './projection.js';

/** One received credonation. Its position is in the row's sort key. */
export interface CredonationRow {
  /** TRIS of the sender: the counterparty, else the platform's organization, else `tris:platform:<platform_id>`. */
  from: string;
  /** TCT of the action by its own criticality. */
  amount: number;
  /** When the action occurred, ms. */
  occurred_at: number;
  category: string;
}

/**
 * Credonations received, in log order. A sender is the counterparty or the organization that owned the platform at that
 * point of the log, so a rebuild gives the same sender.
 */
export const credonations: Projection = {
  name: 'credonations',
  version: 2,
  views: ['credonations', 'credonations.endorsers'],
  share: {
    ofEvent: (event) => (event.type === 'CredonationRecorded' ? event.data.tris_id : undefined),
    ofRow: ({ view, key }) => (view === 'credonations' ? key : undefined),
  },

  reads(event) {
    return event.type === 'CredonationRecorded' ? [endorserRow(event.data.platform_id)] : [];
  },

  apply(event, rows) {
    if (event.type === 'PlatformRegistered') {
      rows.put(endorserRow(event.data.platform_id), event.data.tris_org);
    } else if (event.type === 'CredonationRecorded') {
      const { tris_id, platform_id, amount, category } = event.data;
      const from = endorserOf(event.data, rows.get<string>(endorserRow(platform_id)));
      if (from === tris_id) return; // an identity does not endorse itself
      const credonation: CredonationRow = { from, amount, occurred_at: event.occurred_at, category };
      rows.insert(rowAt(credonationsOf(tris_id), event.position), credonation);
    }
  },
};

export function credonationsOf(trisId: string) {
  return { view: 'credonations', key: trisId };
}

function endorserRow(platformId: string) {
  return { view: 'credonations.endorsers', key: platformId };
}
