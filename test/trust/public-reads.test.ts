import { type Service, startService } from '../policies/service.fixture.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

/** What may be read without a key: the scores, but not the list of everybody who has one, unless an operator says so. */

const SCORES = [
  '/api/disc-score/tris:bob',
  '/v1/disc/score/tris:bob',
  '/v1/disc/report/tris:bob',
  '/v1/policies/vp',
  '/v1/policies/ap',
  '/v1/models',
];
const FEED = '/v1/disc/changes';
const VERIFIER = [
  '/.well-known/jwks.json',
  '/v1/eligibility/issuers',
  '/v1/audit/consistency?from=1',
  '/log/tile/0/000.p/1',
  '/health/live',
  '/openapi.json',
];

interface Operation {
  security: Record<string, string[]>[];
}

/** A service, the header of a session there, and what its document says. */
interface Served {
  service: Service;
  session: Record<string, string>;
  paths: Record<string, { get?: Operation }>;
}

async function withSetting(setting: string | undefined, look: (served: Served) => Promise<void>): Promise<void> {
  const service = await startService(setting === undefined ? {} : { CREDENCE_PUBLIC_READS: setting });
  try {
    const action = { tris_id: 'tris:bob', category: 'finance', action_type: 'loan', criticality: 'high' };
    const relayed = await service.post('/api/decision-relay', { ...action, platform_id: 'lender' });
    const position = { 'credence-min-position': relayed.headers['credence-position'] as string };
    expect((await service.get(SCORES[0]!, { ...position, 'x-api-key': service.key })).status).toBe(200);
    const session = bearer(await claim(service, newAccount()));
    const { paths } = (await service.get('/openapi.json')).json;
    await look({ service, session, paths });
  } finally {
    await service.close();
  }
}

/** Reads it without a credential, with a session and with a key, and compares with its entry in the document. */
async function expectReads({ service, session, paths }: Served, path: string, isPublic: boolean): Promise<void> {
  const codeOf = async (headers: Record<string, string>) => {
    const { status, json } = await service.get(path, headers);
    return status === 200 ? 200 : json.code;
  };
  const actual = [await codeOf({}), await codeOf(session), await codeOf({ 'x-api-key': service.key })];
  expect([path, ...actual]).toEqual(isPublic ? [path, 200, 200, 200] : [path, 'unauthorized', 'forbidden', 200]);
  const operation = paths[path.replace('tris:bob', '{tris_id}')]?.get;
  const own = path.includes('tris:bob') ? [{ session: [] }] : [];
  if (operation && operation.security.length > 0)
    expect([path, operation.security]).toEqual([path, [...(isPublic ? [{}] : []), { api_key: [] }, ...own]]);
}

test.each([undefined, 'scores'])('with %s all but the feed of changes is public', (setting) =>
  withSetting(setting, async (served) => {
    for (const path of [...SCORES, ...VERIFIER]) await expectReads(served, path, true);
    await expectReads(served, FEED, false);
  }),
);

test('with all the feed is public too', () =>
  withSetting('all', async (served) => {
    for (const path of [...SCORES, ...VERIFIER, FEED]) await expectReads(served, path, true);
  }));

test('with none only what verifies tokens elsewhere is public', () =>
  withSetting('none', async (served) => {
    for (const path of VERIFIER) await expectReads(served, path, true);
    for (const path of [...SCORES, FEED]) await expectReads(served, path, false);
    const { service } = served;
    const batch = { tris_ids: ['tris:bob'] };
    const anonymous = await service.post('/v1/disc/score/batch', batch, { 'x-api-key': '' });
    expect(anonymous.status).toBe(401);
    expect((await service.post('/v1/disc/score/batch', batch)).status).toBe(200);
    // A key that may only read.
    const made = await service.post('/v1/ops/keys', { key_id: 'reader', scopes: ['reads'] });
    const reader = { 'x-api-key': String(made.json.key) };
    for (const path of [...SCORES, FEED]) expect([path, (await service.get(path, reader)).status]).toEqual([path, 200]);
    for (const path of ['/api/decision-relay', '/v1/policies/ap/check', '/v1/ops/keys'])
      expect((await service.post(path, {}, reader)).json.code).toBe('forbidden');
    // Verification of a token by its holder's counterparty.
    const verified = await service.post('/v1/eligibility/verify', { token: 'x' }, {});
    expect(verified.status).toBe(200);
  }));
