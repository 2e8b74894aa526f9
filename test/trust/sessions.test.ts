import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SCOPES } from '../../src/credentials/caller.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { type Account, bearer, call, claim, codeOf, consent, newAccount, signIn, start } from '../sessions/wallet.js';

/** What is left to a thief of a session once its owner, or an operator, has noticed. */

const KEYS = [
  { id: 'operator', sha256: sha256Hex('operator'), scopes: [...SCOPES] },
  { id: 'desk', sha256: sha256Hex('desk'), scopes: ['identity:write'] },
  { id: 'bank', sha256: sha256Hex('bank'), scopes: [...SCOPES], organization: 'tris:bank' },
];
const as = (key: string) => ({ 'x-api-key': key });

let service: Service;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'credence-sessions-'));
  writeFileSync(join(folder, 'keys.json'), JSON.stringify(KEYS));
  service = await startService({ CREDENCE_API_KEYS: join(folder, 'keys.json') });
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

type Tokens = { access_token: string; refresh_token: string };
const refresh = ({ refresh_token }: Tokens) => call(service, '/v1/tris/token/refresh', { refresh_token });
const writes = (tokens: Tokens, wallet: string, tris_id: string) =>
  call(service, '/api/link-account', { wallet, tris_id }, bearer(tokens));
async function signed(signer: Account, wish: Record<string, unknown>) {
  const { message } = await start(service, signer.address, wish);
  return { message, signature: await signer.signMessage({ message }) };
}
const events = async (wallet: string) =>
  (await service.stores.eventStore.readStream(`wallet-${wallet.toLowerCase()}`)).map(({ type }) => type);

test('the owner ends all sessions of the wallet by a signature; those that begin later work', async () => {
  const owner = newAccount();
  const [stolen, own] = [await claim(service, owner), (await signIn(service, owner)).json];
  const body = await signed(owner, { purpose: 'end_sessions' });
  const ended = await call(service, '/v1/tris/sessions/end', body);
  expect([ended.status, ended.json]).toEqual([200, { wallet: owner.address, ended: true }]);
  for (const tokens of [stolen, own]) {
    expect(codeOf(await refresh(tokens))).toEqual([401, 'refresh_revoked']);
    expect(codeOf(await writes(tokens, owner.address, stolen.tris_id))).toEqual([401, 'session_revoked']);
  }
  const later = (await signIn(service, owner)).json;
  expect(later.tris_id).toBe(stolen.tris_id);
  expect((await refresh(later)).status).toBe(200);
  expect(codeOf(await call(service, '/v1/tris/sessions/end', body))).toEqual([401, 'nonce_used']);
});

test('nobody else ends them, nor does a signature for another purpose', async () => {
  const owner = newAccount();
  const tokens = await claim(service, owner);
  const { message } = await start(service, owner.address, { purpose: 'end_sessions' });
  const forged = { message, signature: await newAccount().signMessage({ message }) };
  expect(codeOf(await call(service, '/v1/tris/sessions/end', forged))).toEqual([401, 'siwe_signature']);
  const other = await signed(owner, { purpose: 'sign_in' });
  expect(codeOf(await call(service, '/v1/tris/sessions/end', other))).toEqual([401, 'siwe_purpose']);
  for (const key of ['desk', 'bank']) {
    const body = { wallet: owner.address, reason_code: 'theft' };
    expect((await call(service, '/v1/wallets/end-sessions', body, as(key))).status).toBe(403);
  }
  expect((await refresh(tokens)).status).toBe(200);
});

test('an operator ends all sessions of a wallet, with a reason that is recorded', async () => {
  const owner = newAccount();
  const tokens = await claim(service, owner);
  const body = { wallet: owner.address, reason_code: 'theft' };
  expect((await call(service, '/v1/wallets/end-sessions', body, as('operator'))).status).toBe(200);
  expect(codeOf(await refresh(tokens))).toEqual([401, 'refresh_revoked']);
  const history = await service.stores.eventStore.readStream(`wallet-${owner.address.toLowerCase()}`);
  expect(history.at(-1)).toMatchObject({
    type: 'SessionsEnded',
    data: { reason: 'operator', reason_code: 'theft' },
    metadata: { actor: 'key:operator' },
  });
});

