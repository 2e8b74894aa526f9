import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/kernel/config.js';
import { signingKeyFile } from '../../src/credentials/signing-keys.js';
import { type Service, relay, seen, startService } from '../policies/service.fixture.js';

/** What a cursor carries is trusted only if the service wrote it, for the list it was written for. */

const CRITICAL = { category: 'financial', action_type: 'loan', criticality: 'critical' };

let service: Service;
let folder: string;
const keys = () => join(folder, 'keys.json');
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'credence-cursors-'));
  service = await startService({ CREDENCE_SIGNING_KEYS: keys() });
  for (const tris_id of ['tris:ada', 'tris:bea']) {
    for (let n = 0; n < 3; n++) await relay(service, [{ tris_id, ...CRITICAL }]);
    await service.post('/v1/organizations', { tris_org: tris_id, platform_ids: [] });
  }
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const LISTS = [
  '/v1/disc/score/tris:ada/history',
  '/api/tris-validations/tris:ada',
  '/v1/disc/changes',
  '/v1/organizations',
  '/v1/identities',
];

const page = async (list: string, cursor?: string, by = service) => {
  const query = `?limit=1${cursor === undefined ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
  return by.get(list + query, { 'x-api-key': by.key, ...(await seen(by)) });
};
const cursorOf = async (list: string, by = service): Promise<string> =>
  (await page(list, undefined, by)).json.next_cursor;

test('a history refuses totals that the client forged', async () => {
  const cursor = await cursorOf(LISTS[0]!);
  const [payload, ...rest] = cursor.split('.');
  const state = JSON.parse(Buffer.from(payload!, 'base64url').toString());
  state.e += 120_000;
  const forged = [Buffer.from(JSON.stringify(state)).toString('base64url'), ...rest].join('.');
  const answer = await page(LISTS[0]!, forged);
  expect([answer.status, answer.json.code]).toEqual([400, 'validation_failed']);
});

test.each(LISTS)('%s takes back what it gave, and refuses it when any character differs', async (list) => {
  const cursor = await cursorOf(list);
  expect((await page(list, cursor)).status).toBe(200);
  for (let i = 0; i < cursor.length; i++) {
    const other = cursor[i] === 'A' ? 'B' : 'A';
    const answer = await page(list, cursor.slice(0, i) + other + cursor.slice(i + 1));
    expect([i, answer.status, answer.json.errors?.[0]?.code]).toEqual([i, 400, 'unknown_cursor']);
  }
  for (const broken of [cursor.slice(1), cursor.slice(0, -1), `${cursor}A`, cursor.split('.')[0]!, '.', 'x']) {
    expect([broken, (await page(list, broken)).status]).toEqual([broken, 400]);
  }
});

test('a cursor of a history without a time gives none but the events of the time that is asked for with it', async () => {
  const all = (await service.get(LISTS[0]!, await seen(service))).json.entries;
  const { recorded_at } = all.at(-1);
  const later = all.filter((entry: { recorded_at: string }) => entry.recorded_at >= recorded_at);
  const query = `?from=${recorded_at}&cursor=${encodeURIComponent(await cursorOf(LISTS[0]!))}`;
  expect((await service.get(LISTS[0]! + query)).json.entries).toEqual(later);
});

test('a cursor of one list is refused by another', async () => {
  const cursor = await cursorOf('/api/tris-validations/tris:ada');
  expect((await page('/api/tris-validations/tris:bea', cursor)).status).toBe(400);
});

test('a cursor is valid in other processes with the same keys, also after the first key was removed', async () => {
  const held = await Promise.all(['/v1/disc/changes', '/v1/organizations'].map((list) => cursorOf(list)));
  const other = await startService({ CREDENCE_SIGNING_KEYS: keys() });
  try {
    expect((await page('/v1/organizations', held[1], other)).status).not.toBe(400);
  } finally {
    await other.close();
  }
  const file = signingKeyFile(loadConfig({ CREDENCE_SIGNING_KEYS: keys() }));
  const before = file.sharedSecret();
  await file.rotate(Date.now() - 3 * 86_400_000, 0);
  expect(await file.prune(Date.now())).toHaveLength(1);
  expect(file.sharedSecret()).toEqual(new Uint8Array(before));
  const later = await startService({ CREDENCE_SIGNING_KEYS: keys() });
  try {
    expect((await page('/v1/organizations', held[1], later)).status).not.toBe(400);
    expect((await page('/v1/organizations', `${held[1]}x`, later)).status).toBe(400);
  } finally {
    await later.close();
  }
});
