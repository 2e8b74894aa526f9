import fc from 'fast-check';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { EventCounter } from '../../src/stores/eventstoredb/event-counter.js';

/** A log of events at these positions, which notes how many of them were read. */
class Log {
  read = 0;
  readonly counter = new EventCounter((after) => this.readAll(after));

  constructor(readonly positions: number[]) {}

  countAfter(position: number): number {
    return this.positions.filter((each) => each > position).length;
  }

  private async *readAll(after: number): AsyncGenerator<RecordedEvent[]> {
    const rest = this.positions.filter((position) => position > after);
    for (let n = 0; n < rest.length; n += 7) {
      const slice = rest.slice(n, n + 7).map((position) => ({ position }) as RecordedEvent);
      this.read += slice.length;
      yield slice;
    }
  }
}

const evenly = (events: number) => Array.from({ length: events }, (_, n) => 10 * (n + 1));

test('counts after any positions in any order, while the log grows', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ after: fc.integer({ min: 0, max: 60_000 }), grows: fc.integer({ min: 0, max: 900 }) }), {
        minLength: 1,
        maxLength: 12,
      }),
      async (steps) => {
        const log = new Log(evenly(2_500));
        for (const { after, grows } of steps) {
          const head = log.positions.at(-1)!;
          for (let n = 1; n <= grows; n++) log.positions.push(head + 5 * n);
          expect(await log.counter.countAfter(after)).toBe(log.countAfter(after));
        }
      },
    ),
    { numRuns: 100 },
  );
});

test('reads nothing before the least position that was asked for', async () => {
  const log = new Log(evenly(10_000));
  expect(await log.counter.countAfter(99_900)).toBe(10);
  expect(log.read).toBe(10);
  expect(await log.counter.countAfter(99_950)).toBe(5);
  expect(log.read).toBeLessThan(20);
});

test('reads each event once, though an earlier position is asked for later', async () => {
  const log = new Log(evenly(10_000));
  for (const position of [99_000, 50_000, 0, 0]) {
    expect(await log.counter.countAfter(position)).toBe(log.countAfter(position));
  }
  // And again those up to the slice of a mark.
  expect(log.read).toBeLessThan(10_050);
});
