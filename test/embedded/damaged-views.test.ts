import { jest } from '@jest/globals';
import { readFileSync, renameSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../src/kernel/clock.js';
import { Logger } from '../../src/kernel/logger.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Projector } from '../../src/read-side/projector.js';
import { verify } from '../../src/read-side/verify.js';
import { type ViewRead, Views } from '../../src/read-side/views.js';
import { flawOf } from '../../src/stores/lmdb/database-file.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbReadModels } from '../../src/stores/lmdb/lmdb-read-models.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import type { RowQuery } from '../../src/stores/ports/read-models.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { temporaryFolder } from './temporary-folder.js';

/** Read models that are not what was written: it is noticed, nothing of it is served, and they are built again. */

const clock: Clock = Date.now;
let folder: { path: string; remove(): Promise<void> };
beforeEach(async () => void (folder = await temporaryFolder()));
afterEach(() => folder.remove());

const START = { log: 'log', position: 0, event_id: null };
const APPLIED = { log: 'log', position: 1, event_id: 'event-1' };
const person = (n: number) => `person-${String(n).padStart(5, '0')}`;
const get = (n: number): RowQuery => ({ get: { view: 'people', key: person(n) } });
const range: RowQuery = { range: { view: 'deeds', key: 'all', limit: 10_000 } };

/** A closed generation `one` of many rows. @returns the path of its file */
async function generation(rows = 2_000, more = ''): Promise<string> {
  const models = await LmdbReadModels.open(folder.path, { clock });
  await models.createGeneration('one', { people: 1 }, 'log');
  await models.acquireLease('one', 'me', 60_000);
  const puts = EncodedRows.of(
    Array.from({ length: rows }, (_, n) => [
      { row: { view: 'people', key: person(n) }, value: { total: n, name: `name-${n}${more}` } },
      { row: { view: 'deeds', key: 'all', sort: person(n) }, value: n },
    ]).flat(),
  );
  await models.apply('one', { id: 'b', base: START, holder: 'me', next: APPLIED, puts, deletes: [] });
  await models.setStatus('one', 'ready');
  await models.close();
  return join(folder.path, 'g-one', 'data.mdb');
}

/** Changes a text to one of the same length, in every copy of its page. */
function change(path: string, text: string, to: string): void {
  const bytes = readFileSync(path);
  let changed = 0;
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) changed += bytes.write(to, at);
  expect(changed).toBeGreaterThan(0);
  writeFileSync(path, bytes);
}

const read = async (...queries: RowQuery[]) => {
  const models = await LmdbReadModels.open(folder.path, { clock });
  try {
    const answer = await models.read('one', queries);
    const [there] = await models.generations();
    expect(there!.status).toBe(answer!.status);
    return { ...answer!, damage: there!.damage };
  } finally {
    await models.close();
  }
};

test.each([
  ['first', 0],
  ['second', 4_096],
])(
  'every wrong bit in the size of pages in the %s meta page is found before the file is mapped',
  async (_which, at) => {
    const path = await generation(1);
    const good = readFileSync(path);
    expect(await flawOf(path)).toBeUndefined();
    for (let bit = 0; bit < 32; bit++) {
      const bytes = Buffer.from(good);
      bytes[at + 48 + (bit >> 3)]! ^= 1 << (bit & 7);
      writeFileSync(path, bytes);
      expect([bit, await flawOf(path)]).toEqual([bit, 'is not a database that this build can read']);
    }
  },
);

describe('a row that is not what was written', () => {
  const changed: [what: string, from: string, to: string, queries: RowQuery[]][] = [
    ['its content', '"total":700,', '"total":701,', [get(700)]],
    ['its key, which a look-up of it does not find', 'people\0person-00700', 'people\0person-00709', [get(700)]],
    ['its key, read in a range', 'deeds\0all\0person-00700', 'deeds\0all\0person-007o0', [range]],
    ['its key, in its place but beyond its range', 'deeds\0all\0person-01999', 'deeds\0all person-01999', [range]],
  ];

  test.each(changed)('(%s) is found where the file is opened, whatever is read', async (_what, from, to, queries) => {
    change(await generation(), from, to);
    const found = await read(get(3));
    expect(found).toMatchObject({ status: 'damaged', results: [undefined] });
    expect(found.damage).toMatch(/its file is damaged at page/);
    expect((await read(...queries)).status).toBe('damaged');
  });

  test('(the last bytes of a long one) is found where the file is opened', async () => {
    const path = await generation(1, 'x'.repeat(20_000));
    change(path, 'xx"}', 'xy"}');
    expect(await read(get(3))).toMatchObject({ status: 'damaged', damage: expect.stringContaining('at page') });
  });

  test('makes an open generation damaged once it is read, for this process and the next', async () => {
    const path = await generation();
    const models = await LmdbReadModels.open(folder.path, { clock });
    const statusOf = async (query: RowQuery) => (await models.read('one', [query]))!.status;
    expect(await statusOf(get(3))).toBe('ready');
    change(path, '"total":700,', '"total":701,');
    expect(await statusOf(get(3))).toBe('ready');
    expect(await statusOf(get(700))).toBe('damaged');
    expect(await statusOf(get(3))).toBe('damaged');
    expect((await models.generations())[0]!.damage).toBe('a row of people is not what was written');
    await models.close();
    expect((await read(get(3))).status).toBe('damaged');
  });
});

