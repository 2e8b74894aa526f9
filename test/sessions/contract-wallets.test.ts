import { type RequestListener, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Hex,
  concatHex,
  encodeErrorResult,
  encodeFunctionData,
  hashMessage,
  parseAbi,
  parseSignature,
  serializeCompactSignature,
  signatureToCompactSignature,
} from 'viem';
import { serializeErc6492Signature } from 'viem/utils';
import { type Service, seen, startService } from '../policies/service.fixture.js';
import { Anvil, type Compiled, FUNDED } from '../servers/anvil.js';
import { compile } from '../../contracts/tools.mjs';
import { internalActor } from '../../src/commands/context.js';
import { WalletLinks } from '../../src/features/accounts/wallet-links.js';
import { account, bearer, call, codeOf, newAccount, start, verify } from './wallet.js';

/** Contract wallets on a real node: two chains, the same contracts on both. */

const CHAIN = 31337;
const OTHER = 31338;
let anvil: Anvil;
let other: Anvil;
let service: Service;
let contracts: Record<string, Compiled>;
let wallet: Hex;
let factory: Hex;
const owner = account(0x0331);

beforeAll(async () => {
  contracts = compile('test/servers/wallets.sol');
  [anvil, other] = await Promise.all([Anvil.start(CHAIN), Anvil.start(OTHER)]);
  wallet = await anvil.deploy(contracts['OwnedWallet']!, [owner.address]);
  factory = await anvil.deploy(contracts['WalletFactory']!);
  service = await startService({
    CREDENCE_RPC_31337: anvil.url,
    CREDENCE_RPC_31338: other.url,
    // Says it is another chain than it is configured for.
    CREDENCE_RPC_5: anvil.url,
    // Nobody is there.
    CREDENCE_RPC_6: 'http://127.0.0.1:9',
  });
});
afterAll(() => service.close());

const signedBy = async (signer: typeof owner, address: string, wish: Record<string, unknown> = {}) => {
  const { message } = await start(service, address, { chain_id: CHAIN, ...wish });
  return { message, signature: await signer.signMessage({ message }) };
};
const signInAs = async (address: string, wish: Record<string, unknown> = {}, signer = owner) => {
  const { message, signature } = await signedBy(signer, address, wish);
  return verify(service, message, signature);
};

test('a contract wallet signs in by its owner’s signature (ERC-1271)', async () => {
  const answer = await signInAs(wallet);
  expect([answer.status, answer.json.wallet.toLowerCase()]).toEqual([200, wallet.toLowerCase()]);
});

test('a contract wallet refuses the signature of another key, and the message is used up', async () => {
  const { message, signature } = await signedBy(newAccount(), wallet);
  const answer = await verify(service, message, signature);
  expect(codeOf(answer)).toEqual([401, 'siwe_signature']);
  expect(answer.json.detail).toMatch(/does not accept/);
  expect(codeOf(await verify(service, message, await owner.signMessage({ message })))).toEqual([401, 'nonce_used']);
});

test('a contract wallet refuses the signature of a former owner', async () => {
  const [former, next] = [FUNDED, newAccount()];
  const handed = await anvil.deploy(contracts['OwnedWallet']!, [former.address]);
  expect((await signInAs(handed, {}, former as typeof owner)).status).toBe(200);
  const { abi } = contracts['OwnedWallet']!;
  const hash = await anvil.writer.writeContract({ address: handed, abi, functionName: 'hand', args: [next.address] });
  await anvil.mined(hash);
  expect(codeOf(await signInAs(handed, {}, former as typeof owner))).toEqual([401, 'siwe_signature']);
  expect((await signInAs(handed, {}, next)).status).toBe(200);
});

test('an address without a contract is not a contract wallet', async () => {
  expect(codeOf(await signInAs(newAccount().address))).toEqual([401, 'siwe_no_contract']);
});

