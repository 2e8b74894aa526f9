import type { Position } from '../kernel/event.js';
import type { EventStore } from '../stores/ports/event-store.js';

/** Counts the events after a position by reading each, where `EventStore.countAfter` is not exact enough. */
export async function countEach(store: EventStore, position: Position): Promise<number> {
  let count = 0;
  for await (const slice of store.readAll(position)) count += slice.length;
  return count;
}
