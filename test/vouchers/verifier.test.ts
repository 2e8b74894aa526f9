import { randomBytes, randomUUID } from 'node:crypto';
import { TypedDataEncoder } from 'ethers/hash';
import fc from 'fast-check';
import {
  BaseError,
  ContractFunctionRevertedError,
  type Hex,
  concat,
  createWalletClient,
  getAddress,
  hashTypedData,
  http,
  parseEther,
  recoverAddress,
  zeroAddress,
} from 'viem';
import { Vouchers } from '../../src/features/access/vouchers.js';
import { read, section, tableRows } from '../docs/markdown.js';
import { type Service, relay, startService } from '../policies/service.fixture.js';
import { Anvil, type Compiled, FUNDED } from '../servers/anvil.js';
import { compile } from '../../contracts/tools.mjs';
import { type Account, claim, newAccount } from '../sessions/wallet.js';

/** contracts/EligibilityVerifier.sol on a real node, with vouchers of the running service and forged ones. */

const CHAIN = 31_337;
const POLICY = 'AP_GATE_V1';
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
const FOREVER = 2n ** 64n - 1n;

interface Voucher {
  domain: { name: string; version: string; chainId: number; verifyingContract: Hex };
  message: {
    jti: Hex;
    wallet: Hex;
    subject: Hex;
    policy: Hex;
    policyHash: Hex;
    audience: Hex;
    expiresAt: number;
  };
  signature: Hex;
}

let anvil: Anvil;
let service: Service;
let verifier: Compiled;
let contract: Hex;
let issuer: Hex;
let types: Record<string, { name: string; type: string }[]>;
let holder: Account;
let tris: string;

beforeAll(async () => {
  anvil = await Anvil.start(CHAIN);
  verifier = compile('contracts/EligibilityVerifier.sol')['EligibilityVerifier']!;
  service = await startService({ [`CREDENCE_RPC_${CHAIN}`]: anvil.url });
  const published = (await service.get('/v1/eligibility/issuers')).json;
  issuer = published.issuers[0].address;
  types = published.types;
  contract = await anvil.deploy(verifier, [FUNDED.address, issuer]);
  await service.post('/v1/policies/ap', { policy_id: POLICY, rules: { tct_min: 1 }, ttl_seconds: 3_600 });
  [holder, tris] = await subject();
});
afterAll(() => service.close());

let snapshot: Hex;
beforeEach(async () => void (snapshot = await anvil.controls.snapshot()));
afterEach(() => anvil.controls.revert({ id: snapshot }));

/** A wallet with money whose own TRIS passes the policy. */
async function subject(): Promise<[Account, string]> {
  const wallet = newAccount();
  await anvil.controls.setBalance({ address: wallet.address, value: parseEther('1') });
  const { tris_id } = await claim(service, wallet);
  const position = await relay(service, [
    { tris_id, category: 'financial', action_type: 'repayment', criticality: 'high' },
  ]);
  await service.get(`/v1/disc/score/${tris_id}`, { 'credence-min-position': position });
  return [wallet, tris_id];
}

async function granted(more: object = {}): Promise<Voucher> {
  const answer = await service.post('/v1/policies/ap/check', {
    policy_id: POLICY,
    subject_tris: tris,
    wallet: holder.address,
    chain_id: CHAIN,
    verifying_contract: contract,
    ...more,
  });
  if (!answer.json.voucher) throw new Error(answer.text);
  return answer.json.voucher;
}

const argsOf = ({ message, signature }: Voucher) =>
  [{ ...message, expiresAt: BigInt(message.expiresAt) }, signature] as const;
const typed = ({ domain, message }: Omit<Voucher, 'signature'>) =>
  ({ domain, types, primaryType: 'Voucher', message: { ...message, expiresAt: BigInt(message.expiresAt) } }) as const;
const ask = (functionName: string, args: readonly unknown[] = [], address = contract) =>
  anvil.reader.readContract({ address, abi: verifier.abi, functionName, args });

/** Sends a transaction, and answers its receipt once it is mined. */
async function act(
  account: Account | typeof FUNDED,
  functionName: string,
  args: readonly unknown[],
  { address = contract, abi = verifier.abi } = {},
) {
  // Tried first, so that a refusal comes with its reason.
  await anvil.reader.simulateContract({ account, address, abi, functionName, args });
  const writer = createWalletClient({ account, chain: anvil.chain, transport: http(anvil.url) });
  const hash = await writer.writeContract({ address, abi, functionName, args });
  const receipt = await anvil.mined(hash);
  expect(receipt.status).toBe('success');
  return receipt;
}

