import type { Projection, RowOverlay } from '../../projections/projection.js';
import { type DomainEvent, decodeFolded } from '../../projections/events.js';
import { NewerSchema } from '../kernel/event-definition.js';
import type { RecordedEvent } from '../kernel/event.js';
import type { Json } from '../kernel/json.js';
import { isDue, yieldFoldIfDue, type yieldIfDue } from '../kernel/turn.js';
import type { RowKey, RowSink } from '../stores/ports/read-models.js';

/** How the ordinary follower folds the log, and how slices are decoded, also for builds. */

/** Loads into an overlay the rows that folding these events will read. `load` reads those that are in no overlay. */
export async function loadRows<S extends RowSink>(
  projections: readonly Projection[],
  events: readonly DomainEvent[],
  load: (rows: RowKey[]) => Promise<(Json | undefined)[]>,
  overlay: RowOverlay<S>,
  before?: RowOverlay<S>,
): Promise<void> {
  const loadAll = async (readsOf: (projection: Projection, event: DomainEvent) => RowKey[] | undefined) => {
    const wanted: RowKey[] = [];
    for (const event of events) {
      for (const projection of projections) {
        for (const row of readsOf(projection, event) ?? []) if (overlay.expect(row, before)) wanted.push(row);
      }
      if (isDue()) await yieldFoldIfDue();
    }
    const values = wanted.length > 0 ? await load(wanted) : [];
    for (const [i, row] of wanted.entries()) {
      overlay.load(row, values[i]);
      if (isDue()) await yieldFoldIfDue();
    }
  };
  await loadAll((projection, event) => projection.reads(event));
  await loadAll((projection, event) => projection.readsNext?.(event, overlay));
}

/**
 * Divides events into runs that can be loaded and folded one after the other (see `Projection.precede`). Of whole
 * appends, whole appends: an event that must precede others is the last or the only one of its append.
 */
export function* runsOf<E extends { type: string }>(projections: readonly Projection[], events: readonly E[]) {
  const preceding = new Set<string>(projections.flatMap(({ precede = [] }) => precede));
  let from = 0;
  for (let i = 1; i < events.length; i++) {
    if (!preceding.has(events[i - 1]!.type) || preceding.has(events[i]!.type)) continue;
    yield events.slice(from, i);
    from = i;
  }
  yield from === 0 ? events : events.slice(from);
}

/**
 * Folds events on top of the rows they read, in batches. A batch ends with the append that brings it to `rows` changed
 * rows. Later folding does not affect the changes of a batch.
 * Yields of each batch: the number of its events, the last one, and what it changed.
 */
export async function* foldInBatches<S extends RowSink>(
  projections: readonly Projection[],
  events: readonly DomainEvent[],
  /** Whether the event at this place is the last of its append. */
  endsAppend: (place: number) => boolean,
  overlay: RowOverlay<S>,
  rows = Infinity,
) {
  let from = 0;
  for (const [place, event] of events.entries()) {
    for (const projection of projections) projection.apply(event, overlay);
    if (isDue()) await yieldFoldIfDue();
    const isLast = place === events.length - 1;
    if (!isLast && !(overlay.changedRows >= rows && endsAppend(place))) continue;
    const changes = overlay.takeChanges();
    if (isDue()) await yieldFoldIfDue();
    yield { events: place + 1 - from, last: event, changes };
    from = place + 1;
  }
}

/**
 * Decodes up to the first event of a newer schema, and then only whole appends before it.
 * @param rest `yieldIfDue`, or `yieldFoldIfDue` where reads may wait for these events
 */
export async function decodeSlice(slice: readonly RecordedEvent[], rest: typeof yieldIfDue) {
  const endsAppend = (place: number) => slice[place]!.metadata.index === slice[place]!.metadata.size - 1;
  const events: DomainEvent[] = [];
  for (const event of slice) {
    try {
      events.push(decodeFolded(event));
    } catch (error) {
      if (!(error instanceof NewerSchema)) throw error;
      return { events: events.slice(0, events.length - event.metadata.index), endsAppend, stop: error };
    }
    if (isDue()) await rest();
  }
  return { events, endsAppend };
}
