import { createHash, randomUUID } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { getAddress, verifyTypedData } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { id as hashOfText } from 'ethers/hash';
import { internalActor } from '../../src/commands/context.js';
import { loadConfig } from '../../src/kernel/config.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { Logger } from '../../src/kernel/logger.js';
import { issuerKeyFile, issuerKeys } from '../../src/credentials/issuer-keys.js';
import { ANNOUNCED_MS } from '../../src/credentials/key-file.js';
import { WalletLinks } from '../../src/features/accounts/wallet-links.js';
import { blocks, read } from '../docs/markdown.js';
import { type Service, relay, startService } from '../policies/service.fixture.js';
import { type Account, bearer, call, claim, codeOf, consent, newAccount } from '../sessions/wallet.js';

/** Vouchers as the answer to a check gives them. */

const POLICY = 'AP_GATE_V1';
const CONTRACT = getAddress(`0x${'c0'.repeat(20)}`);
const TARGET = { chain_id: 31337, verifying_contract: CONTRACT };

let service: Service;
let now = 0;
beforeAll(async () => {
  // Nothing asks the chain: that it is configured is enough.
  service = await startService({ CREDENCE_RPC_31337: 'http://127.0.0.1:1' }, () => Date.now() + now);
  await service.post('/v1/policies/ap', { policy_id: POLICY, rules: { tct_min: 0 }, ttl_seconds: 300 });
});
afterEach(() => void (now = 0));
afterAll(() => service.close());

const post = (body: object, headers: Record<string, string> = {}) =>
  service.post('/v1/policies/ap/check', { policy_id: POLICY, ...body }, headers);
const issuers = async () => (await service.get('/v1/eligibility/issuers')).json;
const act = (tris_id: string) =>
  relay(service, [{ tris_id, category: 'financial', action_type: 'repayment', criticality: 'high' }]);

/** A wallet that has claimed its own TRIS, which the service has seen. */
async function subject(): Promise<{ wallet: Account; tris: string }> {
  const wallet = newAccount();
  const { tris_id: tris } = await claim(service, wallet);
  const position = await act(tris);
  await service.get(`/v1/disc/score/${tris}`, { 'credence-min-position': position });
  return { wallet, tris };
}

test('a granted check gives the same decision as typed data, which any library verifies', async () => {
  const { wallet, tris } = await subject();
  const audience = 'https://app.example';
  const answer = await post({ subject_tris: tris, audience, wallet: wallet.address, ...TARGET });
  expect(answer.status).toBe(200);
  const { granted, voucher, eligibility_token: token, expires_at } = answer.json;
  const { claims } = (await service.post('/v1/eligibility/verify', { token, audience })).json;
  expect(granted).toBe(true);
  expect(voucher).toEqual({
    domain: { name: 'Credence', version: '1', chainId: 31337, verifyingContract: CONTRACT },
    message: {
      jti: `0x${claims.jti.replaceAll('-', '')}`,
      wallet: wallet.address,
      subject: hashOfText(tris),
      policy: hashOfText(POLICY),
      policyHash: `0x${claims.policy_hash}`,
      audience: hashOfText(audience),
      expiresAt: claims.exp,
    },
    signature: expect.stringMatching(/^0x[0-9a-f]{128}(1b|1c)$/),
  });
  const documented = JSON.parse(blocks(read('docs/vouchers.md')).find(({ language }) => language === 'json')!.text);
  const shapeOf = (one: { domain: object; message: object }) => [one, one.domain, one.message].map(Object.keys);
  expect(shapeOf(documented)).toEqual(shapeOf(voucher));
  expect(new Date(voucher.message.expiresAt * 1000).toISOString()).toBe(expires_at);

  const published = await issuers();
  expect(published).toMatchObject({ domain: { name: 'Credence', version: '1' } });
  expect(published.issuers[0]).toMatchObject({ status: 'signing' });
  const { primary_type: primaryType, types } = published;
  const typed = { ...voucher, primaryType, types, address: published.issuers[0].address };
  expect(await verifyTypedData(typed)).toBe(true);
  expect(await verifyTypedData({ ...typed, message: { ...voucher.message, wallet: CONTRACT } })).toBe(false);
});