/** The custom error that a call ends with, and its arguments. */
async function refusal(call: Promise<unknown>): Promise<unknown[]> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof BaseError)) throw error ?? new Error('it was not refused');
  const reverted = error.walk((cause) => cause instanceof ContractFunctionRevertedError);
  if (!(reverted instanceof ContractFunctionRevertedError) || !reverted.data) throw error;
  return [reverted.data.errorName, ...(reverted.data.args ?? [])];
}

/** Both ways of asking refuse alike; `check` knows no sender. */
async function refused(voucher: Voucher): Promise<unknown[]> {
  const [checked, redeemed] = [
    await refusal(ask('check', argsOf(voucher))),
    await refusal(act(holder, 'redeem', argsOf(voucher))),
  ];
  expect(redeemed).toEqual(checked);
  return checked;
}

async function forgetTime(seconds: number): Promise<void> {
  await anvil.controls.increaseTime({ seconds });
  await anvil.mine(1);
}

describe('a voucher of the service', () => {
  test('is valid, and is redeemed once by its wallet', async () => {
    const voucher = await granted({ audience: 'https://app.example' });
    const { message } = voucher;
    expect(await ask('check', argsOf(voucher))).toBe(issuer);
    expect(await ask('useOf', [message.jti])).toBe(0);
    const { logs } = await act(holder, 'redeem', argsOf(voucher));
    expect(logs).toHaveLength(1);
    const [event] = await anvil.reader.getContractEvents({
      address: contract,
      abi: verifier.abi,
      eventName: 'Redeemed',
    });
    const { expiresAt: _expiry, ...bound } = message;
    expect(event!.args).toEqual({ ...bound, issuer });
    expect(await ask('useOf', [message.jti])).toBe(1);
    expect(await refused(voucher)).toEqual(['VoucherRedeemed', message.jti]);
    // Another decision about the same wallet is another voucher.
    await act(holder, 'redeem', argsOf(await granted()));
  });

  test('can be redeemed only by its wallet', async () => {
    const voucher = await granted();
    expect(await refusal(act(FUNDED, 'redeem', argsOf(voucher)))).toEqual([
      'NotTheWallet',
      holder.address,
      FUNDED.address,
    ]);
    expect(await ask('useOf', [voucher.message.jti])).toBe(0);
  });

  test('ends with its last second', async () => {
    const voucher = await granted();
    const { expiresAt } = voucher.message;
    await anvil.controls.setNextBlockTimestamp({ timestamp: BigInt(expiresAt - 1) });
    await anvil.mine(1);
    expect(await ask('check', argsOf(voucher))).toBe(issuer);
    await anvil.controls.setNextBlockTimestamp({ timestamp: BigInt(expiresAt) });
    await anvil.mine(1);
    expect(await refusal(ask('check', argsOf(voucher)))).toEqual(['VoucherExpired', BigInt(expiresAt)]);
    expect(await refused(voucher)).toEqual(['VoucherExpired', BigInt(expiresAt)]);
  });

  test('is invalid in another contract, or on another chain', async () => {
    const voucher = await granted();
    const other = await anvil.deploy(verifier, [FUNDED.address, issuer]);
    expect(await refusal(ask('check', argsOf(voucher), other))).toEqual(['IssuerNotTrusted', expect.any(String)]);
    const elsewhere = await Anvil.start(CHAIN + 1);
    // The same account deploys first there too: the same address.
    const twin = await elsewhere.deploy(verifier, [FUNDED.address, issuer]);
    expect(twin).toBe(contract);
    const asked = elsewhere.reader.readContract({
      address: twin,
      abi: verifier.abi,
      functionName: 'check',
      args: argsOf(voucher),
    });
    expect(await refusal(asked)).toEqual(['IssuerNotTrusted', expect.any(String)]);
    await elsewhere.stop();
  });

  test('is invalid after a change of any bit of any field', async () => {
    const voucher = await granted();
    const { message, domain } = voucher;
    const flipped = (hex: Hex) => `${hex.slice(0, -1)}${hex.endsWith('0') ? '1' : '0'}` as Hex;
    const changes: Partial<Voucher['message']>[] = [
      { jti: flipped(message.jti) },
      { wallet: FUNDED.address },
      { subject: flipped(message.subject) },
      { policy: flipped(message.policy) },
      { policyHash: flipped(message.policyHash) },
      { audience: flipped(message.audience) },
      { expiresAt: message.expiresAt + 1 },
    ];
    expect(changes.map((change) => Object.keys(change)[0])).toEqual(Object.keys(message));
    for (const change of changes) {
      const forged = { ...voucher, message: { ...message, ...change } };
      expect(await refusal(ask('check', argsOf(forged)))).toEqual(['IssuerNotTrusted', expect.any(String)]);
    }
    expect(domain.verifyingContract).toBe(getAddress(contract));
  });

  test('has one signature: malleated, compact, short, long and empty ones are refused', async () => {
    const voucher = await granted();
    const { signature } = voucher;
    const [r, s, v] = [signature.slice(2, 66), BigInt(`0x${signature.slice(66, 130)}`), signature.slice(130)];
    const high = (ORDER - s).toString(16).padStart(64, '0');
    const other = v === '1b' ? '1c' : '1b';
    const compact = (s | (v === '1c' ? 1n << 255n : 0n)).toString(16).padStart(64, '0');
    // What is malleated is a valid signature of the same key: only the rule refuses it.
    const hash = hashTypedData(typed(voucher));
    expect(await recoverAddress({ hash, signature: `0x${r}${high}${other}` })).toBe(issuer);
    const malformed: Hex[] = [
      `0x${r}${high}${other}`,
      `0x${r}${compact}`,
      `0x${signature.slice(2, 130)}00`,
      `0x${signature.slice(2, 130)}01`,
      `0x${signature.slice(2, 130)}1d`,
      signature.slice(0, -2) as Hex,
      `${signature}00`,
      '0x',
      `0x${'00'.repeat(65)}`,
      `0x${'ff'.repeat(65)}`,
    ];
    for (const one of malformed) {
      expect(await refused({ ...voucher, signature: one })).toEqual(['SignatureMalformed']);
    }
    expect((await refused({ ...voucher, signature: `0x${signature.slice(2, 130)}${other}` }))[0]).toMatch(
      /IssuerNotTrusted|SignatureMalformed/,
    );
    expect(await ask('check', argsOf(voucher))).toBe(issuer);
  });
});

