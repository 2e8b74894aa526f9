import { type Service, relay, seen, startService } from '../policies/service.fixture.js';

/** Search for identities, over HTTP. */

const NAMED = ['tris:otc:905', 'tris:otc:9051', 'tris:otc:17', 'tris:Anna', 'did:web:a.example:anna', 'tris:t:t1'];
const WALLET = 'tris:0x52908400098527886e0f7030069857d2e4169ee7';

let service: Service;
beforeAll(async () => {
  service = await startService({ CREDENCE_PUBLIC_READS: 'all' });
  const action = { category: 'financial', action_type: 'loan', criticality: 'low' };
  // The second action of each changes nothing.
  for (let n = 0; n < 2; n++)
    await relay(
      service,
      [...NAMED, WALLET].map((tris_id) => ({ tris_id, ...action })),
    );
  await service.post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['lendco-app', 'lendco-web'] });
});
afterAll(() => service.close());

const ask = async (query: string) =>
  service.get(`/v1/identities${query}`, { 'x-api-key': service.key, ...(await seen(service)) });
async function found(prefix: string, limit = 100): Promise<string[]> {
  const all: string[] = [];
  for (let cursor = ''; ;) {
    const { status, json } = await ask(`?prefix=${prefix}&limit=${limit}${cursor}`);
    expect(status).toBe(200);
    for (const { tris_id, platform_id } of json.identities)
      all.push(platform_id ? `${tris_id} ${platform_id}` : tris_id);
    if (json.next_cursor === null) return all;
    cursor = `&cursor=${encodeURIComponent(json.next_cursor)}`;
  }
}

test.each([
  ['905', ['tris:otc:905', 'tris:otc:9051']],
  ['otc:9', ['tris:otc:905', 'tris:otc:9051']],
  ['tris:otc:1', ['tris:otc:17']],
  ['ANNA', ['did:web:a.example:anna', 'tris:Anna']],
  ['web:a', ['did:web:a.example:anna']],
  ['0x5290', [WALLET]],
  ['nobody', []],
  ['05', []],
])('an identity is found by the beginning of its id or of a part of it: %s', async (prefix, ids) => {
  expect(await found(prefix)).toEqual(ids);
});

test('each is found once, in pages of any size', async () => {
  for (const limit of [1, 2, 100]) {
    const all = await found('t', limit);
    expect(all.filter((id) => id === 'tris:t:t1')).toHaveLength(1);
    expect([...all].sort()).toEqual([...NAMED.filter((id) => id.startsWith('tris')), WALLET, 'tris:lendco'].sort());
  }
  const everyone = (await ask('')).json.identities.map(({ tris_id }: { tris_id: string }) => tris_id);
  expect(new Set(everyone)).toEqual(new Set([...NAMED, WALLET, 'tris:lendco']));
});

test('a page of another prefix is refused, and is not empty', async () => {
  const { next_cursor } = (await ask('?prefix=905&limit=1')).json;
  const other = await ask(`?prefix=t&cursor=${encodeURIComponent(next_cursor)}`);
  expect([other.status, other.json.errors?.[0].code]).toEqual([400, 'unknown_cursor']);
});

test('an organization is found by its platforms, too', async () => {
  await relay(service, [
    { tris_id: 'tris:lendco-app', category: 'financial', action_type: 'loan', criticality: 'low' },
  ]);
  const both = ['tris:lendco lendco-app', 'tris:lendco-app'];
  for (const limit of [1, 2]) expect(await found('lendco-app', limit)).toEqual(both);
  expect(await found('lendco', 1)).toEqual(['tris:lendco', 'tris:lendco-app']);
});

test('the list needs a key, whatever reads are public', async () => {
  expect((await service.get('/v1/identities')).status).toBe(401);
  expect((await ask('?prefix=%25')).status).toBe(400);
});