test('a contract that is not a wallet, or that never returns, accepts no signature', async () => {
  expect(codeOf(await signInAs(factory))).toEqual([401, 'siwe_signature']);
  const burner = await anvil.deploy(contracts['GasBurner']!);
  expect(codeOf(await signInAs(burner))).toEqual([401, 'siwe_signature']);
});

test('a contract that returns the question accepts no signature', async () => {
  const echo = await anvil.deploy(contracts['Echo']!);
  expect(codeOf(await signInAs(echo, { purpose: 'claim' }))).toEqual([401, 'siwe_signature']);
  // So does the precompiled contract 4, which has no code: it is asked if the signature brings a call.
  const identity = '0x0000000000000000000000000000000000000004';
  const { message, signature } = await signedBy(owner, identity);
  const wrapped = serializeErc6492Signature({ address: factory, data: '0x', signature });
  expect(codeOf(await verify(service, message, wrapped))).toEqual([401, 'siwe_signature']);
});

test('a wallet that is not deployed yet signs in with its deployment data (ERC-6492)', async () => {
  const salt = `0x${'07'.repeat(32)}` as const;
  const { abi } = contracts['WalletFactory']!;
  const args = [owner.address, salt] as const;
  const address = (await anvil.reader.readContract({ address: factory, abi, functionName: 'addressOf', args })) as Hex;
  const data = encodeFunctionData({ abi, functionName: 'deploy', args });
  const wrapped = (signature: Hex) => serializeErc6492Signature({ address: factory, data, signature });

  const { message, signature } = await signedBy(owner, address);
  expect((await verify(service, message, wrapped(signature))).status).toBe(200);
  expect(await anvil.reader.getCode({ address })).toBeUndefined();

  const forged = await signedBy(newAccount(), address);
  expect(codeOf(await verify(service, forged.message, wrapped(forged.signature)))).toEqual([401, 'siwe_signature']);
  // Somebody else's counterfactual wallet does not vouch for this address.
  const elsewhere = await signedBy(owner, newAccount().address);
  expect(codeOf(await verify(service, elsewhere.message, wrapped(elsewhere.signature)))).toEqual([
    401,
    'siwe_signature',
  ]);
});

test('a stored approval is a signature without bytes (Safe), until it is taken back', async () => {
  const { abi } = contracts['ApprovingWallet']!;
  const approving = await anvil.deploy(contracts['ApprovingWallet']!, [FUNDED.address]);
  const approve = async (message: string, isApproved: boolean) => {
    const args = [hashMessage(message), isApproved];
    const hash = await anvil.writer.writeContract({ address: approving, abi, functionName: 'approve', args });
    await anvil.mined(hash);
  };
  const other = await start(service, approving, { chain_id: CHAIN });
  expect(codeOf(await verify(service, other.message, '0x'))).toEqual([401, 'siwe_signature']);

  const { message } = await start(service, approving, { chain_id: CHAIN });
  await approve(message, true);
  const first = await verify(service, message, '0x');
  expect(first.status).toBe(200);
  const second = await call(service, '/v1/tris/token/refresh', { refresh_token: first.json.refresh_token });
  expect(second.status).toBe(200);
  await approve(message, false);
  const third = await call(service, '/v1/tris/token/refresh', { refresh_token: second.json.refresh_token });
  expect(codeOf(third)).toEqual([401, 'refresh_revoked']);
});

test('a contract judges a signature of 64 bytes', async () => {
  const approving = await anvil.deploy(contracts['ApprovingWallet']!, [owner.address]);
  const compact = (signature: Hex) => serializeCompactSignature(signatureToCompactSignature(parseSignature(signature)));
  const signIn = async (signer: typeof owner) => {
    const { message, signature } = await signedBy(signer, approving);
    return verify(service, message, compact(signature));
  };
  expect((await signIn(owner)).status).toBe(200);
  expect(codeOf(await signIn(newAccount()))).toEqual([401, 'siwe_signature']);
});