describe('issuers', () => {
  const signedBy = async (account: Account, voucher: Voucher): Promise<Voucher> => {
    return { ...voucher, signature: await account.signTypedData(typed(voucher)) };
  };

  test('no other signer is accepted', async () => {
    const stranger = newAccount();
    const forged = await signedBy(stranger, await granted());
    expect(await refused(forged)).toEqual(['IssuerNotTrusted', stranger.address]);
    expect(await refusal(act(stranger, 'setIssuer', [stranger.address, FOREVER]))).toEqual([
      'NotAllowed',
      stranger.address,
    ]);
  });

  test('rotate: the next one counts at once, the old one until its time', async () => {
    const next = newAccount();
    const voucher = await granted();
    const young = await signedBy(next, await granted());
    const { timestamp } = await anvil.reader.getBlock();
    await act(FUNDED, 'setIssuer', [next.address, FOREVER]);
    await act(FUNDED, 'setIssuer', [issuer, timestamp + 600n]);
    expect(await ask('issuerUntil', [issuer])).toBe(timestamp + 600n);
    expect(await ask('check', argsOf(voucher))).toBe(issuer);
    expect(await ask('check', argsOf(young))).toBe(next.address);
    await forgetTime(600);
    expect(voucher.message.expiresAt).toBeGreaterThan(Number(timestamp) + 700);
    expect(await refused(voucher)).toEqual(['IssuerNotTrusted', issuer]);
    expect(await ask('check', argsOf(young))).toBe(next.address);
    await act(FUNDED, 'setIssuer', [next.address, 0n]);
    expect(await refused(young)).toEqual(['IssuerNotTrusted', next.address]);
  });

  test('may be contracts (EIP-1271), named in front of the signature that they judge', async () => {
    const { OwnedWallet } = compile('test/servers/wallets.sol');
    const [first, second] = [await anvil.deploy(OwnedWallet!, [issuer]), await anvil.deploy(OwnedWallet!, [issuer])];
    const voucher = await granted();
    const through = (address: Hex, signature = voucher.signature) => ({
      ...voucher,
      signature: concat([address, signature]),
    });
    expect(await refused(through(first))).toEqual(['IssuerNotTrusted', getAddress(first)]);
    await act(FUNDED, 'setIssuer', [first, FOREVER]);
    await act(FUNDED, 'setIssuer', [issuer, 0n]);
    expect(await refused(voucher)).toEqual(['IssuerNotTrusted', issuer]);
    expect(await ask('check', argsOf(through(first)))).toBe(getAddress(first));
    expect(await refused(through(second))).toEqual(['IssuerNotTrusted', getAddress(second)]);
    const stranger = await newAccount().signTypedData(typed(voucher));
    expect(await refused(through(first, stranger))).toEqual(['SignatureRefused', getAddress(first)]);
    await act(holder, 'redeem', argsOf(through(first)));
    expect(await refused(through(first))).toEqual(['VoucherRedeemed', voucher.message.jti]);
  });

  test('that are neither keys nor such contracts accept nothing', async () => {
    const { GasBurner } = compile('test/servers/wallets.sol');
    const voucher = await granted();
    // Without code a call succeeds and answers nothing; the verifier answers something else, by reverting.
    for (const address of [FUNDED.address, contract, await anvil.deploy(GasBurner!)]) {
      await act(FUNDED, 'setIssuer', [address, FOREVER]);
      expect(
        await refusal(ask('check', argsOf({ ...voucher, signature: concat([address, voucher.signature]) }))),
      ).toEqual(['SignatureRefused', getAddress(address)]);
    }
  });
});