test('a signature is deterministic (RFC 6979) and has a low s: byte for byte that of another library', async () => {
  const { keys } = JSON.parse(readFileSync(join(service.config.data, 'voucher-keys.json'), 'utf8'));
  const account = privateKeyToAccount(`0x${Buffer.from(keys[0].d, 'base64url').toString('hex')}`);
  const { primary_type: primaryType, types, issuers: listed } = await issuers();
  expect(account.address).toBe(listed[0].address);
  const { wallet, tris } = await subject();
  for (let i = 0; i < 20; i++) {
    const { voucher } = (await post({ subject_tris: tris, wallet: wallet.address, ...TARGET })).json;
    expect(voucher.message.audience).toBe(`0x${'0'.repeat(64)}`);
    expect(await account.signTypedData({ ...voucher, primaryType, types })).toBe(voucher.signature);
  }
});

test('a retry gets the identical voucher, in whatever spelling of the addresses, whatever has happened since', async () => {
  const { wallet, tris } = await subject();
  const retry = { 'idempotency-key': randomUUID() };
  const body = { subject_tris: tris, wallet: wallet.address, ...TARGET };
  const first = await post(body, retry);
  expect(first.json.voucher).not.toBeNull();
  const session = await claim(service, wallet);
  const agreed = await consent(service, wallet, session.tris_id, 'unlink');
  const unlinking = { wallet: wallet.address, ...agreed };
  const unlinked = await call(service, '/v1/wallets/unlink', unlinking, bearer(session));
  expect(unlinked.status).toBe(200);
  const again = await post(
    { ...body, wallet: wallet.address.toLowerCase(), verifying_contract: CONTRACT.toLowerCase() },
    retry,
  );
  expect(again.text).toBe(first.text);
  expect(codeOf(await post({ ...body, chain_id: 31337, verifying_contract: wallet.address }, retry))).toEqual([
    422,
    'idempotency_key_reused',
  ]);
});

test('only a granted decision has a voucher, and only if requested', async () => {
  const { wallet, tris } = await subject();
  expect((await post({ subject_tris: tris })).json).toMatchObject({ granted: true, voucher: null });
  await service.post('/v1/policies/ap', { policy_id: 'AP_STEEP_V1', rules: { disc_min: 99 } });
  const body = { policy_id: 'AP_STEEP_V1', subject_tris: tris, wallet: wallet.address, ...TARGET };
  const denied = (await post(body)).json;
  expect(denied).toMatchObject({ granted: false, eligibility_token: null, voucher: null });
  expect(denied.reasons).toHaveLength(1);
});

describe('refuses', () => {
  const zero = `0x${'0'.repeat(40)}`;
  const someone = `0x${'ab'.repeat(20)}`;
  test.each<[string, object, (string | number)[]]>([
    ['a wallet alone', { wallet: someone }, [400, 'validation_failed', '/chain_id', '/verifying_contract']],
    ['a contract alone', { verifying_contract: CONTRACT }, [400, 'validation_failed', '/wallet', '/chain_id']],
    ['a chain alone', { chain_id: 1 }, [400, 'validation_failed', '/wallet', '/verifying_contract']],
    ['the zero wallet', { ...TARGET, wallet: zero }, [400, 'validation_failed', '/wallet']],
    [
      'the zero contract',
      { ...TARGET, wallet: someone, verifying_contract: zero },
      [400, 'validation_failed', '/verifying_contract'],
    ],
    ['no address', { ...TARGET, wallet: 'alice.eth' }, [400, 'validation_failed', '/wallet']],
    ['a list', { ...TARGET, wallet: [someone] }, [400, 'validation_failed', '/wallet']],
    ['a wrong checksum', { ...TARGET, wallet: `0x${'aB'.repeat(20)}` }, [400, 'address_checksum', '/wallet']],
    ['chain 0', { ...TARGET, wallet: someone, chain_id: 0 }, [400, 'validation_failed', '/chain_id']],
    ['half a chain', { ...TARGET, wallet: someone, chain_id: 1.5 }, [400, 'validation_failed', '/chain_id']],
    ['a chain in words', { ...TARGET, wallet: someone, chain_id: '1' }, [400, 'validation_failed', '/chain_id']],
    ['a chain too large', { ...TARGET, wallet: someone, chain_id: 2 ** 53 }, [400, 'validation_failed', '/chain_id']],
    ['an unknown chain', { ...TARGET, wallet: someone, chain_id: 5 }, [400, 'chain_not_configured', '/chain_id']],
    ['a wallet that is not linked', { ...TARGET, wallet: someone }, [404, 'wallet_not_linked', '/wallet']],
    ['null', { ...TARGET, wallet: null }, [400, 'validation_failed', '/wallet']],
  ])('%s', async (_what, body, expected) => {
    const head = await service.stores.eventStore.head();
    const { status, json } = await post({ subject_tris: 'tris:refused', ...body });
    const pointers = json.errors.map(({ pointer }: { pointer: string }) => pointer);
    expect([status, json.code, ...pointers]).toEqual(expected);
    expect(await service.stores.eventStore.head()).toEqual(head);
  });

  test('the wallet of another, a link that the wallet has not signed, and that of a contract on another chain', async () => {
    const [mine, theirs] = [await subject(), await subject()];
    const ask = async (wallet: string, tris = mine.tris) =>
      codeOf(await post({ subject_tris: tris, wallet, ...TARGET }));
    const refused = [404, 'wallet_not_linked'];
    const given = [200, undefined];
    expect(await ask(theirs.wallet.address)).toEqual(refused);

    const second = newAccount();
    await service.post('/api/link-account', { wallet: second.address, tris_id: mine.tris });
    expect(await ask(second.address)).toEqual(refused);
    const signed = await consent(service, second, mine.tris);
    await service.post('/v1/wallets/link', signed);
    expect(await ask(second.address)).toEqual(given);

    const link = (wallet: string, chain_id: number) =>
      service.app
        .get(WalletLinks, { strict: false })
        .link(
          wallet,
          { tris_id: mine.tris, proof: 'signed', chain_id, asserted_by: null },
          { actor: internalActor('cli'), body_hash: randomUUID(), correlation_id: randomUUID(), idempotency: null },
        );
    const [here, elsewhere] = [newAccount().address, newAccount().address];
    await link(here, 31337);
    await link(elsewhere, 1);
    expect(await ask(here)).toEqual(given);
    expect(await ask(elsewhere)).toEqual(refused);

    // What is not said: whether the wallet belongs to somebody else.
    const detail = async (wallet: string) => {
      const { json } = await post({ subject_tris: mine.tris, wallet, ...TARGET });
      return json.detail;
    };
    expect(await detail(theirs.wallet.address)).toBe(await detail(newAccount().address));
  });
});

