import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import type { Body, CredenceClient } from '../../clients/typescript/src/client.js';
import { eventually } from '../contracts/harness.js';
import { runCommand } from '../servers/launch.js';
import { Server, environmentOf, expectRefusal } from './server.js';

type CheckAccess = Body<'post', '/v1/policies/ap/check'>;
type Category = Body<'post', '/api/decision-relay'>['category'];

const folder = mkdtempSync(join(tmpdir(), 'credence-access-'));
const data = join(folder, 'data');
const keysFile = join(folder, 'keys.json');
// The chain is not asked: that it is configured is enough for vouchers.
const env = { CREDENCE_API_KEYS: keysFile, CREDENCE_RPC_1: 'http://127.0.0.1:1' };

let server: Server;
/** The client with the key of that name. */
const as = (name: 'operator' | 'bank' | 'dao' | 'reader') => server.clientWith(`secret-${name}`);
const anyone = () => server.clientWith(null);
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
  const body = { policy_id: 'AP_KNOWN_V1', rules: { tct_min: 1 }, ttl_seconds: 900 };
  await as('operator').post('/v1/policies/ap', { body });
  await earn('tris:known', 140, 'creative');
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A check by the operator, which sees what the operator did before. */
async function check(policy_id: string, subject_tris: string, key?: string, target: Partial<CheckAccess> = {}) {
  const header = key === undefined ? {} : { 'Idempotency-Key': key };
  const body = { policy_id, subject_tris, ...target };
  return (await as('operator').post('/v1/policies/ap/check', { body, params: { header } })).data;
}
const verify = async (token: string) => (await anyone().post('/v1/eligibility/verify', { body: { token } })).data;
const credence = async (...args: string[]) => {
  const { code, stdout, stderr } = await runCommand(args, await environmentOf(data));
  if (code !== 0) throw new Error(stderr);
  return stdout;
};

/**
 * Raises net TCT, and health, by actions on successive days, since a day earns no more than 140 TCT.
 * @param daysAgo of the latest; the others are before it
 */
async function earn(tris_id: string, tct: number, category: Category, daysAgo = 0): Promise<void> {
  for (let earned = 0; earned < tct; earned += 140, daysAgo++) {
    const occurred_at = new Date(Date.now() - daysAgo * 86_400_000).toISOString();
    const action = { tris_id, category, action_type: 'work', platform_id: 'guild', occurred_at };
    await as('operator').post('/api/decision-relay', { body: { ...action, criticality: 'Critical' } });
  }
}

