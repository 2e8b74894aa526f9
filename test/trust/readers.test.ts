import { AccessTokens } from '../../src/credentials/access-tokens.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { codes, read, section, tableRows } from '../docs/markdown.js';
import { type Tokens, bearer, call, claim, consent, newAccount, signIn } from '../sessions/wallet.js';

/** Who may read which field: each cell of the table in docs/privacy.md, under each setting of CREDENCE_PUBLIC_READS. */

const KEYS = [
  { id: 'everything', scopes: ['ops', 'identity:write'] },
  { id: 'relayer', scopes: ['relay:write', 'identity:write'], organization: 'tris:lendco' },
  { id: 'relaying', scopes: ['relay:write'], organization: 'tris:lendco' },
  { id: 'policy', scopes: ['policies:write', 'access:check'], organization: 'tris:bank' },
  { id: 'reads', scopes: ['reads'] },
  { id: 'auditor', scopes: ['audit:read'] },
  { id: 'ops', scopes: ['ops'] },
];
const SETTINGS = ['none', 'scores', 'all'];
/** Under which settings a cell lets its credential read. */
const READABLE: Record<string, readonly string[]> = { yes: SETTINGS, public: ['scores', 'all'], all: ['all'], no: [] };

interface World {
  service: Service;
  own: Tokens & { tris_id: string };
  /** The credentials, in the order of the columns. */
  credentials: Record<string, string>[];
  /** The values of the path parameters. */
  ids: Record<string, string>;
}

async function populated(setting: string): Promise<World> {
  const service = await startServiceWithKeys(KEYS, { CREDENCE_PUBLIC_READS: setting });
  const post = async (path: string, body: unknown, key: string) => {
    const answer = await service.post(path, body, { ...as(key), ...(await seen(service)) });
    if (answer.status >= 300) throw new Error(`${path}: ${answer.text}`);
    return answer.json;
  };
  const [own, other] = [await claim(service, newAccount()), await claim(service, newAccount())];
  const { tris_id } = own;
  await post('/v1/organizations', { tris_org: 'tris:lendco', platform_ids: ['lendco-app'] }, 'everything');
  const action = {
    tris_id,
    action_type: 'loan',
    category: 'financial',
    criticality: 'critical',
    counterparty: 'tris:shop',
  };
  const relay = () => post('/api/decision-relay', { ...action, platform_id: 'lendco-app' }, 'relayer');
  const { action_id } = await relay();
  await relay();
  await post(`/v1/actions/${action_id}/withdraw`, { reason: 'mistake' }, 'relayer');
  const counted = (await relay()).action_id;
  const said = { action_id: counted, statement: 'I repaid.' };
  const disputed = await service.post('/v1/disputes', said, { ...bearer(own), ...(await seen(service)) });
  if (disputed.status !== 200) throw new Error(disputed.text);
  const evidence_hash = 'a'.repeat(64);
  await post(`/v1/identities/${tris_id}/verifications`, { status: 'zk-KYH', evidence_hash }, 'relayer');
  const decide = async (policy_id: string, visibility: string) => {
    await post('/v1/policies/ap', { policy_id, rules: { disc_min: 10 }, visibility }, 'policy');
    await post('/v1/policies/ap/check', { policy_id, subject_tris: tris_id }, 'policy');
    const { decisions } = (
      await service.get(`/v1/access/decisions?limit=1`, { ...as('policy'), ...(await seen(service)) })
    ).json;
    return decisions[0].jti as string;
  };
  const public_jti = await decide('AP_PUBLIC_V1', 'public');
  const jti = await decide('AP_PRIVATE_V1', 'private');
  const keys = ['relaying', 'policy', 'reads', 'auditor', 'ops'].map(as);
  const credentials = [{}, bearer(own), bearer(other), ...keys];
  return { service, own, credentials, ids: { tris_id, action_id, public_jti, jti } };
}

