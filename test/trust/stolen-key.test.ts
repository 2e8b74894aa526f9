import { createPrivateKey, sign as signBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { issuerKeyFile } from '../../src/credentials/issuer-keys.js';
import { signingKeyFile } from '../../src/credentials/signing-keys.js';
import { ConfigError, loadConfig } from '../../src/kernel/config.js';
import { becomes } from '../contracts/harness.js';
import { send } from '../http/client.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { type Tokens, call, claim, newAccount } from '../sessions/wallet.js';

/** What somebody can do who has copied the signing keys, and what ends it. */

let service: Service;
let folder: string;
let tokens: Tokens & { tris_id: string };
const path = () => join(folder, 'keys.json');
const file = () => signingKeyFile(loadConfig({ CREDENCE_SIGNING_KEYS: path() }));

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'credence-stolen-'));
  service = await startService({ CREDENCE_SIGNING_KEYS: path(), CREDENCE_RPC_31337: 'http://127.0.0.1:9' });
  tokens = await claim(service, newAccount());
});
afterEach(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Jwk {
  kid: string;
  d: string;
  x: string;
}
/** The thief's copy. */
const stolen = (): Jwk => JSON.parse(readFileSync(path(), 'utf8')).keys[0] as Jwk;
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

function forge({ kid, d, x }: Jwk, changes: object): string {
  const payload = JSON.parse(Buffer.from(tokens.access_token.split('.')[1]!, 'base64url').toString());
  const input = `${encode({ alg: 'EdDSA', kid, typ: 'session+jwt' })}.${encode({ ...payload, ...changes })}`;
  const key = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' });
  return `${input}.${signBytes(null, Buffer.from(input), key).toString('base64url')}`;
}

const wallets = async (token: string) => {
  const { status, json } = await send(service.port, 'GET', `/v1/wallets/${tokens.tris_id}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  return [status, json.code];
};
const now = () => Math.floor(Date.now() / 1000);

test('a forged token lives no longer than one that is issued', async () => {
  const key = stolen();
  expect(await wallets(forge(key, {}))).toEqual([200, undefined]);
  const years = { iat: now(), exp: now() + 10 * 365 * 86_400 };
  expect(await wallets(forge(key, years))).toEqual([401, 'token_malformed']);
});

test('a forged token of a session that was never started is refused', async () => {
  const sid = 'f'.repeat(64);
  expect(await wallets(forge(stolen(), { sid }))).toEqual([401, 'session_revoked']);
});

test('after a rotation at once the old key makes no new tokens', async () => {
  const key = stolen();
  await file().rotate(Date.now() - 120_000, 0);
  // Once the service has read the changed file.
  await becomes(
    () => wallets(forge(key, { iat: now(), exp: now() + 300 })),
    ([, code]) => code === 'token_signature',
  );
  // What it had signed before goes on to be accepted until it ends.
  expect(await wallets(forge(key, { iat: now() - 200, exp: now() + 100 }))).toEqual([200, undefined]);
});

test('after revoking the key nothing that it signed is accepted, cursors included, and new tokens are', async () => {
  await service.post('/v1/organizations', { tris_org: 'tris:a', platform_ids: [] });
  await service.post('/v1/organizations', { tris_org: 'tris:b', platform_ids: [] });
  const list = (cursor = '') => service.get(`/v1/organizations?limit=1${cursor}`, { 'x-api-key': service.key });
  let cursor: string | null = null;
  while (cursor === null) cursor = (await list()).json.next_cursor;
  const key = stolen();
  const next = await file().revoke(key.kid, Date.now());
  await becomes(
    () => wallets(forge(key, {})),
    ([, code]) => code === 'token_signature',
  );
  expect(await wallets(tokens.access_token)).toEqual([401, 'token_signature']);
  expect((await list(`&cursor=${cursor}`)).status).toBe(400);
  const jwks = await service.get('/.well-known/jwks.json');
  expect(jwks.json.keys.map(({ kid }: Jwk) => kid)).toEqual([next]);
  expect(jwks.headers['cache-control']).toBe('public, max-age=60');
  const { json } = await call(service, '/v1/tris/token/refresh', { refresh_token: tokens.refresh_token });
  expect(await wallets(json.access_token)).toEqual([200, undefined]);
});

test('after revoking the key a retry of a check makes another one, whose token is valid', async () => {
  const rules = { disc_min: 0 };
  expect((await service.post('/v1/policies/ap', { policy_id: 'AP_ALL_V1', rules })).status).toBe(201);
  const body = { policy_id: 'AP_ALL_V1', subject_tris: tokens.tris_id };
  const check = async () => (await service.post('/v1/policies/ap/check', body, { 'idempotency-key': 'once' })).json;
  const verify = async (token: string) => (await service.post('/v1/eligibility/verify', { token })).json.active;
  const first = await check();
  expect(await verify(first.eligibility_token)).toBe(true);
  expect(await check()).toEqual(first);
  await file().revoke(stolen().kid, Date.now());
  await becomes(
    () => verify(first.eligibility_token),
    (active) => active === false,
  );
  const second = await check();
  expect(second.granted).toBe(true);
  expect(await verify(second.eligibility_token)).toBe(true);
  expect(await check()).toEqual(second);
});

test('after revoking the key of vouchers a retry of a check makes another one, with a voucher', async () => {
  expect((await service.post('/v1/policies/ap', { policy_id: 'AP_ALL_V1', rules: { disc_min: 0 } })).status).toBe(201);
  const contract = `0x${'12'.repeat(20)}`;
  const target = { wallet: tokens.wallet, chain_id: 31_337, verifying_contract: contract };
  const body = { policy_id: 'AP_ALL_V1', subject_tris: tokens.tris_id, ...target };
  const check = async () => (await service.post('/v1/policies/ap/check', body, { 'idempotency-key': 'once' })).json;
  const issuers = async () => (await service.get('/v1/eligibility/issuers')).json.issuers.map(addressOf);
  const addressOf = ({ address }: { address: string }) => address;
  const first = await check();
  expect(first.voucher).not.toBeNull();
  expect(await check()).toEqual(first);
  const [issuer] = await issuers();
  await issuerKeyFile(service.config).revoke(issuer, Date.now());
  await becomes(issuers, (all) => !all.includes(issuer));
  const second = await check();
  expect([second.granted, second.voucher]).toEqual([true, expect.objectContaining({ signature: expect.any(String) })]);
  expect(await check()).toEqual(second);
});

test('a retired or announced key can be revoked, and an unknown one is said to be', async () => {
  const [first] = file().list(Date.now());
  const { kid } = await file().rotate(Date.now(), 600_000);
  expect(await file().revoke(kid, Date.now())).toBeNull();
  expect(
    file()
      .list(Date.now())
      .map((key) => key.kid),
  ).toEqual([first!.kid]);
  await expect(file().revoke(kid, Date.now())).rejects.toThrow(ConfigError);
});

test('a file with a key twice is refused', () => {
  const { keys } = JSON.parse(readFileSync(path(), 'utf8'));
  writeFileSync(path(), JSON.stringify({ keys: [...keys, { ...keys[0], signs_from: '2030-01-01T00:00:00Z' }] }));
  expect(() => file().read()).toThrow(/contains the key \S+ twice/);
});