test('a policy grants one identity and denies another, which then makes the suggested changes and is granted; all of it is derived again', async () => {
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
  const body = { policy_id: 'AP_STORY_V1', rules, ttl_seconds: 900 };
  const created = await as('operator').post('/v1/policies/ap', { body });
  expect(created.response.status).toBe(201);
  await earn('tris:first', 500, 'financial');
  await earn('tris:first', 500, 'governance', 4);
  await earn('tris:second', 140, 'creative');

  expect(await check('AP_STORY_V1', 'tris:first')).toMatchObject({ granted: true, how_to_pass: [] });
  const denied = await check('AP_STORY_V1', 'tris:second');
  expect(denied).toMatchObject({ granted: false, eligibility_token: null });
  expect(denied.reasons.map(({ pointer, outcome }) => `${pointer} ${outcome}`)).toEqual([
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
  for (const { fact, required, actual } of denied.how_to_pass) {
    expect(await check('AP_STORY_V1', 'tris:second')).toMatchObject({ granted: false });
    const [kind, category] = fact.split('.') as [string, Category];
    // A health of 0.5 is 416 TCT: −600 ln(1 − 0.5).
    if (kind === 'health') await earn('tris:second', 416, category);
    else await earn('tris:second', Number(required) - Number(actual), 'creative', 1);
  }
  const granted = await check('AP_STORY_V1', 'tris:second');
  expect(granted).toMatchObject({ granted: true, reasons: [], how_to_pass: [] });
  expect(await verify(granted.eligibility_token!)).toMatchObject({ active: true });

  const audited = JSON.parse(await credence('access', 'audit', 'tris:second', '--json'));
  expect(audited).toMatchObject({ subject: 'tris:second', agrees: true });
  expect(audited.decisions.length).toBeGreaterThan(3);
  expect(await credence('access', 'audit', 'tris:second')).toMatch(/decisions about tris:second: all agree/);
  expect(await credence('access', 'audit', 'tris:stranger')).toBe('no decisions about tris:stranger\n');
});

test('an integrator verifies a token elsewhere, with the package and the key set only', async () => {
  const { eligibility_token: token } = await check('AP_KNOWN_V1', 'tris:known');
  const elsewhere = join(folder, 'integrator');
  mkdirSync(join(elsewhere, 'node_modules'), { recursive: true });
  symlinkSync(resolve('.'), join(elsewhere, 'node_modules', 'credence'));
  const script = `
    import { verify } from 'credence/eligibility';
    const [url, token] = process.argv.slice(2);
    const jwks = await (await fetch(url + '/.well-known/jwks.json')).json();
    const results = [
      verify(token, { jwks, policy: 'AP_KNOWN_V1' }),
      verify(token, { jwks, policy: 'AP_OTHER_V1' }),
      verify(token, { jwks, audience: 'somebody' }),
      verify(token, { jwks, now: Date.now() + 901_000 }),
      verify(token.slice(0, -86) + 'A'.repeat(86), { jwks }),
    ];
    console.log(JSON.stringify(results));`;
  writeFileSync(join(elsewhere, 'verify.mjs'), script);
  const { stdout } = await promisify(execFile)(process.execPath, ['verify.mjs', server.url, token!], {
    cwd: elsewhere,
  });
  const [active, ...refused] = JSON.parse(stdout);
  expect(active).toMatchObject({ active: true, claims: { sub: 'tris:known', policy_id: 'AP_KNOWN_V1' } });
  expect(refused.map(({ reason }: any) => reason)).toEqual([
    'eligibility_policy',
    'eligibility_audience',
    'eligibility_expired',
    'eligibility_signature',
  ]);
});

test('revocations and decisions survive a restart, to the byte', async () => {
  const wallet = privateKeyToAccount(generatePrivateKey());
  const at = { address: wallet.address, chain_id: 1, purpose: 'link', tris_id: 'tris:known' } as const;
  const { message } = (await anyone().post('/v1/tris/auth/siwe/start', { body: at })).data;
  const signature = await wallet.signMessage({ message });
  await as('operator').post('/v1/wallets/link', { body: { message, signature } });
  const target = { wallet: wallet.address, chain_id: 1, verifying_contract: `0x${'c0'.repeat(20)}` };
  const kept = await check('AP_KNOWN_V1', 'tris:known', 'kept-1', target);
  expect(kept.voucher!.message).toMatchObject({ wallet: wallet.address });
  const { eligibility_token: revoked } = await check('AP_KNOWN_V1', 'tris:known');
  await as('operator').post('/v1/eligibility/revoke', { body: { token: revoked! } });
  await server.kill();
  server = await Server.start({ data, env });
  expect(await verify(revoked!)).toMatchObject({ reason: 'eligibility_revoked' });
  expect(await verify(kept.eligibility_token!)).toMatchObject({ active: true });
  expect(await check('AP_KNOWN_V1', 'tris:known', 'kept-1', target)).toEqual(kept);
});

test('a key is rotated under the running server, and what the old one signed still verifies', async () => {
  const kids = async () => (await anyone().get('/.well-known/jwks.json')).data.keys.map(({ kid }) => kid);
  const kidOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()).kid;
  const [first] = await kids();
  const before = await check('AP_KNOWN_V1', 'tris:known', 'rotated-1');
  await credence('signing-keys', 'rotate', '--at-once');
  await eventually(async () => (await kids()).length === 2, 'the new key is published');
  const [, second] = await kids();
  const after = await check('AP_KNOWN_V1', 'tris:known');
  const tokens = [before, after].map(({ eligibility_token: token }) => token!);
  expect(tokens.map(kidOf)).toEqual([first, second]);
  for (const token of tokens) expect(await verify(token)).toMatchObject({ active: true });
  expect(await check('AP_KNOWN_V1', 'tris:known', 'rotated-1')).toEqual(before);
  expect(await credence('signing-keys', 'prune')).toBe('no key to remove\n');
  expect(JSON.parse(await credence('signing-keys', 'list', '--json'))).toMatchObject([
    { kid: first, status: 'retired' },
    { kid: second, status: 'signing' },
  ]);
});

test('the issuer of vouchers is rotated independently, and published before it signs', async () => {
  const listed = async () => JSON.parse(await credence('signing-keys', 'list', '--vouchers', '--json'));
  const published = async () => (await anyone().get('/v1/eligibility/issuers')).data.issuers;
  const issuers = await published();
  expect(await listed()).toMatchObject([{ kid: issuers[0]!.address, status: 'signing' }]);
  const said = await credence('signing-keys', 'rotate', '--vouchers', '--in', '60');
  await eventually(async () => (await published()).length === 2, 'the next issuer is published');
  const [first, next] = await published();
  expect(first).toEqual(issuers[0]);
  expect(next).toMatchObject({ status: 'next', ends_at: null });
  expect(said).toBe(`${next!.address} signs from ${next!.signs_from}\n`);
  expect(await listed()).toMatchObject([{ status: 'signing' }, { kid: next!.address, status: 'next' }]);
  expect(await credence('signing-keys', 'prune', '--vouchers')).toBe('no key to remove\n');
});

test('scopes and owners', async () => {
  const [operator, bank, dao, reader] = [as('operator'), as('bank'), as('dao'), as('reader')];
  const rules = { disc_min: 5 };
  const create = (by: CredenceClient, policy_id: string) => by.post('/v1/policies/ap', { body: { policy_id, rules } });
  const own = await create(bank, 'AP_BANK_V1');
  expect([own.response.status, own.data.tris_org]).toEqual([201, 'tris:bank']);
  const again = await create(operator, 'AP_BANK_V1');
  expect([again.response.status, again.data]).toEqual([200, own.data]);
  await expectRefusal(create(dao, 'AP_BANK_V1'), 409, 'policy_conflict');
  await expectRefusal(create(reader, 'AP_R_V1'), 403, 'forbidden');
  await expectRefusal(create(anyone(), 'AP_R_V1'), 401, 'unauthorized');
  const checkBy = async (by: CredenceClient) =>
    (await by.post('/v1/policies/ap/check', { body: { policy_id: 'AP_BANK_V1', subject_tris: 'tris:known' } })).data;
  await expectRefusal(checkBy(reader), 403, 'forbidden');

  const revoke = (by: CredenceClient, { eligibility_token: token }: { eligibility_token: string | null }) =>
    by.post('/v1/eligibility/revoke', { body: { token: token! } });
  const checked = await checkBy(operator);
  await expectRefusal(revoke(dao, checked), 403, 'forbidden');
  await revoke(bank, checked);
  await revoke(dao, await checkBy(dao));

  const retire = (by: CredenceClient, policy_id: string) =>
    by.post('/v1/policies/ap/{policy_id}/retire', { params: { path: { policy_id } } });
  await expectRefusal(retire(dao, 'AP_BANK_V1'), 403, 'forbidden');
  await expectRefusal(retire(bank, 'AP_KNOWN_V1'), 403, 'forbidden');
  expect((await retire(bank, 'AP_BANK_V1')).data.status).toBe('retired');
  await expectRefusal(checkBy(operator), 409, 'policy_not_active');
  anyone().position = bank.position;
  const { data: list } = await anyone().get('/v1/policies/ap', { params: { query: { tris_org: 'tris:bank' } } });
  expect(list.policies).toMatchObject([{ policy_id: 'AP_BANK_V1', tris_org: 'tris:bank', status: 'retired' }]);
});
