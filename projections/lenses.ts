import { type Projection, keysOf } from './projection.js';

/** The lens an organization has promoted for itself. */
export interface LensRow {
  policy_id: string;
  content_hash: string;
}

/** One row for each organization with its own lens. The others use the platform's lens, which is in the manifest. */
export const lenses: Projection = {
  name: 'lenses',
  version: 1,
  views: ['lenses'],
  reads: () => [],
  apply(event, rows) {
    if (event.type !== 'LensActivated' || event.data.tris_org === null) return;
    const { tris_org, policy_id, content_hash } = event.data;
    if (policy_id === null || content_hash === null) rows.delete(lensRow(tris_org));
    else rows.put(lensRow(tris_org), { policy_id, content_hash } satisfies LensRow);
  },
};

export const lensRow = keysOf('lenses');