describe('on-chain invalidation', () => {
  test('ends a voucher at once, by the owner or an issuer, seen before or not', async () => {
    const officer = newAccount();
    await anvil.controls.setBalance({ address: officer.address, value: parseEther('1') });
    const [one, other] = [await granted(), await granted()];
    expect(await refusal(act(officer, 'invalidate', [one.message.jti]))).toEqual(['NotAllowed', officer.address]);
    await act(FUNDED, 'invalidate', [one.message.jti]);
    expect(await refused(one)).toEqual(['VoucherInvalidated', one.message.jti]);
    await act(FUNDED, 'setIssuer', [officer.address, FOREVER]);
    await act(officer, 'invalidate', [other.message.jti]);
    expect(await refused(other)).toEqual(['VoucherInvalidated', other.message.jti]);
    await act(FUNDED, 'setIssuer', [officer.address, 0n]);
    expect(await refusal(act(officer, 'invalidate', [(await granted()).message.jti]))).toEqual([
      'NotAllowed',
      officer.address,
    ]);
    const events = await anvil.reader.getContractEvents({
      address: contract,
      abi: verifier.abi,
      eventName: 'Invalidated',
      fromBlock: 0n,
    });
    expect(events.map(({ args }) => args)).toEqual([
      { jti: one.message.jti, by: FUNDED.address },
      { jti: other.message.jti, by: officer.address },
    ]);
  });

  test('has no effect on a redeemed voucher, and cannot be repeated', async () => {
    const voucher = await granted();
    const { jti } = voucher.message;
    await act(holder, 'redeem', argsOf(voucher));
    expect(await refusal(act(FUNDED, 'invalidate', [jti]))).toEqual(['VoucherRedeemed', jti]);
    const unseen: Hex = `0x${randomBytes(16).toString('hex')}`;
    await act(FUNDED, 'invalidate', [unseen]);
    expect(await refusal(act(FUNDED, 'invalidate', [unseen]))).toEqual(['VoucherInvalidated', unseen]);
  });
});

test('the ownership is offered, then accepted', async () => {
  const heir = newAccount();
  await anvil.controls.setBalance({ address: heir.address, value: parseEther('1') });
  expect(await refusal(act(heir, 'offerOwnership', [heir.address]))).toEqual(['NotAllowed', heir.address]);
  expect(await refusal(act(heir, 'acceptOwnership', []))).toEqual(['NotAllowed', heir.address]);
  await act(FUNDED, 'offerOwnership', [heir.address]);
  expect(await ask('owner')).toBe(FUNDED.address);
  await act(heir, 'acceptOwnership', []);
  expect([await ask('owner'), await ask('pendingOwner')]).toEqual([heir.address, zeroAddress]);
  expect(await refusal(act(FUNDED, 'setIssuer', [issuer, 0n]))).toEqual(['NotAllowed', FUNDED.address]);
  expect(await refusal(act(heir, 'setIssuer', [zeroAddress, FOREVER]))).toEqual(['ZeroAddress']);
});

