import { type Projection, RowOverlay } from '../../projections/projection.js';
import type { DomainEvent } from '../events.js';
import type { Json } from '../json.js';
import type { RowKey } from '../read-models/read-models.js';

/** Folds events into rows, on top of the stored rows that `load` answers. Live, rebuild and verify all fold here. */
export async function fold(
  projections: readonly Projection[],
  events: readonly DomainEvent[],
  load: (rows: RowKey[]) => Promise<(Json | undefined)[]>,
): Promise<RowOverlay> {
  const overlay = new RowOverlay();
  const wanted: RowKey[] = [];
  for (const event of events) {
    for (const projection of projections) {
      for (const row of projection.reads(event)) if (overlay.expect(row)) wanted.push(row);
    }
  }
  const values = wanted.length > 0 ? await load(wanted) : [];
  wanted.forEach((row, i) => overlay.load(row, values[i]));
  for (const event of events) for (const projection of projections) projection.apply(event, overlay);
  return overlay;
}
