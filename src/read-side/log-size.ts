import type { Position } from '../kernel/event.js';
import type { EventStore } from '../stores/ports/event-store.js';

/** Events from which the number is told. */
const SAMPLE = 1_000;

/**
 * About the number of events after a position, where counting may mean reading the log: told from the first of them.
 * Exact where the position is a number of events.
 */
export async function aboutAfter(store: EventStore, position: Position): Promise<number> {
  const head = await store.head();
  for await (const slice of store.readAll(position, { sliceSize: SAMPLE })) {
    const covered = slice.at(-1)!.position - position;
    return Math.max(slice.length, Math.round((slice.length * (head - position)) / covered));
  }
  return 0;
}
