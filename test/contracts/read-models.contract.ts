import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import type { Clock } from '../../src/kernel/clock.js';
import type { Json } from '../../src/kernel/json.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import {
  type Batch,
  type Checkpoint,
  type Manifest,
  type RangeRow,
  type ReadModels,
  type RowKey,
} from '../../src/stores/ports/read-models.js';
import { rowAddress } from '../../src/stores/ports/row-key.js';
import type { Harness } from './harness.js';

const LOG = 'log-1';
const VIEWS = { people: 1 };
const START: Checkpoint = { log: LOG, position: 0, event_id: null };
const TTL_MS = 1_000;

function bytesOf(row: RowKey): Buffer {
  return Buffer.from(rowAddress(row));
}

/** The rules of the read models that every adapter keeps. The clock decides when a lease ends. */
export function describeReadModels(name: string, makeHarness: (clock: Clock) => Promise<Harness<ReadModels>>): void {
  describe(`${name}: read models contract`, () => {
    let now: number;
    let harness: Harness<ReadModels>;
    let models: ReadModels;
    let id: string;

    beforeEach(async () => {
      now = 1_800_000_000_000;
      harness = await makeHarness(() => now);
      models = await harness.open();
      id = `gen-${randomUUID().slice(0, 8)}`;
    });
    afterEach(async () => {
      await models.close();
      await harness.destroy();
    });

    const at = (position: number): Checkpoint => ({ log: LOG, position, event_id: `event-${position}` });
    const person = (key: string, sort?: string): RowKey => ({
      view: 'people',
      key,
      ...(sort !== undefined && { sort }),
    });

    type Changes = Omit<Partial<Batch>, 'puts'> & { puts?: { row: RowKey; value: Json }[] };
    function batch({ puts = [], ...over }: Changes = {}): Batch {
      const encoded = EncodedRows.of(puts);
      return { id: randomUUID(), base: START, holder: 'me', next: at(1), deletes: [], ...over, puts: encoded };
    }

    async function leased(generation = id): Promise<void> {
      await models.createGeneration(generation, VIEWS, LOG);
      expect(await models.acquireLease(generation, 'me', TTL_MS)).toBe(true);
    }

    async function value(row: RowKey, generation = id): Promise<Json | undefined> {
      return (await models.read(generation, [{ get: row }]))!.results[0] as Json | undefined;
    }

    async function range(key: string, options: { after?: string; reverse?: boolean; limit?: number } = {}) {
      const query = { range: { view: 'people', key, limit: 100, ...options } };
      return ((await models.read(id, [query]))!.results[0] as RangeRow[]).map(({ sort }) => sort);
    }

    async function generation(wanted = id) {
      return (await models.generations()).find((found) => found.id === wanted);
    }

    describe('the manifest', () => {
      const manifest = (revision: number, lens = 'a'): Manifest => ({
        revision,
        lens: { policy_id: null, content_hash: lens },
        model_hash: 'm',
        lens_revision: -1,
        views: { people: 'g' },
        previous_views: null,
      });

      test('is null at first, then what was swapped in, also after reopening', async () => {
        expect(await models.manifest()).toBeNull();
        expect(await models.swapManifest(manifest(1))).toBe(true);
        expect(await models.swapManifest(manifest(2, 'b'))).toBe(true);
        await models.close();
        models = await harness.open();
        expect(await models.manifest()).toEqual(manifest(2, 'b'));
      });

      test('is swapped only from the revision before, and by one of many', async () => {
        expect(await models.swapManifest(manifest(2))).toBe(false);
        expect(await models.manifest()).toBeNull();
        const outcomes = await Promise.all(['a', 'b', 'c', 'd'].map((lens) => models.swapManifest(manifest(1, lens))));
        expect(outcomes.filter(Boolean)).toHaveLength(1);
        expect(await models.swapManifest(manifest(1, 'z'))).toBe(false);
      });
    });

    describe('generations', () => {
      test('begin empty, building, at the start of their log', async () => {
        await models.createGeneration(id, VIEWS, LOG);
        expect(await generation()).toEqual({ id, views: VIEWS, status: 'building', checkpoint: START, lease: null });
        expect(await models.read(id, [{ get: person('a') }])).toEqual({
          status: 'building',
          checkpoint: START,
          results: [undefined],
        });
      });

      test('creating one that exists changes nothing', async () => {
        await leased();
        await models.apply(id, batch({ puts: [{ row: person('a'), value: 1 }] }));
        await models.setStatus(id, 'ready');
        await models.createGeneration(id, { other: 2 }, 'log-2');
        expect(await generation()).toMatchObject({ views: VIEWS, status: 'ready', checkpoint: at(1) });
        expect(await value(person('a'))).toBe(1);
      });

      test('return every kind of value as it was put', async () => {
        const values = [
          'text',
          '',
          '"',
          '\\',
          'a\nb "c" \\u0041 \u{1F600}',
          0,
          -1.5,
          true,
          null,
          [],
          ['a', [1]],
          { a: '"' },
        ];
        const rows = values.map((each, n) => ({ row: person('all', String(n).padStart(2, '0')), value: each }));
        await leased();
        await models.apply(id, batch({ puts: rows }));
        const { results } = (await models.read(id, [{ range: { view: 'people', key: 'all', limit: 100 } }]))!;
        expect((results[0] as RangeRow[]).map((row) => row.value)).toEqual(values);
        for (const [n, { row }] of rows.entries()) expect(await value(row)).toEqual(values[n]);
      });

      test('exist side by side', async () => {
        const other = `${id}-2`;
        await leased();
        await leased(other);
        await models.apply(id, batch({ puts: [{ row: person('a'), value: 'old' }] }));
        await models.apply(other, batch({ next: at(7), puts: [{ row: person('a'), value: 'new' }] }));
        expect(await value(person('a'))).toBe('old');
        expect(await value(person('a'), other)).toBe('new');
        expect((await generation(other))!.checkpoint).toEqual(at(7));
      });

      test('one that does not exist reads as undefined, and refuses leases and batches', async () => {
        expect(await models.read('nowhere', [{ get: person('a') }])).toBeUndefined();
        expect(await models.acquireLease('nowhere', 'me', TTL_MS)).toBe(false);
        expect(await models.apply('nowhere', batch())).toBe('refused');
        expect(await models.scan('nowhere', 'people', null, 10)).toEqual({ rows: [], cursor: null });
      });

      test('a dropped one reads as undefined, refuses batches, and does not come back', async () => {
        const other = await harness.open();
        await leased();
        await models.apply(id, batch({ puts: [{ row: person('a'), value: 1 }] }));
        expect((await other.read(id, [{ get: person('a') }]))!.results).toEqual([1]);

        await models.dropGeneration(id);
        for (const reader of [models, other]) {
          expect(await reader.read(id, [{ get: person('a') }])).toBeUndefined();
          expect(await reader.apply(id, batch({ base: at(1), next: at(2) }))).toBe('refused');
          expect(await reader.acquireLease(id, 'me', TTL_MS)).toBe(false);
        }
        await models.createGeneration(id, VIEWS, LOG);
        expect(await models.read(id, [])).toBeUndefined();
        expect((await generation())?.status ?? 'dropped').toBe('dropped');
        await models.dropGeneration(id);
        await other.close();
      });

      test('while one is being dropped, a read returns its rows or undefined, and a batch is refused', async () => {
        await leased();
        await models.apply(id, batch({ puts: [{ row: person('a'), value: 1 }] }));
        const puts = Array.from({ length: 6_000 }, (_, n) => ({ row: person('b', key(n)), value: n }));
        const late = models.apply(id, batch({ base: at(1), next: at(2), puts }));
        let dropping = true;
        const reader = (async () => {
          while (dropping) {
            expect([1, undefined]).toContain((await models.read(id, [{ get: person('a') }]))?.results[0]);
            await new Promise(setImmediate);
          }
        })();
        await models.dropGeneration(id);
        dropping = false;
        await reader;
        expect(['applied', 'refused']).toContain(await late);
        expect(await models.read(id, [])).toBeUndefined();
      });

      test('are neither leased nor changed for another log', async () => {
        await models.createGeneration(id, VIEWS, LOG);
        await models.setStatus(id, 'ready', 'log-2');
        expect(await models.acquireLease(id, 'me', TTL_MS, 'log-2')).toBe(false);
        expect(await generation()).toMatchObject({ status: 'building', lease: null });
        await models.setStatus(id, 'ready', LOG);
        expect(await models.acquireLease(id, 'me', TTL_MS, LOG)).toBe(true);
        expect(await generation()).toMatchObject({ status: 'ready', lease: { holder: 'me' } });
      });

      test('are found when another handle has made them', async () => {
        const other = await harness.open();
        await leased();
        await models.apply(id, batch({ puts: [{ row: person('a'), value: 1 }] }));
        expect((await other.read(id, [{ get: person('a') }]))!.results).toEqual([1]);
        expect((await other.generations()).map((found) => found.id)).toContain(id);
        await other.close();
      });

      test('keep rows, checkpoint and status when reopened', async () => {
        await leased();
        await models.apply(id, batch({ puts: [{ row: person('a'), value: { n: 1 } }] }));
        await models.setStatus(id, 'ready');
        await models.close();
        models = await harness.open();
        expect(await models.read(id, [{ get: person('a') }])).toEqual({
          status: 'ready',
          checkpoint: at(1),
          results: [{ n: 1 }],
        });
      });
    });

    describe('leases', () => {
      test('have one holder at a time, who may renew; are free again when released or expired', async () => {
        await leased();
        expect(await models.acquireLease(id, 'you', TTL_MS)).toBe(false);
        now += TTL_MS - 1;
        expect(await models.acquireLease(id, 'me', TTL_MS)).toBe(true);
        expect((await generation())!.lease).toEqual({ holder: 'me', expires_at: now + TTL_MS });
        await models.releaseLease(id, 'you');
        expect(await models.acquireLease(id, 'you', TTL_MS)).toBe(false);
        await models.releaseLease(id, 'me');
        expect(await models.acquireLease(id, 'you', TTL_MS)).toBe(true);
        now += TTL_MS;
        expect((await generation())!.lease).toBeNull();
        expect(await models.acquireLease(id, 'me', TTL_MS)).toBe(true);
      });

      test('are free again when the clock is set back, not held until it catches up', async () => {
        await leased();
        now -= 3_600_000;
        expect(await models.acquireLease(id, 'you', TTL_MS)).toBe(true);
        expect((await generation())!.lease).toEqual({ holder: 'you', expires_at: now + TTL_MS });
      });

      test('of many concurrent requests, one gets the lease', async () => {
        await models.createGeneration(id, VIEWS, LOG);
        const holders = Array.from({ length: 20 }, (_, n) => models.acquireLease(id, `holder-${n}`, TTL_MS));
        expect((await Promise.all(holders)).filter(Boolean)).toHaveLength(1);
      });

      test.each([
        ['nobody has it', async () => models.releaseLease(id, 'me')],
        ['it is over', async () => void (now += TTL_MS)],
        [
          'another has it',
          async () => {
            now += TTL_MS;
            await models.acquireLease(id, 'you', TTL_MS);
          },
        ],
      ])('a batch is refused when %s', async (_, lose) => {
        await leased();
        await lose();
        expect(await models.apply(id, batch({ puts: [{ row: person('a'), value: 1 }] }))).toBe('refused');
        expect(await models.read(id, [{ get: person('a') }])).toMatchObject({
          checkpoint: START,
          results: [undefined],
        });
      });
    });

    describe('applying', () => {
      beforeEach(() => leased());

      test('changes rows and checkpoint in one step', async () => {
        await models.apply(id, batch({ puts: ['a', 'b', 'c'].map((key) => ({ row: person(key), value: key })) }));
        await models.apply(
          id,
          batch({ base: at(1), next: at(5), puts: [{ row: person('b'), value: 'B' }], deletes: [person('c')] }),
        );
        const queries = ['a', 'b', 'c'].map((key) => ({ get: person(key) }));
        expect(await models.read(id, queries)).toEqual({
          status: 'building',
          checkpoint: at(5),
          results: ['a', 'B', undefined],
        });
      });

      test.each<[string, Checkpoint]>([
        ['position', at(2)],
        ['event id', { log: LOG, position: 1, event_id: 'another' }],
        ['missing event id', { log: LOG, position: 1, event_id: null }],
        ['log', { ...at(1), log: 'log-2' }],
        ['start', START],
      ])('is refused from a base with another %s', async (_, base) => {
        await models.apply(id, batch());
        const refused = batch({ base, next: at(3), puts: [{ row: person('a'), value: 1 }], deletes: [] });
        expect(await models.apply(id, refused)).toBe('refused');
        expect(await models.read(id, [{ get: person('a') }])).toMatchObject({
          checkpoint: at(1),
          results: [undefined],
        });
      });

      test('the same batch twice is applied once and returns the same result', async () => {
        const counted = batch({ puts: [{ row: person('a'), value: 1 }] });
        expect(await models.apply(id, counted)).toBe('applied');
        expect(await models.apply(id, counted)).toBe('applied');
        now += TTL_MS; // A retry may come after the lease is over: what was applied stays applied.
        expect(await models.apply(id, counted)).toBe('applied');
        await models.acquireLease(id, 'me', TTL_MS);
        expect(await models.apply(id, batch({ base: at(1), next: at(2) }))).toBe('applied');
        expect(await models.apply(id, counted)).toBe('refused');
        expect((await generation())!.checkpoint).toEqual(at(2));
      });

      test('of two batches from one base, one is applied', async () => {
        const outcomes = await Promise.all(
          [2, 3, 4].map((position) => models.apply(id, batch({ next: at(position) }))),
        );
        expect(outcomes.filter((outcome) => outcome === 'applied')).toHaveLength(1);
      });

      test('a batch of many rows', async () => {
        const puts = Array.from({ length: 12_000 }, (_, n) => ({ row: person('many', key(n)), value: n }));
        expect(await models.apply(id, batch({ puts }))).toBe('applied');
        expect(await range('many', { after: key(11_990) })).toEqual([...Array(9).keys()].map((n) => key(11_991 + n)));
      });

      test('batches in any order of rows, some of them several times or beside older ones, leave what a map has', async () => {
        const row = fc.record({
          key: fc.constantFrom('a', 'a!', 'b', 'ü'),
          sort: fc.constantFrom(undefined, '', '1', '10', '2', '\u{1F600}', '\uffee'),
        });
        const content = fc.oneof(fc.integer(), fc.constantFrom('', 'ü', 'x'.repeat(254), 'x'.repeat(70_000)));
        const change = fc.record({
          puts: fc.array(fc.tuple(row, content), { maxLength: 12 }),
          deletes: fc.array(row, { maxLength: 3 }),
          ascends: fc.boolean(),
        });
        await fc.assert(
          fc.asyncProperty(fc.array(change, { minLength: 2, maxLength: 5 }), async (changes) => {
            id = `gen-${randomUUID().slice(0, 8)}`;
            await leased();
            const expected = new Map<string, { row: RowKey; value: Json }>();
            let base = START;
            for (const { puts, deletes, ascends } of changes) {
              const rows = puts.map(([{ key, sort }, value]) => ({ row: person(key, sort), value: value as Json }));
              if (ascends) rows.sort((a, b) => Buffer.compare(bytesOf(a.row), bytesOf(b.row)));
              const gone = deletes.map(({ key, sort }) => person(key, sort));
              for (const each of gone) expected.delete(rowAddress(each));
              for (const each of rows) expected.set(rowAddress(each.row), each);
              const next = at(base.position + 1);
              expect(await models.apply(id, batch({ base, next, puts: rows, deletes: gone }))).toBe('applied');
              base = next;
            }
            const { rows } = await models.scan(id, 'people', null, 1_000);
            const inOrder = (found: { row: RowKey; value: Json }[]) =>
              found.sort((a, b) => Buffer.compare(bytesOf(a.row), bytesOf(b.row)));
            expect(inOrder(rows)).toEqual(inOrder([...expected.values()]));
          }),
          { numRuns: 30 },
        );
      });

      test('rows that do not exist yet are written beside others that are replaced', async () => {
        await leased();
        const rows = (...all: [RowKey, Json][]) => all.map(([row, value]) => ({ row, value }));
        const first = rows([person('a', '2'), 'old'], [person('b'), 'old'], [person('a', '4'), 'kept']);
        await models.apply(id, batch({ puts: first }));
        const puts = rows(
          [person('c'), 'new'],
          [person('a', '3'), 'new'],
          [person('a', '1'), 'new'],
          [person('a', '2'), 'changed'],
          [person('b'), 'changed'],
        );
        expect(await models.apply(id, batch({ base: at(1), next: at(2), puts }))).toBe('applied');
        const { results } = (await models.read(id, [{ range: { view: 'people', key: 'a', limit: 100 } }]))!;
        expect((results[0] as RangeRow[]).map(({ sort, value }) => [sort, value])).toEqual([
          ['1', 'new'],
          ['2', 'changed'],
          ['3', 'new'],
          ['4', 'kept'],
        ]);
        expect([await value(person('b')), await value(person('c'))]).toEqual(['changed', 'new']);
        expect(await models.count(id, 'people')).toBe(6);
      });

      test('a batch with an invalid row changes nothing', async () => {
        const puts = [{ row: person('a'), value: 1 }];
        const none = person('x'.repeat(5_000));
        expect(() => batch({ puts: [...puts, { row: none, value: 2 }] })).toThrow(RangeError);
        const change = batch({ puts, deletes: [none] });
        await expect(models.apply(id, change)).rejects.toThrow(RangeError);
        expect(await models.read(id, [{ get: person('a') }])).toMatchObject({
          checkpoint: START,
          results: [undefined],
        });
        expect(await models.apply(id, batch())).toBe('applied');
      });
    });

    describe('reading', () => {
      beforeEach(() => leased());

      test('any JSON value comes back as it was', async () => {
        const values: Json[] = [
          null,
          false,
          0,
          '',
          1.5,
          -7,
          'ключ 🦊',
          [],
          {},
          [1, [2]],
          { a: { b: [null] } },
          'x'.repeat(50_000),
        ];
        await models.apply(id, batch({ puts: values.map((value, n) => ({ row: person(`p${n}`), value })) }));
        const read = await models.read(
          id,
          values.map((_, n) => ({ get: person(`p${n}`) })),
        );
        expect(read!.results).toEqual(values);
      });

      test('ranges in both directions, beyond a row, with a limit', async () => {
        const sorts = ['0001', '0002', '0005', '0010', '0100'];
        const puts = ['a', 'aa', 'b'].flatMap((name) =>
          sorts.map((sort) => ({ row: person(name, sort), value: `${name}${sort}` })),
        );
        await models.apply(id, batch({ puts: [...puts, { row: person('a'), value: 'single' }] }));
        expect(await range('a')).toEqual(sorts);
        expect(await range('a', { reverse: true })).toEqual([...sorts].reverse());
        expect(await range('a', { after: '0002' })).toEqual(['0005', '0010', '0100']);
        expect(await range('a', { after: '0003', limit: 1 })).toEqual(['0005']);
        expect(await range('a', { after: '0010', reverse: true })).toEqual(['0005', '0002', '0001']);
        expect(await range('a', { after: '0009', reverse: true, limit: 2 })).toEqual(['0005', '0002']);
        expect(await range('a', { after: '0100' })).toEqual([]);
        expect(await range('a', { after: '0001', reverse: true })).toEqual([]);
        expect(await range('a', { limit: 0 })).toEqual([]);
        expect(await range('nobody')).toEqual([]);
        expect(await value(person('a'))).toBe('single');
        expect(await value(person('a', '0005'))).toBe('a0005');
      });

      test('of many concurrent readers, each gets its own result', async () => {
        const puts = Array.from({ length: 40 }, (_, n) => [
          { row: person(`p${n}`), value: n },
          { row: person(`p${n}`, `${n}`), value: [n] },
        ]).flat();
        await models.apply(id, batch({ puts }));
        await models.createGeneration('empty', VIEWS, LOG);
        const asked = Array.from({ length: 40 }, async (_, n) => {
          const { view, key } = person(`p${n}`);
          const own = await models.read(id, [
            { range: { view, key, limit: 5 } },
            { get: person('nobody') },
            { get: person(`p${n}`) },
            { get: person('nobody', '1') },
            { get: person(`p${n}`, `${n}`) },
          ]);
          const none = await models.read('empty', [{ get: person(`p${n}`) }]);
          expect(own!.results).toEqual([[{ sort: `${n}`, value: [n] }], undefined, n, undefined, [n]]);
          expect(own!.checkpoint).toEqual((await models.read(id, []))!.checkpoint);
          expect(none).toMatchObject({ status: 'building', checkpoint: { position: 0 }, results: [undefined] });
          expect(await models.read('never-made', [{ get: person(`p${n}`) }])).toBeUndefined();
        });
        await Promise.all(asked);
        const all = Array.from({ length: 9_000 }, (_, n) => ({ get: person(`p${n}`) }));
        const { results } = (await models.read(id, all))!;
        expect([results.length, results[39], results[40], results[8_999]]).toEqual([9_000, 39, undefined, undefined]);
      });

      test('a range agrees with a sorted list', async () => {
        const sort = fc.stringMatching(/^[ -~]{1,6}$/);
        const sorts = fc.sample(sort, 200);
        const puts = sorts.map((s) => ({ row: person('k', s), value: s }));
        await models.apply(id, batch({ puts }));
        const sorted = [...new Set(sorts)].sort();
        await fc.assert(
          fc.asyncProperty(sort, fc.boolean(), fc.integer({ min: 1, max: 300 }), async (after, reverse, limit) => {
            const beyond = sorted.filter((s) => (reverse ? s < after : s > after));
            if (reverse) beyond.reverse();
            expect(await range('k', { after, reverse, limit })).toEqual(beyond.slice(0, limit));
          }),
          { numRuns: 60 },
        );
      });

      test('one call is one snapshot, whatever is applied meanwhile', async () => {
        const keys = Array.from({ length: 20 }, (_, n) => `k${n}`);
        let base = START;
        const queries = [
          ...keys.map((name) => ({ get: person(name) })),
          { range: { view: 'people', key: 'r', limit: 5 } },
        ];
        let writing = true;
        const reader = (async () => {
          while (writing) {
            const read = (await models.read(id, queries))!;
            const expected = read.checkpoint.position === 0 ? undefined : read.checkpoint.position;
            const values = (read.results as (Json | undefined)[]).slice(0, -1);
            expect(new Set(values)).toEqual(new Set([expected]));
            const rows = read.results.at(-1) as RangeRow[];
            expect(rows.map((row) => row.value)).toEqual(expected === undefined ? [] : [expected]);
            await new Promise(setImmediate);
          }
        })();
        for (let n = 1; n <= 40; n++) {
          const puts = [...keys.map((name) => ({ row: person(name), value: n })), { row: person('r', 's'), value: n }];
          expect(await models.apply(id, batch({ base, next: at(n), puts }))).toBe('applied');
          base = at(n);
        }
        writing = false;
        await reader;
      });
    });

    describe('scanning', () => {
      test('covers every row of one view once, whatever the page', async () => {
        await leased();
        const rows: RowKey[] = [];
        for (let n = 0; n < 57; n++) rows.push(n % 3 === 0 ? person(`k${n}`) : person(`k${n % 7}`, key(n)));
        const others = [
          { view: 'peopl', key: 'x' },
          { view: 'people2', key: 'x' },
          { view: 'pets', key: 'x', sort: 's' },
        ];
        const puts = [...rows, ...others].map((row, n) => ({ row, value: n }));
        await models.apply(id, batch({ puts }));
        for (const limit of [1, 2, 10, 57, 1_000]) {
          const found: { row: RowKey; value: Json }[] = [];
          let cursor: string | null = null;
          do {
            const page = await models.scan(id, 'people', cursor, limit);
            expect(page.rows.length).toBeLessThanOrEqual(limit);
            found.push(...page.rows);
            cursor = page.cursor;
          } while (cursor !== null);
          const byValue = found.sort((a, b) => (a.value as number) - (b.value as number));
          expect(byValue).toEqual(rows.map((row, n) => ({ row, value: n })));
        }
        expect(await models.scan(id, 'nothing', null, 10)).toEqual({ rows: [], cursor: null });
        expect(await models.count(id, 'people')).toBe(57);
        expect(await models.count(id, 'nothing')).toBe(0);
      });
    });
  });
}

function key(n: number): string {
  return String(n).padStart(6, '0');
}