test('decisions of earlier versions are read, and repeated as they were', async () => {
  const { wallet, tris } = await subject();
  const { eventStore } = service.stores;
  const { eligibility_token: token, voucher } = (await post({ subject_tris: tris, wallet: wallet.address, ...TARGET }))
    .json;
  expect(voucher).not.toBeNull();
  const { claims } = (await service.post('/v1/eligibility/verify', { token })).json;
  const [recorded] = await eventStore.readStream(`access-${claims.jti}`);
  const { chain_id, verifying_contract, voucher_issuer, log, ...before } = recorded!.data;
  expect([chain_id, verifying_contract, voucher_issuer]).toEqual([
    31337,
    CONTRACT.toLowerCase(),
    (await issuers()).issuers[0].address,
  ]);
  expect([recorded!.metadata.schema, log]).toEqual([7, eventStore.logId]);
  // As it was appended before there were vouchers.
  const jti = randomUUID();
  await eventStore.append(`access-${jti}`, 'no-stream', [
    {
      id: randomUUID(),
      type: recorded!.type,
      data: { ...before, jti },
      metadata: { ...recorded!.metadata, schema: 2 },
    },
  ]);
  const revoked = await service.post('/v1/eligibility/revoke', { jti });
  expect([revoked.status, revoked.json]).toEqual([200, { jti, revoked: true }]);
});

test('a new issuer is published before it signs; what the old one signed is signed again by it', async () => {
  const { wallet, tris } = await subject();
  const file = issuerKeyFile(loadConfig({ CREDENCE_DATA: service.config.data }));
  expect(statSync(file.path).mode & 0o777).toBe(0o600);
  // Of a policy whose tokens outlive the rotation: a check whose token has expired is made again.
  const lasting = { policy_id: 'AP_LASTING_V1', rules: { tct_min: 0 }, ttl_seconds: 3_600 };
  await service.post('/v1/policies/ap', lasting);
  const body = { subject_tris: tris, wallet: wallet.address, ...TARGET, policy_id: lasting.policy_id };
  const retry = { 'idempotency-key': randomUUID() };
  const first = await post(body, retry);
  const [old] = (await issuers()).issuers;

  const { kid, signs_from } = await file.rotate(Date.now(), ANNOUNCED_MS);
  now = 2_000;
  expect((await issuers()).issuers).toMatchObject([
    { address: old.address, status: 'signing', ends_at: null },
    { address: kid, status: 'next', signs_from: new Date(signs_from).toISOString() },
  ]);
  const { primary_type: primaryType, types } = await issuers();
  const signedBy = (voucher: object, address: string) =>
    verifyTypedData({ ...voucher, primaryType, types, address } as never);
  expect(await signedBy((await post(body)).json.voucher, old.address)).toBe(true);

  now = ANNOUNCED_MS + 2_000;
  expect((await issuers()).issuers).toMatchObject([
    { address: old.address, status: 'retired', ends_at: expect.any(String) },
    { address: kid, status: 'signing' },
  ]);
  expect(await signedBy((await post(body)).json.voucher, kid)).toBe(true);
  expect((await post(body, retry)).json).toEqual(first.json);
});