test('rows that a damaged page hides are missed where the file is opened', async () => {
  const path = await generation();
  const bytes = readFileSync(path);
  // The count of nodes of a page that holds this row, less one: the last is not found any more.
  const page = Math.floor(bytes.lastIndexOf('person-00700') / 4_096) * 4_096;
  bytes.writeUInt16LE(bytes.readUInt16LE(page + 20) - 2, page + 20);
  writeFileSync(path, bytes);
  expect(await flawOf(path)).toBeUndefined(); // which the library would have accepted
  expect(await flawOf(path, true)).toMatch(/is damaged at page \d+$/);
  expect(await read(get(3))).toMatchObject({
    status: 'damaged',
    damage: expect.stringMatching(/^its file is damaged/),
  });
});

test('a file of more than a gigabyte that was cut is noticed, although its leaves are not all read', async () => {
  const environment = await LmdbEnvironment.open(folder.path, { databases: { rows: { encoding: 'binary' } } });
  // Long keys make a deep tree of few pages.
  const keys = Array.from({ length: 64 }, (_, n) => String(n).padStart(1_900, '0'));
  await environment.write(() => {
    for (const key of keys) environment.database('rows').putSync(key, Buffer.alloc(key === keys[40] ? 20_000 : 8));
  });
  await environment.close();
  const path = join(folder.path, 'data.mdb');
  expect(await flawOf(path, true)).toBeUndefined();

  // Its long value is said to be beyond the first gigabyte, and so is the last page.
  const [page, far, pages] = [4_096, 300_000, 5];
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf(keys[40]!); at >= 0; at = bytes.indexOf(keys[40]!, at + 1)) {
    const value = at + 1_900 + ((at + 1_900) % 2);
    if (bytes.readBigUInt64LE(value + 16) === BigInt(pages)) bytes.writeBigUInt64LE(BigInt(far), value);
  }
  for (const meta of [0, page]) bytes.writeBigUInt64LE(BigInt(far + pages - 1), meta + 144);
  writeFileSync(path, bytes);
  truncateSync(path, (far + pages) * page);
  expect([await flawOf(path), await flawOf(path, true)]).toEqual([undefined, undefined]);
  truncateSync(path, (far + pages - 1) * page);
  const cut = expect.stringMatching(/^is cut or damaged: it has 300004 pages and refers to page 300004$/);
  expect([await flawOf(path), await flawOf(path, true)]).toEqual([cut, cut]);
});

test('a checkpoint that is not what was written makes the generation damaged', async () => {
  change(await generation(), '"event_id":"event-1"', '"event_id":"event-2"');
  expect(await read(get(3))).toMatchObject({ status: 'damaged', damage: 'its header is not what was written' });
});

test('a generation that turns out to be damaged while its rows are counted is given up', async () => {
  change(await generation(), '"event_id":"event-1"', '"event_id":"event-2"');
  const models = await LmdbReadModels.open(folder.path, { clock });
  try {
    await expect(models.count('one', 'people')).rejects.toMatchObject({ code: 'read_models_damaged' });
    expect((await models.generations())[0]).toMatchObject({ status: 'damaged' });
  } finally {
    await models.close();
  }
});

test.each([
  ['is empty', (path: string) => truncateSync(path, 0)],
  ['is gone', (path: string) => rmSync(join(path, '..'), { recursive: true })],
])('a generation whose file %s is damaged', async (_what, damage) => {
  damage(await generation());
  expect(await read(get(3))).toMatchObject({ status: 'damaged', damage: 'its rows are gone' });
});

test('nothing is added to a damaged generation, nobody leads it, and it is dropped without being opened', async () => {
  const path = await generation();
  change(path, '"total":700,', '"total":701,');
  const models = await LmdbReadModels.open(folder.path, { clock });
  await models.read('one', [get(700)]);
  expect(await models.acquireLease('one', 'me', 60_000)).toBe(false);
  const puts = EncodedRows.of([]);
  const batch = { id: 'c', base: APPLIED, holder: 'me', next: APPLIED, puts, deletes: [] };
  expect(await models.apply('one', batch)).toBe('refused');
  await models.setStatus('one', 'ready');
  expect((await models.generations())[0]!.status).toBe('damaged');
  await expect(models.scan('one', 'people', null, 10)).rejects.toMatchObject({ code: 'read_models_damaged' });
  await models.dropGeneration('one');
  expect(() => readFileSync(path)).toThrow(/ENOENT/);
  await models.close();
});

