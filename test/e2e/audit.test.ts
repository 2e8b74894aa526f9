import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Tree, leafOf, treeOf, verifyConsistency, verifyInclusion } from '../../clients/typescript/src/audit.js';
import { refusalOf } from '../audit/reference.js';
import { runCommand } from '../servers/launch.js';
import { ACTION, type Answer, Server, environmentOf, expectProblem } from './server.js';

/** What a stranger gets of the log, checked with the client's verifier and with an export. */

const ACTIONS = 300;
/** ms; a time limit for a busy machine. */
const LONG = 180_000;

let server: Server;
let lines: string[];
let leaves: Uint8Array[];
let last: Answer;
const bytes = (base64: string) => Buffer.from(base64, 'base64');
const proofOf = ({ json }: Answer): Buffer[] => json.proof.map(bytes);
const positionOf = (index: number) => `${log()}.${JSON.parse(lines[index]!).position}`;
const log = () => String(last.headers['credence-position']).split('.')[0];
const treeAt = (size: number): Tree => treeOf(leaves.slice(0, size));
const inclusion = (query: string) => server.getAfter(last, `/v1/audit/inclusion?${query}`);
const consistency = (query: string) => server.getAfter(last, `/v1/audit/consistency?${query}`);

beforeAll(async () => {
  server = await Server.start();
  const actions = Array.from({ length: ACTIONS }, (_, n) => ({ ...ACTION, tris_id: `tris:audited-${n % 7}` }));
  last = await server.post('/v1/decision-relay/batch', { actions });
  expect([last.status, last.json.results.at(-1).status]).toEqual([200, 202]);
  const folder = mkdtempSync(join(tmpdir(), 'credence-audit-'));
  const file = join(folder, 'export.ndjson');
  const { code, stderr } = await runCommand(['export', '--out', file], await environmentOf(server.data));
  expect([code, code === 0 ? '' : stderr]).toEqual([0, '']);
  lines = readFileSync(file, 'utf8').trimEnd().split('\n').slice(0, -1);
  leaves = lines.map(leafOf);
  rmSync(folder, { recursive: true });
}, LONG);
afterAll(() => server.end(), LONG);

test('the tree of the log is over the leaves of an export, and grows by appending only', async () => {
  expect(lines.length).toBeGreaterThan(512);
  for (const from of [1, 2, 255, 256, 300, lines.length]) {
    const { status, json } = await consistency(`from=${from}`);
    expect([status, json.from, json.to]).toEqual([200, from, lines.length]);
    const [older, newer] = [
      { size: json.from, root: bytes(json.from_root) },
      { size: json.to, root: bytes(json.to_root) },
    ];
    expect([older.root, newer.root].map((root) => root.toString('hex'))).toEqual(
      [treeAt(from).root, treeAt(lines.length).root].map((root) => Buffer.from(root).toString('hex')),
    );
    verifyConsistency(older, newer, json.proof.map(bytes));
  }
  const between = await consistency('from=100&to=400');
  verifyConsistency(treeAt(100), treeAt(400), proofOf(between));
  await refusalOf(() => verifyConsistency(treeAt(101), treeAt(400), proofOf(between)));
});

test('every event has a proof that it is in the log, now and in each older tree', async () => {
  for (let index = 0; index < lines.length; index += 61) {
    for (const size of [index + 1, lines.length]) {
      const answer = await inclusion(`position=${positionOf(index)}&size=${size}`);
      expect([answer.status, answer.json]).toEqual([200, expect.objectContaining({ index, size })]);
      expect(answer.json.position).toBe(positionOf(index));
      expect(bytes(answer.json.leaf)).toEqual(Buffer.from(leaves[index]!));
      verifyInclusion(leafOf(lines[index]!), index, treeAt(size), proofOf(answer));
    }
  }
  // The operator rewrites an event: its leaf is not in the tree.
  const answer = await inclusion(`position=${positionOf(5)}`);
  const rewritten = lines[5]!.replace('financial', 'educational');
  expect(rewritten).not.toBe(lines[5]);
  const tree = { size: answer.json.size, root: bytes(answer.json.root) };
  verifyInclusion(leafOf(lines[5]!), 5, tree, proofOf(answer));
  await refusalOf(() => verifyInclusion(leafOf(rewritten), 5, tree, proofOf(answer)));
});

test('an action is found by its id, and an answer is known by its ETag', async () => {
  const { action_id } = last.json.results[17].data;
  const answer = await inclusion(`event_id=${action_id}`);
  expect([answer.status, JSON.parse(lines[answer.json.index]!).id]).toEqual([200, action_id]);
  const { etag } = answer.headers;
  const path = `/v1/audit/inclusion?event_id=${action_id}&size=${answer.json.size}`;
  expect((await server.get(path, { headers: { 'if-none-match': String(etag) } })).status).toBe(304);
});