test('in the cluster profile processes share the file, and without one there are no vouchers', async () => {
  const folder = service.config.data;
  const sha256 = createHash('sha256').update('operator').digest('hex');
  const keys = join(folder, 'cluster-api-keys.json');
  writeFileSync(keys, JSON.stringify([{ id: 'operator', sha256, scopes: [...SCOPES] }]));
  const cluster = {
    CREDENCE_PROFILE: 'cluster',
    CREDENCE_API_KEYS: keys,
    CREDENCE_SIGNING_KEYS: join(folder, 'signing-keys.json'),
    // Not asked: the stores of this test are those of a data folder.
    EVENTSTORE_URL: 'esdb://127.0.0.1:1',
    REDIS_URL: 'redis://127.0.0.1:1',
    CREDENCE_DATABASE_URL: 'postgres://credence@127.0.0.1:1/credence',
    CREDENCE_RPC_31337: 'http://127.0.0.1:1',
  };
  const other = await startService(cluster);
  try {
    const key = { 'x-api-key': 'operator' };
    expect((await other.get('/v1/eligibility/issuers')).json.issuers).toEqual([]);
    const wallet = newAccount();
    const { tris_id } = await claim(other, wallet);
    await other.post('/v1/policies/ap', { policy_id: POLICY, rules: { tct_min: 0 } }, key);
    const body = { policy_id: POLICY, subject_tris: tris_id };
    expect(codeOf(await other.post('/v1/policies/ap/check', body, key))).toEqual([200, undefined]);
    const asked = await other.post('/v1/policies/ap/check', { ...body, wallet: wallet.address, ...TARGET }, key);
    expect(codeOf(asked)).toEqual([400, 'vouchers_not_configured']);
  } finally {
    await other.close();
  }
  const named = { ...cluster, CREDENCE_VOUCHER_KEYS: join(folder, 'none.json') };
  const make = () => issuerKeys(loadConfig(named), new Logger('error'), Date.now);
  expect(make).toThrow(/CREDENCE_VOUCHER_KEYS names .*none\.json, which does not exist; .*create --vouchers/);
  issuerKeyFile(loadConfig(named)).create();
  expect(make()!.current.kid).toMatch(/^0x[0-9a-fA-F]{40}$/);
});

describe('the file of the issuers', () => {
  const files = () => issuerKeyFile(loadConfig({ CREDENCE_DATA: join(service.config.data, randomUUID()) }));
  const write = (text: string) => {
    const file = files();
    file.create();
    writeFileSync(file.path, text);
    return file;
  };

  test.each([
    ['{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}', /key 1 is not a key on secp256k1/],
    ['{"keys":[{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}]}', /key 1 is not a key on secp256k1/],
  ])('%s is refused with a sentence', (text, message) => {
    const file = write(text);
    expect(() => file.read()).toThrow(message);
  });

  test('a private part of another point, or a name of another key, is refused', () => {
    const [one, other] = [files(), files()].map((file) => {
      file.create();
      return JSON.parse(readFileSync(file.path, 'utf8')).keys[0];
    });
    const readOne = (key: object) => write(JSON.stringify({ keys: [key] })).read();
    expect(readOne(one)).toHaveLength(1);
    expect(() => readOne({ ...one, d: other.d })).toThrow('private part that does not match its x and y');
    expect(() => readOne({ ...one, d: Buffer.alloc(32).toString('base64url') })).toThrow('private part');
    expect(() => readOne({ ...one, kid: other.kid })).toThrow('a kid that does not match the key');
    const { d: _private, ...published } = one;
    expect(() => readOne(published)).toThrow('no private key');
  });
});