test.each([
  ['without bytes', 401, 'siwe_no_contract', '0x'],
  ['of 64 bytes', 400, 'siwe_signature_compact', `0x${'01'.repeat(64)}`],
])('where there is no contract, a signature %s is refused', async (_, status, code, signature) => {
  const { message } = await start(service, newAccount().address, { chain_id: CHAIN });
  expect(codeOf(await verify(service, message, signature))).toEqual([status, code]);
});

test.each([
  ['reverts', true],
  ['says no', false],
])('a deployed wallet that %s is asked again after the call that prepares it (ERC-6492)', async (_, isReverting) => {
  const prepared = await anvil.deploy(contracts['PreparedWallet']!, [owner.address, isReverting]);
  const { abi } = contracts['PreparedWallet']!;
  const data = encodeFunctionData({ abi, functionName: 'prepare' });
  const wrapped = (signature: Hex) => serializeErc6492Signature({ address: prepared, data, signature });
  expect(codeOf(await signInAs(prepared))).toEqual([401, 'siwe_signature']);
  const { message, signature } = await signedBy(owner, prepared);
  expect((await verify(service, message, wrapped(signature))).status).toBe(200);
  const forged = await signedBy(newAccount(), prepared);
  expect(codeOf(await verify(service, forged.message, wrapped(forged.signature)))).toEqual([401, 'siwe_signature']);
  expect(await anvil.reader.readContract({ address: prepared, abi, functionName: 'isReady' })).toBe(false);
});

test.each(['0x', '0x0', null])('a node that answers %j for the code says that there is no contract', async (code) => {
  const answer = await signInAtSeven(
    async (method) => ({ result: method === 'eth_chainId' ? '0x7' : method === 'eth_getCode' ? code : '0x' }),
    (message) => newAccount().signMessage({ message }),
  );
  expect(codeOf(answer)).toEqual([401, 'siwe_no_contract']);
});

test('the call that a signature brings makes nobody the owner of a deployed wallet', async () => {
  const { message, signature } = await signedBy(owner, wallet);
  // Would make the thief the owner, if the wallet let anybody do it.
  const thief = newAccount();
  const { abi } = contracts['OwnedWallet']!;
  const data = encodeFunctionData({ abi, functionName: 'hand', args: [thief.address] });
  const wrapped = (inner: Hex) => serializeErc6492Signature({ address: wallet, data, signature: inner });
  expect((await verify(service, message, wrapped(signature))).status).toBe(200);
  const stolen = await signedBy(thief, wallet);
  expect(codeOf(await verify(service, stolen.message, wrapped(stolen.signature)))).toEqual([401, 'siwe_signature']);
  // A signature that cannot be decoded is one that no wallet made.
  const broken = await signedBy(owner, wallet);
  const magic = `0x${'6492'.repeat(16)}` as const;
  expect(codeOf(await verify(service, broken.message, concatHex(['0x01', magic])))).toEqual([401, 'siwe_signature']);
});

/** Somebody else deploys a wallet to the same address of the other chain. */
async function takeElsewhere(address: Hex, thief: typeof owner): Promise<void> {
  await other.controls.setCode({ address, bytecode: (await anvil.reader.getCode({ address }))! });
  const value = `0x${thief.address.slice(2).toLowerCase().padStart(64, '0')}` as const;
  await other.controls.setStorageAt({ address, index: 0, value });
}

test('the signature of a contract counts on its own chain only', async () => {
  const claimed = await signInAs(wallet, { purpose: 'claim' });
  expect(claimed.json.tris_id).toBe(`tris:eip155:${CHAIN}:${wallet.toLowerCase()}`);
  expect((await signInAs(wallet, { purpose: 'claim' })).json.tris_id).toBe(claimed.json.tris_id);
  expect((await signInAs(wallet)).json.tris_id).toBe(claimed.json.tris_id);
  const thief = newAccount();
  await takeElsewhere(wallet, thief);
  const there = await signInAs(wallet, { chain_id: OTHER }, thief);
  expect([there.status, there.json.tris_id]).toEqual([200, null]);
  const again = await signInAs(wallet, { chain_id: OTHER, purpose: 'claim' }, thief);
  expect(codeOf(again)).toEqual([409, 'wallet_already_linked']);
  const unlinked = await call(service, '/v1/wallets/unlink', { wallet }, bearer(there.json));
  expect(codeOf(unlinked)).toEqual([404, 'wallet_not_linked']);
});

