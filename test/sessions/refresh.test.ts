import { jest } from '@jest/globals';
import { RefreshFamilies } from '../../src/features/accounts/refresh-families.js';
import { Signatures } from '../../src/features/accounts/signatures.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { type Tokens, bearer, call, claim, codeOf, consent, newAccount, signIn } from './wallet.js';

let service: Service;
let ahead = 0;
beforeAll(async () => void (service = await startService({}, () => Date.now() + ahead)));
beforeEach(() => void (ahead = 0));
afterAll(() => service.close());

const refresh = (refresh_token: unknown) => call(service, '/v1/tris/token/refresh', { refresh_token });
const revoke = (refresh_token: string) => call(service, '/v1/tris/token/revoke', { refresh_token });
const signedIn = async (): Promise<Tokens> => (await signIn(service, newAccount())).json;
const GRACE_MS = 15_000;

test('a refresh returns new tokens for the same wallet and TRIS, and each new token can be refreshed once', async () => {
  const first = await claim(service, newAccount());
  let token = first.refresh_token;
  for (let i = 0; i < 3; i++) {
    ahead += GRACE_MS + 1;
    const { status, json } = await refresh(token);
    expect([status, json]).toEqual([
      200,
      { ...first, access_token: expect.any(String), refresh_token: expect.any(String) },
    ]);
    expect(json.refresh_token).not.toBe(token);
    token = json.refresh_token;
  }
});

test('a lost answer: the same token again, within the grace, gets the same successor', async () => {
  const { refresh_token } = await signedIn();
  const answer = await refresh(refresh_token);
  ahead = GRACE_MS - 1_000;
  const again = await refresh(refresh_token);
  expect([again.status, again.json.refresh_token]).toEqual([200, answer.json.refresh_token]);
  expect((await refresh(again.json.refresh_token)).status).toBe(200);
});

test('the grace of a contract wallet’s token begins when it is replaced, not before its chain is asked', async () => {
  const families = service.app.get(RefreshFamilies, { strict: false });
  const signatures = service.app.get(Signatures, { strict: false });
  const { refresh_token } = await families.begin(newAccount().address, 1, { message: 'm', signature: '0x' } as never);
  jest
    .spyOn(signatures, 'stillAccepts')
    .mockResolvedValue(true)
    .mockImplementationOnce(async () => {
      ahead += 8_000;
      return true;
    });
  try {
    const first = await families.rotate(refresh_token, 'c');
    ahead += GRACE_MS - 1_000;
    expect((await families.rotate(refresh_token, 'c')).refresh_token).toBe(first.refresh_token);
  } finally {
    jest.restoreAllMocks();
  }
});

test('fifty concurrent refreshes with one token get one successor, not fifty sessions', async () => {
  const { refresh_token } = await signedIn();
  const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(refresh_token)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ json }) => json.refresh_token)).size).toBe(1);
});

test('a token used after the grace ends the family: its successors too', async () => {
  const { refresh_token } = await signedIn();
  const next = (await refresh(refresh_token)).json.refresh_token;
  ahead = GRACE_MS + 1_000;
  expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_reused']);
  expect(codeOf(await refresh(next))).toEqual([401, 'refresh_revoked']);
  expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_revoked']);
});

test('a token used long ago ends the family also after the clock was set back', async () => {
  ahead = 86_400_000;
  const { refresh_token } = await signedIn();
  await refresh(refresh_token);
  ahead = 0;
  expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_reused']);
});

test('a token whose successor was used is refused within the grace too', async () => {
  const { refresh_token } = await signedIn();
  const second = (await refresh(refresh_token)).json.refresh_token;
  const third = (await refresh(second)).json.refresh_token;
  expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_reused']);
  expect(codeOf(await refresh(third))).toEqual([401, 'refresh_revoked']);
});

test('fifty concurrent refreshes with a token used long ago end the family, by one event', async () => {
  const { refresh_token } = await signedIn();
  await refresh(refresh_token);
  ahead = GRACE_MS + 1_000;
  const head = await service.stores.eventStore.head();
  const answers = await Promise.all(Array.from({ length: 50 }, () => refresh(refresh_token)));
  expect(answers.filter(({ status }) => status !== 401)).toEqual([]);
  expect(await service.stores.eventStore.head()).toBe(head + 1);
});

test.each([[''], ['x'], ['A'.repeat(64)], ['A'.repeat(63) + '='], ['Ä'.repeat(64)]])(
  'a token that is none (%j) is unknown',
  async (token) => {
    expect(codeOf(await refresh(token))).toEqual([401, 'refresh_unknown']);
    expect((await revoke(token)).json).toEqual({ revoked: true });
  },
);

