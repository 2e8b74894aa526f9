import fc from 'fast-check';
import { MAX_APPEND_BYTES } from '../../src/stores/ports/event-encoding.js';
import { START, type NewEvent, type Position, type RecordedEvent } from '../../src/kernel/event.js';
import {
  AppendRefused,
  WrongExpectedRevision,
  type EventStore,
  type ExpectedRevision,
} from '../../src/stores/ports/event-store.js';
import type { Json } from '../../src/kernel/json.js';
import { leafOf } from '../../src/kernel/merkle.js';
import { countEach } from '../../src/read-side/log-tree.js';
import { repeated } from '../faults/faults.js';
import { eventually, type Harness } from './harness.js';
import { newStream, sampleEvents } from './sample-events.js';

/** The rules of the log that every adapter keeps. The place may hold other events before, but nobody else writes. */
export function describeEventStore(name: string, makeHarness: () => Promise<Harness<EventStore>>): void {
  describe(`${name}: event store contract`, () => {
    let harness: Harness<EventStore>;
    let store: EventStore;
    let start: Position;

    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open();
      start = await store.head();
    });
    afterEach(async () => {
      await store.close();
      await harness.destroy();
    });

    async function reopen(): Promise<void> {
      await store.close();
      store = await harness.open();
    }

    async function everythingAfter(position: Position, sliceSize?: number): Promise<RecordedEvent[]> {
      const all: RecordedEvent[] = [];
      for await (const slice of store.readAll(position, { sliceSize })) all.push(...slice);
      return all;
    }

    async function conflict(stream: string, expected: ExpectedRevision, events: NewEvent[]) {
      const error: unknown = await store.append(stream, expected, events).then(
        () => undefined,
        (e: unknown) => e,
      );
      expect(error).toBeInstanceOf(WrongExpectedRevision);
      return error as WrongExpectedRevision;
    }

    describe('appending', () => {
      test('returns what was appended, with stream, revision and position', async () => {
        const stream = newStream();
        const events = sampleEvents(stream, 2);
        const appended = await store.append(stream, 'no-stream', events);
        expect(appended.revision).toBe(1);
        const read = await store.readStream(stream);
        expect(read).toEqual(
          events.map((event, revision) => ({ ...event, stream, revision, position: expect.any(Number) })),
        );
        expect(read[1]!.position).toBe(appended.position);
        expect(read[0]!.position).toBeGreaterThan(start);
        expect(read[0]!.position).toBeLessThan(appended.position);
      });

      test('keeps the leaf of an event, however it is read', async () => {
        const stream = newStream();
        const body = { zoë: '"\n\u2028', 2: 'two', 1: 1e-7, nested: { b: [0.1, -1, null], a: {} } };
        const [event] = sampleEvents(stream, 1, body);
        const { metadata } = event!;
        const salted = { ...event!, metadata: { ...metadata, traceparent: '00-1', salt: 'ab'.repeat(16) } };
        const leaf = leafOf({ ...salted, stream, revision: 0, position: 0 });
        const controller = new AbortController();
        const live = (async () => {
          for await (const slice of store.subscribe(start, { signal: controller.signal })) return slice;
          return [];
        })();
        await store.append(stream, 'no-stream', [salted]);
        const reads = [await store.readStream(stream), await everythingAfter(start), await live];
        controller.abort();
        await reopen();
        reads.push(await everythingAfter(start));
        expect(reads.map((events) => events.map(leafOf))).toEqual([[leaf], [leaf], [leaf], [leaf]]);
      });

      test('no-stream: refuses a stream that exists and reports its revision', async () => {
        const stream = newStream();
        await store.append(stream, 'no-stream', sampleEvents(stream, 2));
        const error = await conflict(stream, 'no-stream', sampleEvents(stream, 1, { other: true }));
        expect(error).toMatchObject({ stream, expected: 'no-stream', actual: 1 });
        expect(await store.readStream(stream)).toHaveLength(2);
      });

      test('an exact revision: accepts only that of the last event', async () => {
        const stream = newStream();
        expect(await conflict(stream, 0, sampleEvents(stream))).toMatchObject({ expected: 0, actual: 'no-stream' });
        await store.append(stream, 'no-stream', sampleEvents(stream));
        await store.append(stream, 0, sampleEvents(stream, 1, { second: true }));
        expect((await conflict(stream, 0, sampleEvents(stream, 1, { third: true }))).actual).toBe(1);
        expect((await conflict(stream, 5, sampleEvents(stream, 1, { third: true }))).actual).toBe(1);
        expect((await store.append(stream, 1, sampleEvents(stream, 1, { third: true }))).revision).toBe(2);
      });

      test('any: appends at whatever revision the stream has', async () => {
        const stream = newStream();
        await store.append(stream, 'any', sampleEvents(stream, 1, { n: 1 }));
        expect((await store.append(stream, 'any', sampleEvents(stream, 1, { n: 2 }))).revision).toBe(1);
      });

      test('of many writers with one expected revision, one wins', async () => {
        const stream = newStream();
        const outcomes = await Promise.allSettled(
          Array.from({ length: 20 }, (_, n) => store.append(stream, 'no-stream', sampleEvents(stream, 2, { n }))),
        );
        expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
        expect(await store.readStream(stream)).toHaveLength(2);
      });

      test('a refused append does not affect others in the same commit', async () => {
        const taken = newStream();
        await store.append(taken, 'no-stream', sampleEvents(taken));
        const streams = Array.from({ length: 10 }, () => newStream());
        const outcomes = await Promise.allSettled([
          ...streams.slice(0, 5).map((stream) => store.append(stream, 'no-stream', sampleEvents(stream))),
          store.append(taken, 'no-stream', sampleEvents(taken, 1, { other: true })),
          ...streams.slice(5).map((stream) => store.append(stream, 'no-stream', sampleEvents(stream))),
        ]);
        expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([
          ...Array<boolean>(5).fill(true),
          false,
          ...Array<boolean>(5).fill(true),
        ]);
        for (const stream of streams) expect(await store.readStream(stream)).toHaveLength(1);
      });
    });

    describe('the identical append again', () => {
      test('no-stream: returns the first answer again and writes no second event, also after reopening', async () => {
        const stream = newStream();
        const events = sampleEvents(stream, 3);
        const first = await store.append(stream, 'no-stream', events);
        expect(await store.append(stream, 'no-stream', events)).toEqual(first);
        await reopen();
        expect(await store.append(stream, 'no-stream', events)).toEqual(first);
        expect(await store.readStream(stream)).toHaveLength(3);
        expect(await store.countAfter(start)).toBe(3);
      });

      test('an exact revision: returns the first answer again, even if the stream has further events', async () => {
        const stream = newStream();
        await store.append(stream, 'no-stream', sampleEvents(stream));
        const events = sampleEvents(stream, 2, { second: true });
        const first = await store.append(stream, 0, events);
        await store.append(stream, 2, sampleEvents(stream, 1, { third: true }));
        expect(await store.append(stream, 0, events)).toEqual(first);
        expect(await store.readStream(stream)).toHaveLength(4);
      });

      // EventStoreDB forgets an id that was appended with "any" after some 60,000 others.
      const others = repeated(5_000, 200_000);
      test(`after ${others} other events: the first answer again`, async () => {
        const stream = newStream();
        const events = sampleEvents(stream, 2);
        const first = await store.append(stream, 'no-stream', events);
        const streams = Array.from({ length: others / 500 }, () => newStream());
        const writer = async () => {
          for (let other = streams.pop(); other; other = streams.pop()) {
            await store.append(other, 'no-stream', sampleEvents(other, 500));
          }
        };
        await Promise.all(Array.from({ length: 8 }, writer));
        expect(await store.append(stream, 'no-stream', events)).toEqual(first);
        await reopen();
        expect(await store.append(stream, 'no-stream', events)).toEqual(first);
        await conflict(stream, 'no-stream', sampleEvents(stream, 2, { other: true }));
        expect(await countEach(store, start)).toBe(others + 2);
      }, 300_000);

      test('many concurrent ones write one event', async () => {
        const stream = newStream();
        const events = sampleEvents(stream);
        const answers = await Promise.all(
          Array.from({ length: 20 }, () => store.append(stream, 'no-stream', structuredClone(events))),
        );
        expect(new Set(answers.map(({ position }) => position)).size).toBe(1);
        expect(await store.readStream(stream)).toHaveLength(1);
      });
    });

    describe('values that JSON would change are refused, and nothing is written', () => {
      const cyclic: Record<string, unknown> = {};
      cyclic['self'] = cyclic;
      const cases: [string, unknown, RegExp][] = [
        ['NaN', { a: [1, NaN] }, /data\.a\[1\]/],
        ['infinity', { a: -Infinity }, /data\.a/],
        ['minus zero', { a: -0 }, /data\.a/],
        ['an unsafe integer', { a: 2 ** 53 }, /data\.a/],
        ['undefined', { a: undefined }, /data\.a/],
        ['a hole in an array', { a: Array(2) }, /data\.a\[0\]/],
        ['a BigInt', { a: 1n }, /data\.a/],
        ['a Date', { a: new Date() }, /data\.a/],
        ['a Map', { a: new Map() }, /data\.a/],
        ['a class instance', { a: new (class Money {})() }, /data\.a/],
        ['a function', { a: () => 1 }, /data\.a/],
        ['a symbol', { a: Symbol('s') }, /data\.a/],
        ['a symbol as a key', { a: { [Symbol('s')]: 1 } }, /data\.a/],
        ['a lone surrogate', { a: { b: 'x\ud800' } }, /data\.a\.b/],
        ['a lone surrogate in a key', { a: { '\udc00': 1 } }, /data\.a/],
        ['a cyclic value', cyclic, /data/],
      ];
      test.each(cases)('%s', async (_, data, path) => {
        const stream = newStream();
        const events = sampleEvents(stream, 2);
        events[1]!.data = data as NewEvent['data'];
        const append = store.append(stream, 'no-stream', events);
        await expect(append).rejects.toThrow(AppendRefused);
        await expect(append).rejects.toThrow(path);
        expect(await store.readStream(stream)).toEqual([]);
        expect(await store.head()).toBe(start);
      });

      test('metadata is checked in the same way', async () => {
        const stream = newStream();
        const events = sampleEvents(stream);
        (events[0]!.metadata as { idempotency?: unknown }).idempotency = undefined;
        await expect(store.append(stream, 'no-stream', events)).rejects.toThrow(/metadata\.idempotency/);
      });

      test('an append of more than 900 kB in total', async () => {
        const stream = newStream();
        const half = (size: number) => ({ text: 'x'.repeat(size) });
        const tooLarge = sampleEvents(stream, 2, half(MAX_APPEND_BYTES / 2));
        await expect(store.append(stream, 'no-stream', tooLarge)).rejects.toThrow(AppendRefused);
        expect(await store.readStream(stream)).toEqual([]);
        await store.append(stream, 'no-stream', sampleEvents(stream, 2, half(MAX_APPEND_BYTES / 2 - 1_000)));
        expect(await store.readStream(stream)).toHaveLength(2);
      });

      test('no events, a stream name that is empty, ill-formed or over 512 bytes, a wrong index or size', async () => {
        const stream = newStream();
        const refused = [
          store.append(stream, 'no-stream', []),
          store.append('', 'no-stream', sampleEvents(stream)),
          store.append('a\ud800', 'no-stream', sampleEvents(stream)),
          store.append('ü'.repeat(257), 'no-stream', sampleEvents(stream)),
          store.append(stream, 'no-stream', sampleEvents(stream, 2).slice(0, 1)),
          store.append(stream, 'no-stream', sampleEvents(stream, 2).reverse()),
        ];
        for (const append of refused) await expect(append).rejects.toThrow(AppendRefused);
        expect(await store.head()).toBe(start);
      });

      test('everything else comes back exactly', async () => {
        const json = fc.jsonValue({ maxDepth: 4, noUnicodeString: false } as fc.JsonSharedConstraints);
        const exact = json.filter((value) => !/-0(?![.\d])|e\+?\d\d/.test(deepPrint(value as Json)));
        await fc.assert(
          fc.asyncProperty(exact, async (value) => {
            const stream = newStream();
            await store.append(stream, 'no-stream', sampleEvents(stream, 1, { value: value as Json }));
            expect((await store.readStream(stream))[0]!.data['value']).toEqual(value);
          }),
          { numRuns: 60 },
        );
        const stream = newStream();
        const texts = { 'ключ \u0000 "quoted" \\ud800': '🦊\u2028\ud83d\ude00', __proto__x: '', 'a.b': 'é' };
        await store.append(stream, 'no-stream', sampleEvents(stream, 1, texts));
        expect((await store.readStream(stream))[0]!.data).toEqual({ ...texts, index: 0 });
      });
    });

    describe('reading a stream', () => {
      test('an unknown stream is empty', async () => {
        expect(await store.readStream(newStream())).toEqual([]);
        const longest = newStream().padEnd(512, 'x');
        await store.append(longest, 'no-stream', sampleEvents(longest));
        expect(await store.readStream(longest)).toHaveLength(1);
        expect(await store.readStream(`${longest}x`)).toEqual([]);
        expect(await store.readStream(longest.padEnd(3_000, 'x'))).toEqual([]);
      });

      test('in order, from a revision, with a limit', async () => {
        const stream = newStream();
        for (let n = 0; n < 5; n++) {
          await store.append(stream, n === 0 ? 'no-stream' : n - 1, sampleEvents(stream, 1, { n }));
        }
        const read = async (options: Parameters<EventStore['readStream']>[1]) =>
          (await store.readStream(stream, options)).map(({ revision }) => revision);
        expect(await read({})).toEqual([0, 1, 2, 3, 4]);
        expect(await read({ from: 3 })).toEqual([3, 4]);
        expect(await read({ from: 1, limit: 2 })).toEqual([1, 2]);
        expect(await read({ from: 9 })).toEqual([]);
      });

      test('streams whose names have a common prefix are separate', async () => {
        const stream = newStream();
        const longer = `${stream}-more`;
        await store.append(longer, 'no-stream', sampleEvents(longer, 3));
        expect(await store.readStream(stream)).toEqual([]);
        await store.append(stream, 'no-stream', sampleEvents(stream));
        expect(await store.readStream(stream)).toHaveLength(1);
      });
    });

    describe('reading the log', () => {
      test('from any position, everything after it in order', async () => {
        const streams = Array.from({ length: 30 }, () => newStream());
        await Promise.all(
          streams.map((stream, n) => store.append(stream, 'no-stream', sampleEvents(stream, 1 + (n % 3)))),
        );
        const all = await everythingAfter(start);
        expect(all).toHaveLength(60);
        const positions = all.map(({ position }) => position);
        expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b));
        for (const from of [0, 7, 58, 59]) {
          expect(await everythingAfter(positions[from]!)).toEqual(all.slice(from + 1));
        }
        for (const stream of streams) {
          expect(all.filter((event) => event.stream === stream)).toEqual(await store.readStream(stream));
        }
      });

      test('slices end at the end of an append, also if it is larger than a slice', async () => {
        for (const size of [1, 2, 5, 1, 20, 3]) {
          const stream = newStream();
          await store.append(stream, 'no-stream', sampleEvents(stream, size));
        }
        for (const sliceSize of [1, 2, 3, 4, 7, 100]) {
          let events = 0;
          for await (const slice of store.readAll(start, { sliceSize })) {
            events += slice.length;
            expect(slice.at(-1)!.metadata.index).toBe(slice.at(-1)!.metadata.size - 1);
            expect(slice[0]!.metadata.index).toBe(0);
          }
          expect(events).toBe(32);
        }
      });

      test('ends at the head, and early when aborted', async () => {
        expect(await everythingAfter(await store.head())).toEqual([]);
        for (let n = 0; n < 5; n++) await appendOne();
        const abort = new AbortController();
        let slices = 0;
        for await (const _ of store.readAll(start, { sliceSize: 1, signal: abort.signal })) {
          if (++slices === 2) abort.abort();
        }
        expect(slices).toBe(2);
      });

      test('head, readAt and countAfter', async () => {
        expect(await store.countAfter(start)).toBe(0);
        const positions = [await appendOne(), await appendOne(), await appendOne()];
        expect(await store.head()).toBe(positions[2]);
        expect(await store.countAfter(start)).toBe(3);
        expect(await store.countAfter(positions[0]!)).toBe(2);
        expect(await store.countAfter(positions[2]!)).toBe(0);
        expect(await store.readAt(positions[1]!)).toMatchObject({ position: positions[1], type: 'SampleHappened' });
        expect(await store.readAt(positions[2]! + 1_000_000)).toBeUndefined();
        expect(await store.readAt(START)).toBeUndefined();
      });

      test('the log keeps its id and its events when it is reopened', async () => {
        const { logId } = store;
        const position = await appendOne();
        const event = await store.readAt(position);
        await reopen();
        expect(store.logId).toBe(logId);
        expect(logId).toMatch(/^[^.\s]+$/);
        expect(await store.readAt(position)).toEqual(event);
        expect(await store.head()).toBe(position);
      });

      test('agrees with a simple model under random appends', async () => {
        const names = Array.from({ length: 4 }, (_, n) => `${n}`);
        const step = fc.record({
          stream: fc.constantFrom(...names),
          expected: fc.oneof(fc.constant('right' as const), fc.constant('no-stream' as const), fc.nat(4)),
          size: fc.integer({ min: 1, max: 4 }),
          together: fc.boolean(),
        });
        await fc.assert(
          fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
            const run = newStream();
            const before = await store.head();
            const model: { stream: string; id: string }[] = [];
            let pending: Promise<unknown>[] = [];
            for (const [n, { stream, expected, size, together }] of steps.entries()) {
              const target = `${run}-${stream}`;
              const length = model.filter((event) => event.stream === target).length;
              const right: ExpectedRevision = length === 0 ? 'no-stream' : length - 1;
              const wanted = expected === 'right' ? right : expected;
              const events = sampleEvents(target, size, { n });
              const append = store.append(target, wanted, events);
              if (wanted === right) {
                events.forEach(({ id }) => model.push({ stream: target, id }));
                pending.push(expect(append).resolves.toMatchObject({ revision: length + size - 1 }));
              } else {
                const actual = length === 0 ? 'no-stream' : length - 1;
                pending.push(expect(append).rejects.toMatchObject({ name: 'WrongExpectedRevision', actual }));
              }
              if (!together) pending = [void (await Promise.all(pending))] as never;
            }
            await Promise.all(pending);
            const all = await everythingAfter(before, 3);
            expect(all.map(({ stream, id }) => ({ stream, id }))).toEqual(model);
          }),
          { numRuns: 25 },
        );
      });
    });

    describe('subscribing', () => {
      test('delivers earlier and new events once and in order, under concurrent appends', async () => {
        const total = 600;
        for (let n = 0; n < 50; n++) await appendOne();
        const abort = new AbortController();
        const seen: Position[] = [];
        const subscription = (async () => {
          for await (const slice of store.subscribe(start, { sliceSize: 7, signal: abort.signal })) {
            expect(slice.at(-1)!.metadata.index).toBe(slice.at(-1)!.metadata.size - 1);
            seen.push(...slice.map(({ position }) => position));
            if (seen.length === total) abort.abort();
          }
        })();
        let left = total - 50;
        const writer = async () => {
          while (left > 0) {
            const size = Math.min(left, 1 + (left % 3));
            left -= size;
            const stream = newStream();
            await store.append(stream, 'no-stream', sampleEvents(stream, size));
          }
        };
        await Promise.all([writer(), writer(), writer(), writer()]);
        await eventually(() => seen.length === total, 'the subscription');
        await subscription;
        expect(seen).toEqual((await everythingAfter(start)).map(({ position }) => position));
      });

      test('starts after the position given and waits at the head', async () => {
        const first = await appendOne();
        const abort = new AbortController();
        const subscription = store.subscribe(first, { signal: abort.signal })[Symbol.asyncIterator]();
        const next = subscription.next();
        const second = await appendOne();
        expect((await next).value).toMatchObject([{ position: second }]);
        abort.abort();
        expect((await subscription.next()).done).toBe(true);
      });

      test('ends without an error when aborted while it waits, or before it began', async () => {
        const abort = new AbortController();
        const subscription = store.subscribe(await store.head(), { signal: abort.signal })[Symbol.asyncIterator]();
        const next = subscription.next();
        setTimeout(() => abort.abort(), 20);
        expect((await next).done).toBe(true);
        for await (const _ of store.subscribe(START, { signal: abort.signal })) throw new Error('aborted before');
      });

      test('delivers what another handle appends', async () => {
        const other = await harness.open();
        const abort = new AbortController();
        const subscription = store.subscribe(start, { signal: abort.signal })[Symbol.asyncIterator]();
        const next = subscription.next();
        const stream = newStream();
        const { position } = await other.append(stream, 'no-stream', sampleEvents(stream));
        expect((await next).value).toMatchObject([{ position, stream }]);
        abort.abort();
        await subscription.next();
        await other.close();
      });
    });

    async function appendOne(): Promise<Position> {
      const stream = newStream();
      return (await store.append(stream, 'no-stream', sampleEvents(stream))).position;
    }
  });
}

/** Shows -0 and numbers beyond 2^53, which the encoder refuses. */
function deepPrint(value: Json): string {
  if (typeof value === 'number') return Object.is(value, -0) || Math.abs(value) > 2 ** 53 ? '-0' : '';
  if (typeof value !== 'object' || value === null) return '';
  return Object.values(value).map(deepPrint).join('');
}