test('a contract that gates an action inherits it: the policy is compared, the voucher used up, in one transaction', async () => {
  const { Gate } = compile('test/vouchers/gate.sol');
  const { content_hash } = (await service.get(`/v1/policies/ap/${POLICY}`, { 'x-api-key': service.key })).json;
  const gate = await anvil.deploy(Gate!, [FUNDED.address, issuer, `0x${content_hash}`]);
  const at = { address: gate, abi: Gate!.abi };
  const voucher = await granted({ verifying_contract: gate });
  expect(await refusal(act(FUNDED, 'enter', argsOf(voucher), at))).toEqual([
    'NotTheWallet',
    holder.address,
    FUNDED.address,
  ]);
  await act(holder, 'enter', argsOf(voucher), at);
  expect(await anvil.reader.readContract({ ...at, functionName: 'entered', args: [holder.address] })).toBe(1n);
  expect(await refusal(act(holder, 'enter', argsOf(voucher), at))).toEqual(['VoucherRedeemed', voucher.message.jti]);
  await service.post('/v1/policies/ap', { policy_id: 'AP_LAX_V1', rules: { tct_min: 0 } });
  const lax = await granted({ verifying_contract: gate, policy_id: 'AP_LAX_V1' });
  expect(await refusal(act(holder, 'enter', argsOf(lax), at))).toEqual(['OtherPolicy', lax.message.policyHash]);
});

test('the digest of the service is that of the contract, of ethers and of viem, for any decision', async () => {
  const vouchers = service.app.get(Vouchers, { strict: false });
  const hex = (bytes: number) =>
    fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((value) => Buffer.from(value).toString('hex'));
  const decision = fc.record({
    jti: fc.uuid(),
    wallet: hex(20).map((value) => `0x${value}`),
    subject_tris: fc.string({ unit: 'binary' }),
    policy_id: fc.string(),
    policy_hash: hex(32),
    audience: fc.option(fc.string()),
    exp: fc.oneof(fc.nat(), fc.constantFrom(0, Number.MAX_SAFE_INTEGER)),
  });
  await fc.assert(
    fc.asyncProperty(decision, async (one) => {
      const target = { chain_id: CHAIN, verifying_contract: contract, voucher_issuer: issuer };
      const voucher = vouchers.sign({ ...one, ...target } as never) as unknown as Voucher;
      const data = typed(voucher);
      const digest = (await ask('digest', [data.message])) as Hex;
      expect(TypedDataEncoder.hash(data.domain, types, data.message)).toBe(digest);
      expect(hashTypedData(data)).toBe(digest);
      expect(await recoverAddress({ hash: digest, signature: voucher.signature })).toBe(issuer);
    }),
    { numRuns: 100 },
  );
  expect(await ask('domainSeparator')).toBe(TypedDataEncoder.hashDomain(typed(await granted()).domain));
});

test('the gas is at most what docs/vouchers.md says, and not much less', async () => {
  const { OwnedWallet } = compile('test/servers/wallets.sol');
  const hash = await anvil.writer.deployContract({ ...verifier, args: [FUNDED.address, issuer] });
  const deployed = await anvil.mined(hash);
  const wallet = await anvil.deploy(OwnedWallet!, [issuer]);
  const registered = await act(FUNDED, 'setIssuer', [wallet, FOREVER]);
  const redeemed = await act(holder, 'redeem', argsOf(await granted()));
  const voucher = await granted();
  const through = await act(holder, 'redeem', argsOf({ ...voucher, signature: concat([wallet, voucher.signature]) }));
  const invalidated = await act(FUNDED, 'invalidate', [`0x${randomUUID().replaceAll('-', '')}`]);
  const measured = [deployed, redeemed, through, invalidated, registered].map(({ gasUsed }) => Number(gasUsed));
  process.stderr.write(`gas: ${measured.join(', ')}\n`);
  const documented = tableRows(section(read('docs/vouchers.md'), 'Gas')).map(([, gas]) =>
    Number(gas!.replace(/\D/g, '')),
  );
  expect(documented).toHaveLength(measured.length);
  for (const [i, gas] of measured.entries()) {
    expect(gas).toBeLessThanOrEqual(documented[i]!);
    expect(gas).toBeGreaterThan(documented[i]! * 0.95);
  }
});