test.each([[undefined], [null], [7], ['A'.repeat(4_097)]])('%j is not even a token', async (token) => {
  expect(codeOf(await refresh(token))).toEqual([400, 'validation_failed']);
});

test('an access token and a refresh token are not taken for each other', async () => {
  const { access_token, refresh_token } = await signedIn();
  expect(codeOf(await refresh(access_token))).toEqual([401, 'refresh_unknown']);
  const answer = await service.get('/v1/wallets/tris:a', { authorization: `Bearer ${refresh_token}` });
  expect(codeOf(answer)).toEqual([401, 'token_malformed']);
});

test('signing out ends the session, with any of its tokens, and is recorded', async () => {
  const { refresh_token, wallet } = await signedIn();
  const next = (await refresh(refresh_token)).json.refresh_token;
  const ended = await revoke(refresh_token);
  expect([ended.status, ended.json]).toEqual([200, { revoked: true }]);
  const position = Number(String(ended.headers['credence-position']).split('.')[1]);
  const event = await service.stores.eventStore.readAt(position);
  expect([event!.type, event!.data]).toEqual([
    'RefreshFamilyRevoked',
    { family_id: event!.stream.slice('family-'.length), wallet: wallet.toLowerCase(), reason: 'signed_out' },
  ]);
  expect(codeOf(await refresh(next))).toEqual([401, 'refresh_revoked']);
  expect((await revoke(next)).status).toBe(200);
});

test('the access token of an ended session can no longer write', async () => {
  const tokens = await claim(service, newAccount());
  await revoke(tokens.refresh_token);
  const answer = await call(service, '/v1/wallets/unlink', { wallet: tokens.wallet }, bearer(tokens));
  expect(codeOf(answer)).toEqual([401, 'session_revoked']);
});

test('the short-lived state restored as it was before does not let a revoked session back in', async () => {
  const { refresh_token } = await signedIn();
  const { keyValue, eventStore } = service.stores;
  await refresh(refresh_token);
  ahead = GRACE_MS + 1_000;
  await refresh(refresh_token);
  const { stream } = (await eventStore.readAt(await eventStore.head()))!;
  const key = `family:${stream.slice('family-'.length)}`;
  const family = (await keyValue.get(key)) as Record<string, unknown>;
  // As if nothing had ever been refreshed: the first token counts again.
  await keyValue.put(key, { ...family, current: family['previous'] as string, previous: null, seed: null }, 1_000_000);
  expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_revoked']);
  // And without any of it.
  await keyValue.take(key);
  expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_unknown']);
});

test('a session lasts thirty days, however often it is refreshed', async () => {
  const { refresh_token } = await signedIn();
  ahead = 29 * 86_400_000;
  const late = await refresh(refresh_token);
  expect(late.status).toBe(200);
  ahead = 30 * 86_400_000 + 1_000;
  expect(codeOf(await refresh(late.json.refresh_token))).toEqual([401, 'refresh_unknown']);
});

test('the store contains neither a token nor its secret', async () => {
  const { refresh_token } = await signedIn();
  const next = (await refresh(refresh_token)).json.refresh_token as string;
  const stored: string[] = [];
  const { keyValue } = service.stores;
  const [get, put] = [keyValue.get.bind(keyValue), keyValue.replace.bind(keyValue)];
  keyValue.get = async (key) => {
    const value = await get(key);
    stored.push(key + JSON.stringify(value));
    return value;
  };
  keyValue.replace = (key, expected, value, ttl) => {
    stored.push(key + JSON.stringify(value));
    return put(key, expected, value, ttl);
  };
  await refresh(next);
  Object.assign(keyValue, { get, replace: put });
  const texts = stored.join('\n');
  expect(stored.length).toBeGreaterThan(1);
  for (const token of [refresh_token, next]) {
    const bytes = Buffer.from(token, 'base64url');
    for (const part of [bytes, bytes.subarray(0, 16), bytes.subarray(16)]) {
      expect(texts).not.toContain(part.toString('base64url'));
      expect(texts).not.toContain(part.toString('hex'));
    }
  }
});

test('a refresh returns the TRIS that a wallet linked meanwhile may act for; after an unlink, the session has ended', async () => {
  const owner = await claim(service, newAccount());
  const wallet = newAccount();
  const { refresh_token, tris_id } = (await signIn(service, wallet)).json as Tokens;
  expect(tris_id).toBeNull();
  await call(service, '/v1/wallets/link', await consent(service, wallet, owner.tris_id), bearer(owner));
  const linked = (await refresh(refresh_token)).json;
  expect(linked.tris_id).toBe(owner.tris_id);
  await call(service, '/v1/wallets/unlink', { wallet: wallet.address }, bearer(owner));
  expect(codeOf(await refresh(linked.refresh_token))).toEqual([401, 'refresh_revoked']);
});