test('a session of its address on another chain reads and disputes nothing of the TRIS of a contract', async () => {
  const contract = await anvil.deploy(contracts['OwnedWallet']!, [owner.address]);
  const own = (await signInAs(contract, { purpose: 'claim' })).json;
  const flag = { action_type: 'default_flags', category: 'financial', criticality: 'critical', platform_id: 'lender' };
  const { action_id } = (await service.post('/api/decision-relay', { tris_id: own.tris_id, ...flag })).json;
  const thief = newAccount();
  await takeElsewhere(contract, thief);
  const theirs = (await signInAs(contract, { chain_id: OTHER }, thief)).json;
  const read = async (path: string, tokens: { access_token: string }) =>
    service.get(path, { ...bearer(tokens), ...(await seen(service)) });
  expect((await read('/v1/me', own)).json).toMatchObject({ tris_ids: [own.tris_id], session: { chain_id: CHAIN } });
  expect((await read('/v1/me', theirs)).json).toMatchObject({
    tris_ids: [],
    wallets: [],
    session: { chain_id: OTHER },
  });
  for (const path of ['/v1/me/export', `/v1/actions/${action_id}`]) {
    expect((await read(path, own)).status).toBe(200);
    expect(codeOf(await read(path, theirs))).toEqual([403, 'forbidden']);
  }
  expect(codeOf(await call(service, '/v1/disputes', { action_id }, bearer(theirs)))).toEqual([403, 'forbidden']);
  const { dispute_id } = (await call(service, '/v1/disputes', { action_id }, bearer(own))).json;
  const listed = async (tokens: { access_token: string }) => (await read('/v1/disputes', tokens)).json.disputes;
  expect([await listed(own), await listed(theirs)]).toMatchObject([[{ dispute_id }], []]);
});

test('a message that names the id to claim is for that kind of wallet only', async () => {
  const claim = (address: string, tris_id: string, signer = owner) =>
    signInAs(address, { purpose: 'claim', tris_id }, signer);
  const contract = await anvil.deploy(contracts['OwnedWallet']!, [owner.address]);
  const small = contract.toLowerCase();
  expect(codeOf(await claim(contract, `tris:${small}`))).toEqual([401, 'siwe_claim']);
  const answer = await claim(contract, `tris:eip155:${CHAIN}:${small}`);
  expect([answer.status, answer.json.tris_id]).toEqual([200, `tris:eip155:${CHAIN}:${small}`]);
  const alice = newAccount();
  const hers = alice.address.toLowerCase();
  expect(codeOf(await claim(alice.address, `tris:eip155:${CHAIN}:${hers}`, alice))).toEqual([401, 'siwe_claim']);
  expect((await claim(alice.address, `tris:${hers}`, alice)).json.tris_id).toBe(`tris:${hers}`);
  const started = { address: contract, chain_id: CHAIN, purpose: 'claim', tris_id: `tris:eip155:${OTHER}:${small}` };
  expect(codeOf(await call(service, '/v1/tris/auth/siwe/start', started))).toEqual([400, 'validation_failed']);
});

test('the message of a claim names both ids, and the signature decides', async () => {
  const { message } = await start(service, wallet, { chain_id: CHAIN, purpose: 'claim' });
  const small = wallet.toLowerCase();
  expect(message).toContain(`the identity tris:${small}, or tris:eip155:${CHAIN}:${small} if it is a contract.`);
});

test('a contract that claimed an id without its chain before keeps it', async () => {
  const contract = await anvil.deploy(contracts['OwnedWallet']!, [owner.address]);
  const tris = `tris:${contract.toLowerCase()}`;
  const link = { tris_id: tris, proof: 'signed', chain_id: CHAIN, asserted_by: null } as const;
  await service.app.get(WalletLinks, { strict: false }).link(contract, link, {
    actor: internalActor('cli'),
    body_hash: 'old',
    correlation_id: 'old',
    idempotency: null,
  });
  const answer = await signInAs(contract, { purpose: 'claim' });
  expect([answer.status, answer.json.tris_id]).toEqual([200, tris]);
});

