import { once } from 'node:events';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join, resolve } from 'node:path';
import { leafOf, treeOf } from '../../clients/typescript/src/audit.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { readEntry, writeEntry } from '../../src/stores/lmdb/stored-event.js';
import { INDEX_DATABASES } from '../../src/stores/lmdb/stream-index.js';
import { Server } from '../e2e/server.js';
import { SEED, limit, randomFrom, repeated } from '../faults/faults.js';
import { Store, SLOW, action, actions, exported } from './credence.js';

/** `credence compare`: whether a log still begins with what somebody kept, on folders that somebody has rewritten. */

const DATABASES = { events: { keyEncoding: 'uint32', encoding: 'binary' }, ...INDEX_DATABASES } as const;
const MEMBER = 'tris:member-7';

let store: Store;
let kept: string;
let root: string;
let lines: string[];
let sound: string;

beforeAll(async () => {
  store = await Store.create();
  expect((await store.run('import', store.file('actions.ndjson', actions(400)))).code).toBe(0);
  kept = join(store.folder, 'kept.ndjson');
  expect((await store.run('export', '--out', kept)).code).toBe(0);
  lines = readFileSync(kept, 'utf8').trimEnd().split('\n').slice(0, -1);
  const tree = treeOf(lines.map(leafOf));
  root = store.file('kept.txt', ['credence.example/log', String(tree.size), Buffer.from(tree.root).toString('base64')]);
  const later = Array.from({ length: 10 }, (_, n) => action(1_000 + n));
  expect((await store.run('import', store.file('later.ndjson', later))).code).toBe(0);
  sound = join(store.folder, 'sound');
  cpSync(store.data, sound, { recursive: true });
}, SLOW);
afterAll(() => store.remove());
afterEach(() => {
  rmSync(store.data, { recursive: true });
  cpSync(sound, store.data, { recursive: true });
});

/** As an operator of the folder can: with the product's own writer of entries, so that all checksums are right. */
async function rewrite(events: readonly RecordedEvent[]): Promise<void> {
  const env = await LmdbEnvironment.open(join(store.data, 'log'), { databases: DATABASES });
  const entries = env.database<Buffer, number>('events');
  await env.write(() => {
    for (const event of events) {
      const before = entries.get(event.position)!;
      expect(readEntry(before, before.length, event.position).id).toBe(event.id);
      const bytes = Buffer.alloc(4_000);
      entries.putSync(event.position, bytes.subarray(0, writeEntry(bytes, 0, event)));
    }
  });
  await env.close();
}

const compare = async (...args: string[]) => {
  const { code, stdout, stderr } = await store.run('compare', ...args);
  return [code, stdout + stderr];
};
const eventAt = (index: number): RecordedEvent => JSON.parse(lines[index]!) as RecordedEvent;
const found = (index: number, where: string) =>
  `DIFFERENT: event ${index}, which was kept with position ${eventAt(index).position}, is not the one ${where}.\n`;

test('a log that was only extended begins with the export and with the checkpoint', async () => {
  const more = Number((await store.run('export')).stdout.split('\n').length) - 2 - lines.length;
  expect(more).toBeGreaterThan(0);
  const answer = `The log begins with the ${lines.length} events that were kept, and has ${more} more.\n`;
  expect(await compare(kept)).toEqual([0, answer]);
  expect(await compare(root)).toEqual([0, answer]);
});

/** The flags of a member, which are turned into praise. */
const flags = () =>
  [...lines.keys()].filter((index) => {
    const { tris_id, metric } = eventAt(index).data;
    return tris_id === MEMBER && String(metric).endsWith('_flags');
  });
const praise = (event: RecordedEvent): RecordedEvent => ({
  ...event,
  data: { ...event.data, metric: 'social_trade_rating' },
});

test(
  'flags that became praise are found by an export and by a root, although the log verifies itself',
  async () => {
    const rewritten = flags();
    expect(rewritten.length).toBeGreaterThan(0);
    const score = async () => (await store.run('replay', MEMBER)).stdout;
    const before = await score();
    await rewrite(rewritten.map((index) => praise(eventAt(index))));
    const rebuilt = await store.run('rebuild', 'all', '--swap');
    expect([rebuilt.code, rebuilt.stderr]).toEqual([0, '']);
    expect(await score()).not.toBe(before);
    for (const args of [['verify'], ['verify', '--index']]) expect((await store.run(...args)).code).toBe(0);
    const { position } = eventAt(rewritten[0]!);
    expect(await compare(kept)).toEqual([1, found(rewritten[0]!, `at position ${position}`)]);
    const [code, text] = await compare(root);
    expect([code, text]).toEqual([
      1,
      expect.stringMatching(/^DIFFERENT: the first \d+ events have the root \S+, and /),
    ]);
    // The same through the server that owns the folder, and from what it serves.
    const server = await Server.start({ data: store.data });
    try {
      expect(await compare(kept)).toEqual([1, found(rewritten[0]!, `at position ${position}`)]);
      expect(await compare(root)).toEqual([1, text]);
      expect(await compare(kept, '--url', server.url)).toEqual([1, found(rewritten[0]!, `of ${server.url}`)]);
      expect(await compare(root, '--url', `${server.url}/`)).toEqual([1, text]);
    } finally {
      await server.stop();
    }
  },
  SLOW,
);