const inside = (value: unknown, path: string): unknown =>
  path.split('/').reduce((at, name) => (at as Record<string, unknown> | null | undefined)?.[name], value);

const ROWS = tableRows(section(read('docs/privacy.md'), 'Who may read what'));

describe.each(SETTINGS)('with CREDENCE_PUBLIC_READS=%s', (setting) => {
  let world: World;
  beforeAll(async () => void (world = await populated(setting)));
  afterAll(() => world.service.close());

  test.each(ROWS.map((row) => [row[0]!, row]))('%s is read by whom the table names', async (_what, row) => {
    const [, route, field, ...cells] = row;
    const path = codes(route!)[0]!
      .replace('GET ', '')
      .replace(/:(\w+)/g, (_, name: string) => world.ids[name]!);
    const outcomes: unknown[] = [];
    for (const headers of world.credentials) {
      const { status, json } = await world.service.get(path, { ...headers, ...(await seen(world.service)) });
      const value = status === 200 ? inside(json, codes(field!)[0]!) : undefined;
      if (status !== 200) expect([401, 403, 404]).toContain(status);
      outcomes.push(value !== undefined && value !== null);
    }
    expect(outcomes).toEqual(cells.map((cell) => READABLE[cell]!.includes(setting)));
  });
});

describe('a session of its own TRIS', () => {
  let world: World;
  beforeAll(async () => void (world = await populated('none')));
  afterAll(() => world.service.close());
  const scoreBy = async (tokens: Tokens, tris_id = world.own.tris_id) => {
    const headers = { ...bearer(tokens), ...(await seen(world.service)) };
    const { status, json } = await world.service.get(`/v1/disc/score/${tris_id}`, headers);
    return [status, json.code];
  };

  test('a second wallet of the TRIS reads the same', async () => {
    const { service, own } = world;
    const second = newAccount();
    const { message, signature } = await consent(service, second, own.tris_id);
    expect((await call(service, '/v1/wallets/link', { message, signature }, bearer(own))).status).toBe(200);
    expect(await scoreBy((await signIn(service, second)).json)).toEqual([200, undefined]);
  });

  test('once its wallet is unlinked by an operator, it reads nothing more', async () => {
    const { service } = world;
    const leaving = await claim(service, newAccount());
    const post = (path: string, body: object) => service.post(path, body, as('everything'));
    await post(`/v1/identities/${leaving.tris_id}/bad-status`, { level: 3, reason_code: 'fraud' });
    expect(await scoreBy(leaving, leaving.tris_id)).toEqual([200, undefined]);
    await post('/v1/wallets/unlink', { wallet: leaving.wallet, reason_code: 'lost' });
    expect(await scoreBy(leaving, leaving.tris_id)).toEqual([401, 'session_revoked']);
  });

  test('acts for no TRIS in a process whose modules know no sessions', async () => {
    const { own } = world;
    const env = { CREDENCE_PUBLIC_READS: 'none', CREDENCE_MODULES: 'credonations' };
    const other = await startServiceWithKeys(KEYS, env);
    try {
      const session = { family: 'none', wallet: own.wallet.toLowerCase(), chainId: null, trisId: own.tris_id };
      const token = await other.app.get(AccessTokens).sign(session, 'http://127.0.0.1');
      const answer = await other.get(`/api/tris-validations/${own.tris_id}`, bearer({ access_token: token }));
      expect([answer.status, answer.json.code]).toEqual([403, 'forbidden']);
    } finally {
      await other.close();
    }
  });

  test('reads no decision about another and no list of them', async () => {
    const { service, own } = world;
    const about = (query: string) => service.get(`/v1/access/decisions${query}`, bearer(own));
    expect((await about('?subject=tris:else')).json.code).toBe('forbidden');
    expect((await about('')).json.decisions).toHaveLength(2);
    expect((await about('?policy_id=AP_PUBLIC_V1')).json.decisions).toHaveLength(1);
  });
});