describe('a session of a contract wallet', () => {
  const refresh = (refresh_token: string, at = service) => call(at, '/v1/tris/token/refresh', { refresh_token });

  test('is refreshed while the wallet accepts the sign-in, and ends when it no longer does', async () => {
    const [former, next] = [FUNDED, newAccount()];
    const handed = await anvil.deploy(contracts['OwnedWallet']!, [former.address]);
    const first = await signInAs(handed, {}, former as typeof owner);
    const second = await refresh(first.json.refresh_token);
    expect(second.status).toBe(200);
    const { abi } = contracts['OwnedWallet']!;
    const hash = await anvil.writer.writeContract({ address: handed, abi, functionName: 'hand', args: [next.address] });
    await anvil.mined(hash);
    for (const { refresh_token } of [first.json, second.json, second.json]) {
      expect(codeOf(await refresh(refresh_token))).toEqual([401, 'refresh_revoked']);
    }
    const linked = await call(service, '/api/link-account', { wallet: handed, tris_id: 'tris:x' }, bearer(second.json));
    expect(codeOf(linked)).toEqual([401, 'session_revoked']);
  });

  test('is refreshed later if its chain gives no answer of the wallet now', async () => {
    let instead: { method: string; status: number; answer: object } | undefined;
    const proxy: RequestListener = async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      response.setHeader('content-type', 'application/json');
      if (instead && body.includes(instead.method)) {
        response.writeHead(instead.status).end(JSON.stringify({ jsonrpc: '2.0', id: 1, ...instead.answer }));
        return;
      }
      const answer = await fetch(anvil.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      response.end(await answer.text());
    };
    await serving(proxy, async (url) => {
      const asking = await startService({ [`CREDENCE_RPC_${CHAIN}`]: url });
      try {
        const { message } = await start(asking, wallet, { chain_id: CHAIN });
        const { refresh_token } = (await verify(asking, message, await owner.signMessage({ message }))).json;
        for (instead of [
          { method: 'eth', status: 502, answer: {} },
          { method: 'eth', status: 401, answer: { error: { code: -32000, message: 'Invalid API key' } } },
          // Of nodes that lag behind.
          { method: 'eth_getCode', status: 200, answer: { result: '0x' } },
          { method: 'eth_call', status: 200, answer: { result: '0x' } },
          { method: 'eth_call', status: 200, answer: { result: null } },
        ]) {
          expect(codeOf(await refresh(refresh_token, asking))).toEqual([503, 'chain_unavailable']);
        }
        instead = undefined;
        expect((await refresh(refresh_token, asking)).status).toBe(200);
      } finally {
        await asking.close();
      }
    });
  });
});

test('a wallet with a key needs no chain endpoint', async () => {
  const alice = newAccount();
  expect((await signInAs(alice.address, { chain_id: 999 }, alice)).status).toBe(200);
  expect((await signInAs(alice.address, { chain_id: 6 }, alice)).status).toBe(200);
});

test.each([
  ['that nobody serves', 6],
  ['whose endpoint is of another chain', 5],
])('a chain %s is unavailable, and the message can be sent again', async (_what, chain_id) => {
  const { message, signature } = await signedBy(owner, wallet, { chain_id });
  for (let i = 0; i < 2; i++) {
    const answer = await verify(service, message, signature);
    expect(codeOf(answer)).toEqual([503, 'chain_unavailable']);
    expect(answer.headers['retry-after']).toBe('5');
    expect(answer.text).not.toMatch(/127\.0\.0\.1:9|http:/);
  }
});