test('tiles have the hashes of the tree: full ones for ever, partial ones as they are now', async () => {
  const tile = async (path: string) => {
    const answer = await fetch(`${server.url}/log/tile/${path}`);
    return { answer, hashes: Buffer.from(await answer.arrayBuffer()) };
  };
  const full = await tile('0/001');
  expect(full.hashes.equals(Buffer.concat(leaves.slice(256, 512)))).toBe(true);
  expect(Object.fromEntries(full.answer.headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'cache-control': 'public, max-age=31536000, immutable',
  });
  const partial = await tile('0/002.p/20');
  expect(partial.hashes.equals(Buffer.concat(leaves.slice(512, 532)))).toBe(true);
  expect(partial.answer.headers.get('cache-control')).toBe('no-cache');
  const above = await tile('1/000.p/2');
  const roots = [0, 256].map((start) => treeOf(leaves.slice(start, start + 256)).root);
  expect(above.hashes.equals(Buffer.concat(roots))).toBe(true);
});

test('operators read the entries of tiles, of which the leaves are the hashes', async () => {
  const entriesOf = async (path: string) => {
    const answer = await fetch(`${server.url}/log/tile/entries/${path}`, { headers: { 'x-api-key': server.key } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/octet-stream']);
    const bundle = Buffer.from(await answer.arrayBuffer());
    const entries: Buffer[] = [];
    for (let at = 0; at < bundle.length; at += 2 + bundle.readUInt16BE(at)) {
      entries.push(bundle.subarray(at + 2, at + 2 + bundle.readUInt16BE(at)));
    }
    return entries;
  };
  const hashed = (entry: Buffer) => createHash('sha256').update('\0').update(entry).digest();
  expect((await entriesOf('001')).map(hashed)).toEqual(leaves.slice(256, 512).map((leaf) => Buffer.from(leaf)));
  expect((await entriesOf('002.p/20')).map(hashed)).toEqual(leaves.slice(512, 532).map((leaf) => Buffer.from(leaf)));
  expectProblem(await server.send('GET', '/log/tile/entries/002'), 404, 'not_found');
  expect((await fetch(`${server.url}/log/tile/entries/001`)).status).toBe(401);
});

test.each([
  '0/002', // not full yet
  '0/003.p/1',
  '1/000',
  '1/000.p/3',
  '2/000.p/1',
  '63/000.p/1',
  '0/x001/000',
  '0/x999/x999/x999/x999/999',
])('there is no tile %s yet', async (path) => {
  expectProblem(await server.send('GET', `/log/tile/${path}`), 404, 'not_found');
});

test.each([
  '64/000',
  '01/000',
  '-1/000',
  '0/0',
  '0/0000',
  '0/x000/001',
  '0/001/002',
  '0/000.p/0',
  '0/000.p/256',
  '0/000.p/01',
  '0/000.p',
])('the address of a tile cannot be %s', async (path) => {
  expectProblem(await server.send('GET', `/log/tile/${path}`), 400, 'validation_failed');
});

test.each([
  ['inclusion?', '?position'],
  ['inclusion?position=LOG.1&event_id=6f8bca7a-0a5a-5c5b-9b5e-0d5f6f4b8c11', '?position'],
  ['inclusion?event_id=x', '?event_id'],
  ['inclusion?position=FIRST&size=0', '?size'],
  ['inclusion?position=LAST&size=1', '?size'],
  ['inclusion?position=FIRST&size=1000000', '?size'],
  ['inclusion?position=FIRST&size=1e999', '?size'],
  ['consistency?', '?from'],
  ['consistency?from=0', '?from'],
  ['consistency?from=-1', '?from'],
  ['consistency?from=1.5', '?from'],
  ['consistency?from=3&to=2', '?from'],
  ['consistency?from=1000000', '?from'],
  ['consistency?from=1&to=1000000', '?to'],
  ['consistency?from=1&to=18446744073709551615', '?to'],
])('%s is refused', async (query, pointer) => {
  const path = query
    .replace('LOG', log()!)
    .replace('FIRST', positionOf(0))
    .replace('LAST', positionOf(lines.length - 1));
  expectProblem(await server.get(`/v1/audit/${path}`), 400, 'validation_failed', pointer);
});

test('the refusal of a tree says how large this one is', async () => {
  const { json } = await server.get('/v1/audit/consistency?from=3&to=2');
  const { size } = (await inclusion(`position=${positionOf(0)}`)).json;
  expect(json.errors[0].message).toBe(`from must be from 1 to 2; the tree has ${size} events`);
});

test('positions of other logs, between events and beyond the head, and unknown actions, are refused', async () => {
  const other = '00000000-0000-4000-8000-000000000000';
  for (const position of [`${other}.1`, `${log()}.0`, `${log()}.9007199254740991`, `${log()}.x`, '1']) {
    const answer = await server.get(`/v1/audit/inclusion?position=${position}`);
    expectProblem(answer, 400, 'position_unknown');
    // The lines of an export lack the id of the log.
    expect(answer.json.detail).toContain(`${log()}.<number>`);
  }
  // Of events, actions have a row by their id; of what follows an action, its position is known.
  const { id, type } = JSON.parse(lines.at(-1)!);
  expect(type).toBe('CredonationRecorded');
  for (const unknown of [other, id]) {
    const answer = await server.get(`/v1/audit/inclusion?event_id=${unknown}`);
    expectProblem(answer, 404, 'event_id_unknown');
    expect(answer.json.detail).toContain('name the event by its position');
  }
});

test('without a signed checkpoint there is none, and no tlog-proof', async () => {
  expectProblem(await server.send('GET', '/log/checkpoint'), 404, 'not_found');
  expect((await inclusion(`position=${positionOf(0)}`)).json.tlog_proof).toBeNull();
});