test('unlinking ends the wallet’s sessions, and claiming again does not bring them back', async () => {
  const [founder, second] = [newAccount(), newAccount()];
  const tokens = await claim(service, founder);
  const link = await consent(service, second, tokens.tris_id);
  expect((await call(service, '/v1/wallets/link', link, bearer(tokens))).status).toBe(200);
  const stolen = (await signIn(service, second)).json;
  expect(stolen.tris_id).toBe(tokens.tris_id);
  const unlinked = await call(service, '/v1/wallets/unlink', { wallet: second.address }, bearer(tokens));
  expect(unlinked.status).toBe(200);
  expect(codeOf(await refresh(stolen))).toEqual([401, 'refresh_revoked']);
  const again = await claim(service, second);
  expect(again.tris_id).toBe(`tris:${second.address.toLowerCase()}`);
  expect(codeOf(await refresh(stolen))).toEqual([401, 'refresh_revoked']);
  expect(codeOf(await writes(stolen, second.address, again.tris_id))).toEqual([401, 'session_revoked']);
  expect((await refresh(tokens)).status).toBe(200);
});

test('the wallet that founded a TRIS is unlinked with its own signature only', async () => {
  const [founder, second] = [newAccount(), newAccount()];
  const tokens = await claim(service, founder);
  const link = await consent(service, second, tokens.tris_id);
  await call(service, '/v1/wallets/link', link, bearer(tokens));
  const others = (await signIn(service, second)).json;
  const unlink = (body: object, by: Tokens) =>
    call(service, '/v1/wallets/unlink', { wallet: founder.address, ...body }, bearer(by));
  for (const by of [tokens, others]) expect(codeOf(await unlink({}, by))).toEqual([403, 'signature_required']);
  const ofSecond = await signed(second, { purpose: 'unlink', tris_id: tokens.tris_id });
  expect(codeOf(await unlink(ofSecond, others))).toEqual([401, 'siwe_address']);
  const elsewhere = await signed(founder, { purpose: 'unlink', tris_id: 'tris:elsewhere' });
  expect(codeOf(await unlink(elsewhere, tokens))).toEqual([403, 'signature_required']);
  const agreed = await signed(founder, { purpose: 'unlink', tris_id: tokens.tris_id });
  const answer = await unlink(agreed, others);
  expect([answer.status, answer.json.tris_id]).toEqual([200, tokens.tris_id]);
  expect(await events(founder.address)).toEqual(['WalletLinked', 'WalletUnlinked']);
});

test('a retry of a signed unlinking gets the first answer', async () => {
  const founder = newAccount();
  const tokens = await claim(service, founder);
  const second = newAccount();
  await call(service, '/v1/wallets/link', await consent(service, second, tokens.tris_id), bearer(tokens));
  const others = (await signIn(service, second)).json;
  const body = { wallet: founder.address, ...(await signed(founder, { purpose: 'unlink', tris_id: tokens.tris_id })) };
  const headers = { ...bearer(others), 'idempotency-key': `unlink-${founder.address}` };
  const [first, again] = [
    await call(service, '/v1/wallets/unlink', body, headers),
    await call(service, '/v1/wallets/unlink', body, headers),
  ];
  expect([again.status, again.json]).toEqual([200, first.json]);
});

test('an operator ends any link with a reason, which is recorded; others’ keys do not', async () => {
  const founder = newAccount();
  const tokens = await claim(service, founder);
  const unlink = (body: object, key: string) =>
    call(service, '/v1/wallets/unlink', { wallet: founder.address, ...body }, as(key));
  expect((await unlink({}, 'operator')).status).toBe(403);
  for (const key of ['desk', 'bank']) expect((await unlink({ reason_code: 'theft' }, key)).status).toBe(403);
  expect((await unlink({ reason_code: 'theft' }, 'operator')).status).toBe(200);
  expect(await events(founder.address)).toEqual(['WalletLinked', 'SessionsEnded', 'WalletUnlinked']);
  expect(codeOf(await refresh(tokens))).toEqual([401, 'refresh_revoked']);
});