/** A server on loopback for as long as it is used. */
async function serving<T>(listener: RequestListener, use: (url: string) => Promise<T>): Promise<T> {
  const server = createServer(listener);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  try {
    return await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Signs in with a signature at chain 7, whose endpoint answers as told: a result, or the data of a revert. */
function signInAtSeven(
  answer: (method: string) => Promise<{ result: string | null } | { reverts: Hex }>,
  signatureOf: (message: string) => Promise<Hex>,
) {
  const endpoint: RequestListener = async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id: number; method: string };
    const said = await answer(method);
    const outcome = 'result' in said ? said : { error: { code: 3, message: 'execution reverted', data: said.reverts } };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
  };
  return serving(endpoint, async (url) => {
    const asking = await startService({ CREDENCE_RPC_7: url });
    try {
      const { message } = await start(asking, wallet, { chain_id: 7 });
      return await verify(asking, message, await signatureOf(message));
    } finally {
      await asking.close();
    }
  });
}

test('a chain that does not answer in time is unavailable', async () => {
  const answer = await signInAtSeven(
    () => new Promise(() => undefined),
    (message) => owner.signMessage({ message }),
  );
  expect(codeOf(answer)).toEqual([503, 'chain_unavailable']);
});

test('a chain that answers each request in time, but not the whole check, is unavailable', async () => {
  const answer = await signInAtSeven(
    async (method) => {
      await sleep(3_000);
      return { result: method === 'eth_chainId' ? '0x7' : '0x01' };
    },
    (message) => owner.signMessage({ message }),
  );
  expect(codeOf(answer)).toEqual([503, 'chain_unavailable']);
});

test('a URL that a contract names is not fetched (ERC-3668)', async () => {
  const fetched: (string | undefined)[] = [];
  const gateway: RequestListener = (request, response) => {
    fetched.push(request.url);
    response.end('{"data":"0x"}');
  };
  await serving(gateway, async (url) => {
    const lookup = encodeErrorResult({
      abi: parseAbi([
        'error OffchainLookup(address sender, string[] urls, bytes callData, bytes4 callback, bytes extraData)',
      ]),
      args: [wallet, [`${url}/{sender}/{data}`, `${url}/posted`], '0x', '0x00000000', '0x'],
    });
    const asked: string[] = [];
    const answer = await signInAtSeven(
      async (method) => {
        asked.push(method);
        if (method === 'eth_call') return { reverts: lookup };
        return { result: method === 'eth_chainId' ? '0x7' : concatHex(['0xef0100', wallet]) };
      },
      (message) => owner.signMessage({ message }),
    );
    expect(codeOf(answer)).toEqual([401, 'siwe_signature']);
    expect(asked).toEqual(['eth_chainId', 'eth_getCode', 'eth_call']);
  });
  expect(fetched).toEqual([]);
});

test.each([
  ['malformed', '0x01'],
  ['with nothing before its mark', '0x'],
] as const)(
  'a signature with a delegation of its own (ERC-8010), %s, is refused before its chain is asked',
  async (_, start) => {
    const { message } = await signedBy(owner, wallet);
    const answer = await verify(service, message, concatHex([start, `0x${'8010'.repeat(16)}`]));
    expect(codeOf(answer)).toEqual([401, 'siwe_signature']);
    expect(answer.json.detail).toMatch(/ERC-8010/);
  },
);

test('a contract’s signature on a chain that is not configured is refused as that', async () => {
  const { message, signature } = await signedBy(owner, wallet, { chain_id: 8 });
  const wrapped = serializeErc6492Signature({ address: factory, data: '0x', signature });
  const answer = await verify(service, message, wrapped);
  expect(codeOf(answer)).toEqual([400, 'chain_not_configured']);
  expect(answer.json.detail).toMatch(/chain 8 is not configured/);
});

test('the wallet under test verifies signatures as Ethereum does', async () => {
  const hash = hashMessage('x');
  const { abi } = contracts['OwnedWallet']!;
  const args = [hash, await owner.signMessage({ message: 'x' })] as const;
  const magic = await anvil.reader.readContract({ address: wallet, abi, functionName: 'isValidSignature', args });
  expect(magic).toBe('0x1626ba7e');
});