describe('a list of generations that is not what was written', () => {
  const damage = async () => {
    await generation();
    change(join(folder.path, 'control', 'data.mdb'), '"people":1', '"people":2');
  };

  test('is refused with a sentence', async () => {
    await damage();
    await expect(LmdbReadModels.open(folder.path, { clock })).rejects.toThrow(
      /control\/data\.mdb is damaged: start the service, which builds the read models again, or delete \S+\.$/,
    );
  });

  test('is given up with all read models by a process that builds them again', async () => {
    await damage();
    const told: string[] = [];
    const models = await LmdbReadModels.open(folder.path, { clock, onGivenUp: (what) => told.push(what) });
    expect(told).toEqual([expect.stringMatching(/control\/data\.mdb is damaged$/)]);
    expect(await models.generations()).toEqual([]);
    await models.close();
    await (await LmdbReadModels.open(folder.path, { clock })).close();
  });
});

describe('a failure that is not damage', () => {
  const failing = new StoreUnavailable('the disk does not read or write it (EIO)');

  test('of the list of generations deletes nothing', async () => {
    await generation();
    const told: string[] = [];
    const reads = jest.spyOn(LmdbEnvironment.prototype, 'read').mockImplementationOnce(() => {
      throw failing;
    });
    const opening = LmdbReadModels.open(folder.path, { clock, onGivenUp: (what) => told.push(what) });
    await expect(opening).rejects.toThrow(failing);
    reads.mockRestore();
    expect(told).toEqual([]);
    expect((await read(get(3))).status).toBe('ready');
  });

  test('of a file that cannot be looked for does not make its generation damaged', async () => {
    await generation();
    const [path, aside] = [join(folder.path, 'g-one'), join(folder.path, 'aside')];
    renameSync(path, aside);
    symlinkSync(path, path);
    await expect(read(get(3))).rejects.toThrow(/g-one\/data\.mdb: it cannot be used \(ELOOP\): /);
    rmSync(path);
    renameSync(aside, path);
    expect((await read(get(3))).status).toBe('ready');
  });
});

test('a running projector builds damaged read models again, and reads are refused until then', async () => {
  const store = await LmdbEventStore.open(join(folder.path, 'log'));
  const models = await LmdbReadModels.open(join(folder.path, 'views'), { clock });
  const lines: string[] = [];
  const projector = new Projector(PROJECTIONS, store, models, new Logger('warn', (line) => lines.push(line)));
  const views = new Views(store, models);
  const codes = new Set<string>();
  /** The first answer, once there is one. */
  const look = async () => {
    const answers: ViewRead[] = [];
    const read = () => views.read([{ get: { view: 'identities', key: 'tris:member-1' } }]);
    await eventually(async () => {
      await read().then(
        (answer) => answers.push(answer),
        ({ code }: { code: string }) => codes.add(code),
      );
      return answers.length > 0;
    }, 'an answer');
    return answers[0]!;
  };
  try {
    const data = { tris_id: 'tris:member-1', metric: 'financial_loan', criticality: 'High', platform_id: 'lender' };
    await plantAction(store, { ...data, evidence_hash: null });
    await projector.start();
    expect(await views.waitForPosition(await store.head(), 30_000)).toBe(true);
    const right = (await look()).results;
    expect(right[0]).toBeDefined();

    const env = await LmdbEnvironment.open(join(folder.path, 'views', 'g-g1'), { databases: {} });
    await env.write(() => {
      const rows = env.database<Buffer>('checked_rows');
      const row = Buffer.from(rows.get('identities\0tris:member-1')!);
      row[20]! ^= 4;
      rows.putSync('identities\0tris:member-1', row);
    });
    await env.close();

    codes.clear();
    expect(await look()).toMatchObject({ generation: 'g2', results: right });
    expect([...codes][0]).toBe('read_models_damaged');
    expect([...codes].filter((code) => !/^(read_models_damaged|projection_)/.test(code))).toEqual([]);
    const said = lines.filter((line) => line.includes('read_models_damaged'));
    expect(said).toHaveLength(1);
    expect(said[0]).toMatch(/g1: a row of identities is not what was written: they are built again from the log; if/);
    expect(await verify(store, models)).toMatchObject({ difference: null });
  } finally {
    await projector.stop();
    await models.close();
    await store.close();
  }
});
