import type { RecordedEvent } from '../../src/kernel/event.js';
import { Logger } from '../../src/kernel/logger.js';
import { type Consumer, Consumers, type LogPart } from '../../src/read-side/consumers.js';
import type { Views } from '../../src/read-side/views.js';
import { type EventStore, StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { eventually } from '../contracts/harness.js';

/** Readers of the log beside the projector, each with a position of its own. */

/** A log of events at the positions 1, 2, …, and how far the read models have applied it. */
class Log {
  head = 0;
  applied = 0;
  /** Positions whose events cannot be read. */
  readonly unreadable = new Set<number>();
  readonly reads: number[] = [];

  async *readAll(after: number, { sliceSize }: { sliceSize: number }): AsyncGenerator<RecordedEvent[]> {
    this.reads.push(after);
    for (let from = after + 1; from <= this.head; from += sliceSize) {
      const positions = Array.from({ length: Math.min(sliceSize, this.head - from + 1) }, (_, n) => from + n);
      if (positions.some((position) => this.unreadable.has(position))) throw new Error('unreadable');
      yield positions.map((position) => ({ position }) as RecordedEvent);
    }
  }
}

class Taker implements Consumer {
  readonly taken: number[] = [];

  constructor(
    readonly id: string,
    public position = 0,
  ) {}

  take({ events }: LogPart): void {
    const news = events.filter(({ position }) => position > this.position);
    this.taken.push(...news.map(({ position }) => position));
    this.position = events.at(-1)!.position;
  }
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, n) => first + n);
const takeAll = async (part: LogPart, takers: readonly Taker[]) => takers.forEach((taker) => taker.take(part));

let log: Log;
let lines: string[];
let consumers: Consumers;
let stop: AbortController;
beforeEach(() => {
  log = new Log();
  lines = [];
  const views = { applied: async () => log.applied } as unknown as Views;
  const logger = new Logger('warn', (line) => lines.push(line));
  consumers = new Consumers(log as unknown as EventStore, views, logger);
  stop = new AbortController();
});
afterEach(() => stop.abort());

const follow = (takers: readonly Taker[], handle = takeAll) =>
  consumers.follow('takers', () => consumers.hand(takers, handle), stop.signal);

test('a consumer gets each event once, in order, and none that the read models have not applied', async () => {
  const taker = new Taker('a');
  void follow([taker]);
  log.head = 1_700;
  for (const applied of [1, 3, 1_200, 1_700]) {
    log.applied = applied;
    await eventually(() => taker.position === applied);
    expect(taker.taken).toEqual(upTo(applied));
  }
});

test('a consumer gets no event after the position that it asks for', async () => {
  const taker = new Taker('a');
  log.head = log.applied = 9;
  expect(await consumers.hand([taker], takeAll, 4)).toBe(false);
  expect(taker.taken).toEqual(upTo(4));
});

test('consumers that are at different positions share what is read, and none waits for the one furthest behind', async () => {
  const takers = [new Taker('new'), new Taker('near', 2_990), new Taker('far', 3_000)];
  log.head = log.applied = 3_010;
  await consumers.hand(takers, takeAll);
  expect(takers.map(({ position }) => position)).toEqual([500, 2_990, 3_010]);
  while (await consumers.hand(takers, takeAll));
  expect(takers.map(({ taken }) => taken)).toEqual([upTo(3_010), upTo(3_010, 2_991), upTo(3_010, 3_001)]);
  expect(log.reads).toEqual([3_000, 0, 2_990, 500, 1_000, 1_500, 2_000, 2_500, 3_000]);
});

test('a slow consumer holds up no other', async () => {
  const [slow, other] = [new Taker('slow'), new Taker('other')];
  let goOn = () => {};
  const waiting = new Promise<void>((resolve) => (goOn = resolve));
  void follow([slow], async (part, takers) => {
    await waiting;
    await takeAll(part, takers);
  });
  void follow([other]);
  for (log.head = log.applied = 1; log.head < 4; log.applied = ++log.head) {
    await eventually(() => other.position === log.head);
  }
  expect(slow.taken).toEqual([]);
  goOn();
  await eventually(() => slow.position === 4);
  expect(slow.taken).toEqual(upTo(4));
});

test('a consumer that fails is tried again and loses nothing, and the others get everything once meanwhile', async () => {
  const [failing, sound, late] = [new Taker('failing'), new Taker('sound'), new Taker('late', 2)];
  let isFailing = true;
  void follow([failing, sound, late], async (part, takers) => {
    for (const taker of takers) {
      if (taker === failing && isFailing) throw new Error('not now');
      taker.take(part);
    }
  });
  log.head = log.applied = 5;
  await eventually(() => sound.position === 5 && late.position === 5);
  log.head = log.applied = 8;
  await eventually(() => sound.position === 8 && late.position === 8);
  expect(failing.taken).toEqual([]);
  isFailing = false;
  await eventually(() => failing.position === 8);
  expect([failing.taken, sound.taken, late.taken]).toEqual([upTo(8), upTo(8), upTo(8, 3)]);
  expect(lines).toEqual([expect.stringMatching(/"by":"failing".*not now/)]);
});

test('consumers go on although an event that is read for another cannot be read', async () => {
  const [behind, ahead] = [new Taker('behind'), new Taker('ahead', 600)];
  log.unreadable.add(3);
  void follow([behind, ahead]);
  for (const head of [601, 602]) {
    log.head = log.applied = head;
    await eventually(() => ahead.position === head);
  }
  expect(behind.taken).toEqual([]);
  log.unreadable.clear();
  await eventually(() => behind.position === 602);
  expect(lines).toEqual([expect.stringMatching(/"by":"behind".*unreadable/)]);
});

test('while a store is unavailable all wait, which the store itself logs, and then continue', async () => {
  const takers = [new Taker('a'), new Taker('b')];
  let failures = 3;
  void follow(takers, async (part, some) => {
    if (failures-- > 0) throw new StoreUnavailable('away');
    await takeAll(part, some);
  });
  log.head = log.applied = 2;
  await eventually(() => takers.every(({ position }) => position === 2));
  expect([failures, lines]).toEqual([-1, []]);
});

test('a consumer that is made again with a stored position continues there', async () => {
  const first = new Taker('a');
  void follow([first]);
  log.head = log.applied = 4;
  await eventually(() => first.position === 4);
  stop.abort();
  log.head = log.applied = 6;
  stop = new AbortController();
  const second = new Taker('a', first.position);
  void follow([second]);
  await eventually(() => second.position === 6);
  expect([first.taken, second.taken]).toEqual([upTo(4), [5, 6]]);
});

test('where an older copy has replaced the log, a consumer waits for what is missing, and does not ask for it without a pause', async () => {
  const taker = new Taker('a', 5);
  log.head = 3;
  log.applied = 7;
  expect(await consumers.hand([taker], takeAll)).toBe(false);
  log.head = 7;
  expect(await consumers.hand([taker], takeAll)).toBe(false);
  expect(taker.taken).toEqual([6, 7]);
});

test('once it is stopped, nothing is handed over any more', async () => {
  const taker = new Taker('a');
  const ended = follow([taker]);
  log.head = log.applied = 2;
  await eventually(() => taker.position === 2);
  stop.abort();
  await ended;
  log.head = log.applied = 3;
  const reads = log.reads.length;
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect([log.reads.length, taker.taken]).toEqual([reads, [1, 2]]);
});