test(
  'one changed event is found wherever it is: by what was kept, and by verify, whose tiles are those of the right log',
  async () => {
    const random = randomFrom(SEED);
    const changes: ((event: RecordedEvent) => object)[] = [
      ({ data }) => ({ data: { ...data, tris_id: 'tris:eve' } }),
      ({ metadata }) => ({ metadata: { ...metadata, recorded_at: '2030-01-01T00:00:00.000Z' } }),
      ({ metadata }) => ({ metadata: { ...metadata, actor: 'cli:eve' } }),
      ({ metadata }) => ({ metadata: { ...metadata, salt: '0'.repeat(32) } }),
      ({ type }) => ({ type: `${type}X` }),
    ];
    for (let n = 0; n < repeated(8, 50); n++) {
      const index = Math.floor(random() * lines.length);
      const event = eventAt(index);
      await rewrite([{ ...event, ...changes[n % changes.length]!(event) }]);
      expect(await compare(kept)).toEqual([1, found(index, `at position ${event.position}`)]);
      expect((await compare(root))[0]).toBe(1);
      const verified = await store.run('verify', '--json');
      expect([verified.code, JSON.parse(verified.stdout).tree.change]).toEqual([
        1,
        expect.objectContaining({ position: event.position, found_by: 'tile' }),
      ]);
      await rewrite([event]);
    }
    expect((await compare(kept))[0]).toBe(0);
    expect((await store.run('verify')).code).toBe(0);
  },
  limit(1_200_000),
);

test(
  'a service whose log was only extended, and an older copy of it',
  async () => {
    const server = await Server.start({ data: store.data });
    try {
      const answer = expect.stringMatching(/^The log begins with the \d+ events that were kept, and has \d+ more\.\n$/);
      expect(await compare(kept, '--url', server.url)).toEqual([0, answer]);
      expect(await compare(root, '--url', server.url)).toEqual([0, answer]);
      const given = actions(20).map((each) => ({ ...each, external_id: `again-${String(each['external_id'])}` }));
      const longer = await server.post('/v1/decision-relay/batch', { actions: given });
      expect([longer.status, longer.json.results[0].status]).toEqual([200, 202]);
      writeFileSync(join(store.folder, 'longer.ndjson'), (await store.run('export')).stdout);
    } finally {
      await server.stop();
    }
    rmSync(store.data, { recursive: true });
    cpSync(sound, store.data, { recursive: true });
    const fewer = [1, expect.stringMatching(/^DIFFERENT: the log has \d+ events, fewer than were kept\.\n$/)];
    expect(await compare(join(store.folder, 'longer.ndjson'))).toEqual(fewer);
    const size = store.file('larger.txt', [
      'credence.example/log',
      '100000',
      readFileSync(root, 'utf8').split('\n')[2]!,
    ]);
    expect(await compare(size)).toEqual(fewer);
    expect(await compare(kept, '--url', server.url)).toEqual([1, expect.stringContaining('gives no answer')]);
  },
  SLOW,
);

test.each(['{}', 'null', '<html>'])('an answer that no service gives is none: %s', async (body) => {
  const server = createServer((_, response) => response.end(body)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  try {
    for (const file of [kept, root]) {
      const said = new RegExp(
        `^credence: http://127.0.0.1:${port}/\\S+ is not answered by a service of Credence\\.\n$`,
      );
      expect(await compare(file, '--url', `http://127.0.0.1:${port}`)).toEqual([1, expect.stringMatching(said)]);
    }
  } finally {
    server.close();
  }
});

test.each<[string, string[], number, RegExp]>([
  ['a file that is neither', ['hello'], 2, /is neither an export nor a checkpoint/],
  ['an export without damaged events', ['{"end_of_export":{"events":0,"damaged":3,"sha256":""}}'], 1, /lacks damaged/],
  ['a line that is none', ['FIRST', '{"id":"x"}'], 1, /Line 2 of .* is not an exported event/],
])('%s is refused', async (_, given, code, said) => {
  const text = given.map((line) => (line === 'FIRST' ? lines[0]! : line));
  const file = store.file('given.txt', given.length === 1 ? text : exported(text));
  expect(await compare(file)).toEqual([code, expect.stringMatching(said)]);
});

test('an export about one identity says nothing about the log', async () => {
  const file = join(store.folder, 'member.ndjson');
  expect((await store.run('export', MEMBER, '--out', file)).code).toBe(0);
  expect(await compare(file)).toEqual([1, expect.stringContaining(`has only the events about ${MEMBER}, and cannot`)]);
});

test.each<[string, (text: string) => string, RegExp]>([
  ['was changed', (text) => text.replace(MEMBER, 'tris:eve'), /kept-changed\.ndjson was changed since it was exported/],
  ['lost its last event', (text) => text.replace(/.*\n(?=\{"end_of)/, ''), /has changed from \d+ to \d+ events since/],
  [
    'has a name twice, and a last line to match',
    (text) =>
      `${exported(text.replace('"metric":', '"metric":"social_praise","metric":').split('\n').slice(0, -2)).join('\n')}\n`,
    /Line \d+ of .* is not an exported event/,
  ],
  [
    'lost its last line',
    (text) => text.replace(/\{"end_of.*\n/, ''),
    /is not a complete export: its last line is missing/,
  ],
  ['is two in one', (text) => text + text, /has lines after its trailer/],
])('an export that %s says nothing about the log', async (_, change, said) => {
  const file = join(store.folder, 'kept-changed.ndjson');
  writeFileSync(file, change(readFileSync(kept, 'utf8')));
  expect(await compare(file)).toEqual([1, expect.stringMatching(said)]);
  expect(await compare(file)).toEqual([1, expect.not.stringContaining('DIFFERENT')]);
});

test.each([
  ['is not there', 'nothing', 'does not exist'],
  ['is a folder', '', 'is a folder'],
  ['can be read only once', '/dev/null', 'is not a regular file'],
])('a file that %s is a wrong usage, and named', async (_, name, said) => {
  const file = resolve(store.folder, name);
  expect(await compare(file)).toEqual([2, `credence: ${file} ${said}.\n`]);
});
