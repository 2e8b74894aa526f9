import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { eventually } from '../contracts/harness.js';
import { runCommand } from '../servers/launch.js';
import { type Answer, Server, environmentOf, expectProblem } from './server.js';

const folder = mkdtempSync(join(tmpdir(), 'credence-access-'));
const data = join(folder, 'data');
const keysFile = join(folder, 'keys.json');
// The chain is not asked: that it is configured is enough for vouchers.
const env = { CREDENCE_API_KEYS: keysFile, CREDENCE_RPC_1: 'http://127.0.0.1:1' };
const as = (name: string) => ({ 'x-api-key': `secret-${name}` });

let server: Server;
beforeAll(async () => {
  const key = (id: string, scopes: string[], organization?: string) => ({
    id,
    sha256: createHash('sha256').update(`secret-${id}`).digest('hex'),
    scopes,
    ...(organization !== undefined && { organization }),
  });
  const everything = ['relay:write', 'policies:write', 'access:check', 'identity:write', 'ops'];
  const policies = ['policies:write', 'access:check'];
  const all = [
    key('operator', everything),
    key('bank', policies, 'tris:bank'),
    key('dao', policies, 'tris:dao'),
    key('reader', ['trove:write']),
  ];
  writeFileSync(keysFile, JSON.stringify(all));
  server = await Server.start({ data, env });
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const post = (path: string, body: unknown, headers: Record<string, string> = as('operator')) =>
  server.post(path, body, headers);
const positionOf = ({ headers }: Answer) => String(headers['credence-position']);

/** A check that sees what an earlier write did. */
async function check(
  policy_id: string,
  subject_tris: string,
  after?: Answer,
  headers: Record<string, string> = {},
  target: object = {},
) {
  const wait: Record<string, string> = after ? { 'credence-min-position': positionOf(after) } : {};
  const { status, json, text } = await post(
    '/v1/policies/ap/check',
    { policy_id, subject_tris, ...target },
    { ...as('operator'), ...wait, ...headers },
  );
  if (status !== 200) throw new Error(text);
  return json;
}
const verify = async (body: object) => (await server.request('POST', '/v1/eligibility/verify', { body })).json;
const credence = async (...args: string[]) => {
  const { code, stdout, stderr } = await runCommand(args, await environmentOf(data));
  if (code !== 0) throw new Error(stderr);
  return stdout;
};

/**
 * Raises net TCT, and health, by actions on successive days, since a day earns no more than 140 TCT.
 * @param daysAgo of the latest; the others are before it
 */
async function earn(tris_id: string, tct: number, category: string, daysAgo = 0): Promise<Answer> {
  let last: Answer | undefined;
  for (let earned = 0; earned < tct; earned += 140, daysAgo++) {
    const occurred_at = new Date(Date.now() - daysAgo * 86_400_000).toISOString();
    const action = {
      tris_id,
      category,
      criticality: 'critical',
      action_type: 'work',
      platform_id: 'guild',
      occurred_at,
    };
    last = await post('/api/decision-relay', action);
  }
  return last!;
}

test('a policy grants one identity and denies another, which then makes the suggested changes and is granted', async () => {
  const rules = {
    all: [
      { disc_min: 12, verification: ['BAD Status validation'] },
      {
        any: [
          { metrics: { finance: 0.5, governance: 0.5 } },
          { at_least: 2, of: [{ verification: ['zk-KYH'] }, { metrics: { finance: 0.4 } }] },
        ],
      },
      { not: { tct_min: 5_000 } },
    ],
  };
  const created = await post('/v1/policies/ap', { policy_id: 'AP_STORY_V1', rules, ttl_seconds: 900 });
  expect(created.status).toBe(201);
  await earn('tris:first', 500, 'financial');
  const first = await earn('tris:first', 500, 'governance', 4);
  const second = await earn('tris:second', 140, 'creative');

  expect(await check('AP_STORY_V1', 'tris:first', first)).toMatchObject({ granted: true, how_to_pass: [] });
  const denied = await check('AP_STORY_V1', 'tris:second', second);
  expect(denied).toMatchObject({ granted: false, eligibility_token: null });
  expect(denied.reasons.map(({ pointer, outcome }: any) => `${pointer} ${outcome}`)).toEqual([
    '/all/0/disc_min failed',
    '/all/1/any/0/metrics/finance unknown',
    '/all/1/any/0/metrics/governance unknown',
    '/all/1/any/1/at_least failed',
    '/all/1/any/1/of/0/verification/0 failed',
    '/all/1/any/1/of/1/metrics/finance unknown',
  ]);
  expect(denied.how_to_pass).toEqual([
    { fact: 'net_tct', required: 821, actual: 140, below: 5_000, pointers: ['/all/0/disc_min'] },
    {
      fact: 'health.financial',
      required: 0.5,
      actual: null,
      pointers: ['/all/1/any/0/metrics/finance', '/all/1/any/1/of/1/metrics/finance'],
    },
    { fact: 'health.behavioral', required: 0.5, actual: null, pointers: ['/all/1/any/0/metrics/governance'] },
  ]);

  // Each as it says, and no more than that.
  let done: Answer | undefined;
  for (const { fact, required, actual } of denied.how_to_pass) {
    expect(await check('AP_STORY_V1', 'tris:second', done)).toMatchObject({ granted: false });
    const [kind, category] = fact.split('.');
    // A health of 0.5 is 416 TCT: −600 ln(1 − 0.5).
    done = await (kind === 'health'
      ? earn('tris:second', 416, category)
      : earn('tris:second', required - actual, 'creative', 1));
  }
  const granted = await check('AP_STORY_V1', 'tris:second', done);
  expect(granted).toMatchObject({ granted: true, reasons: [], how_to_pass: [] });
  expect(await verify({ token: granted.eligibility_token })).toMatchObject({ active: true });
});

test('any decision can be derived again from the log', async () => {
  const audited = JSON.parse(await credence('access', 'audit', 'tris:second', '--json'));
  expect(audited).toMatchObject({ subject: 'tris:second', agrees: true });
  expect(audited.decisions.length).toBeGreaterThan(3);
  expect(await credence('access', 'audit', 'tris:second')).toMatch(/decisions about tris:second: all agree/);
  expect(await credence('access', 'audit', 'tris:stranger')).toBe('no decisions about tris:stranger\n');
});

test('an integrator verifies a token elsewhere, with the package and the key set only', async () => {
  const { eligibility_token: token } = await check('AP_STORY_V1', 'tris:first');
  const elsewhere = join(folder, 'integrator');
  mkdirSync(join(elsewhere, 'node_modules'), { recursive: true });
  symlinkSync(resolve('.'), join(elsewhere, 'node_modules', 'credence'));
  const script = `
    import { verify } from 'credence/eligibility';
    const [url, token] = process.argv.slice(2);
    const jwks = await (await fetch(url + '/.well-known/jwks.json')).json();
    const results = [
      verify(token, { jwks, policy: 'AP_STORY_V1' }),
      verify(token, { jwks, policy: 'AP_OTHER_V1' }),
      verify(token, { jwks, audience: 'somebody' }),
      verify(token, { jwks, now: Date.now() + 901_000 }),
      verify(token.slice(0, -86) + 'A'.repeat(86), { jwks }),
    ];
    console.log(JSON.stringify(results));`;
  writeFileSync(join(elsewhere, 'verify.mjs'), script);
  const { stdout } = await promisify(execFile)(process.execPath, ['verify.mjs', server.url, token], { cwd: elsewhere });
  const [active, ...refused] = JSON.parse(stdout);
  expect(active).toMatchObject({ active: true, claims: { sub: 'tris:first', policy_id: 'AP_STORY_V1' } });
  expect(refused.map(({ reason }: any) => reason)).toEqual([
    'eligibility_policy',
    'eligibility_audience',
    'eligibility_expired',
    'eligibility_signature',
  ]);
});

test('revocations and decisions survive a restart, to the byte', async () => {
  const key = { 'idempotency-key': 'kept-1' };
  const wallet = privateKeyToAccount(generatePrivateKey());
  const at = { address: wallet.address, chain_id: 1, purpose: 'link', tris_id: 'tris:first' };
  const { message } = (await server.request('POST', '/v1/tris/auth/siwe/start', { body: at })).json;
  await post('/v1/wallets/link', { message, signature: await wallet.signMessage({ message }) });
  const target = { wallet: wallet.address, chain_id: 1, verifying_contract: `0x${'c0'.repeat(20)}` };
  const kept = await check('AP_STORY_V1', 'tris:first', undefined, key, target);
  expect(kept.voucher.message).toMatchObject({ wallet: wallet.address });
  const revoked = await check('AP_STORY_V1', 'tris:first');
  expect((await post('/v1/eligibility/revoke', { token: revoked.eligibility_token })).status).toBe(200);
  await server.kill();
  server = await Server.start({ data, env });
  expect(await verify({ token: revoked.eligibility_token })).toMatchObject({ reason: 'eligibility_revoked' });
  expect(await verify({ token: kept.eligibility_token })).toMatchObject({ active: true });
  expect(await check('AP_STORY_V1', 'tris:first', undefined, key, target)).toEqual(kept);
});

test('a key is rotated under the running server, and what the old one signed still verifies', async () => {
  const kids = async () => (await server.get('/.well-known/jwks.json')).json.keys.map(({ kid }: any) => kid);
  const kidOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()).kid;
  const [first] = await kids();
  const key = { 'idempotency-key': 'rotated-1' };
  const before = await check('AP_STORY_V1', 'tris:first', undefined, key);
  await credence('signing-keys', 'rotate', '--at-once');
  await eventually(async () => (await kids()).length === 2, 'the new key is published');
  const [, second] = await kids();
  const after = await check('AP_STORY_V1', 'tris:first');
  expect([kidOf(before.eligibility_token), kidOf(after.eligibility_token)]).toEqual([first, second]);
  for (const { eligibility_token: token } of [before, after])
    expect(await verify({ token })).toMatchObject({ active: true });
  expect(await check('AP_STORY_V1', 'tris:first', undefined, key)).toEqual(before);
  expect(await credence('signing-keys', 'prune')).toBe('no key to remove\n');
  expect(JSON.parse(await credence('signing-keys', 'list', '--json'))).toMatchObject([
    { kid: first, status: 'retired' },
    { kid: second, status: 'signing' },
  ]);
});

test('the issuer of vouchers is rotated independently, and published before it signs', async () => {
  const listed = async () => JSON.parse(await credence('signing-keys', 'list', '--vouchers', '--json'));
  const { issuers } = (await server.get('/v1/eligibility/issuers')).json;
  expect(await listed()).toMatchObject([{ kid: issuers[0].address, status: 'signing' }]);
  const said = await credence('signing-keys', 'rotate', '--vouchers', '--in', '60');
  const published = async () => (await server.get('/v1/eligibility/issuers')).json.issuers;
  await eventually(async () => (await published()).length === 2, 'the next issuer is published');
  const [first, next] = await published();
  expect(first).toEqual(issuers[0]);
  expect(next).toMatchObject({ status: 'next', ends_at: null });
  expect(said).toBe(`${next.address} signs from ${next.signs_from}\n`);
  expect(await listed()).toMatchObject([{ status: 'signing' }, { kid: next.address, status: 'next' }]);
  expect(await credence('signing-keys', 'prune', '--vouchers')).toBe('no key to remove\n');
});

test('scopes and owners', async () => {
  const rules = { disc_min: 5 };
  const own = await post('/v1/policies/ap', { policy_id: 'AP_BANK_V1', rules }, as('bank'));
  expect([own.status, own.json.tris_org]).toEqual([201, 'tris:bank']);
  const again = await post('/v1/policies/ap', { policy_id: 'AP_BANK_V1', rules });
  expect([again.status, again.json]).toEqual([200, own.json]);
  expectProblem(await post('/v1/policies/ap', { policy_id: 'AP_BANK_V1', rules }, as('dao')), 409, 'policy_conflict');
  expectProblem(await post('/v1/policies/ap', { policy_id: 'AP_R_V1', rules }, as('reader')), 403, 'forbidden');
  expectProblem(await server.post('/v1/policies/ap', { policy_id: 'AP_R_V1', rules }), 401, 'unauthorized');
  const subject = { policy_id: 'AP_BANK_V1', subject_tris: 'tris:first' };
  expectProblem(await post('/v1/policies/ap/check', subject, as('reader')), 403, 'forbidden');

  const { eligibility_token: token } = (await post('/v1/policies/ap/check', subject)).json;
  expectProblem(await post('/v1/eligibility/revoke', { token }, as('dao')), 403, 'forbidden');
  expect((await post('/v1/eligibility/revoke', { token }, as('bank'))).status).toBe(200);
  const asked = (await post('/v1/policies/ap/check', subject, as('dao'))).json;
  expect((await post('/v1/eligibility/revoke', { token: asked.eligibility_token }, as('dao'))).status).toBe(200);

  expectProblem(await post('/v1/policies/ap/AP_BANK_V1/retire', undefined, as('dao')), 403, 'forbidden');
  expectProblem(await post('/v1/policies/ap/AP_STORY_V1/retire', undefined, as('bank')), 403, 'forbidden');
  const retirement = await post('/v1/policies/ap/AP_BANK_V1/retire', undefined, as('bank'));
  expect(retirement.json.status).toBe('retired');
  expectProblem(await post('/v1/policies/ap/check', subject), 409, 'policy_not_active');
  const list = await server.getAfter(retirement, '/v1/policies/ap?tris_org=tris:bank');
  expect(list.json.policies).toMatchObject([{ policy_id: 'AP_BANK_V1', tris_org: 'tris:bank', status: 'retired' }]);
});
