// `npm run demo:wallet [repayments]`: an action is gated on what a person can prove. A wallet signs in and claims a TRIS, is denied,
// does what the denial asks for, and is let through. Starts its own chain (anvil) and service; ends with 1 if anything
// answers otherwise than it should.
import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { bn254 } from '@noble/curves/bn254';
import {
  ContractFunctionRevertedError,
  createTestClient,
  defineChain,
  generatePrivateKey,
  http,
  privateKeyToAccount,
  publicActions,
  walletActions,
} from '../contracts/client.mjs';
import { ANVIL, compile } from '../contracts/tools.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const CHAIN_ID = 31337;
/** Blocks until one is final there. */
const FINALITY = 64;
/** Of a loan each; fewer than 5 are too few for the policy. */
const REPAYMENTS = Number(process.argv[2] ?? 5);
const DAY_S = 24 * 3600;
const YEAR_S = 365 * DAY_S;
/** The chain begins early enough for a repayment a day: what is done on one day earns no more than 140 TCT together. */
const PAST_S = (REPAYMENTS + 1) * DAY_S;

const print = (text = '') => process.stdout.write(`${text}\n`);
const step = (text) => print(`\n## ${text}\n`);
/** What did not go as it should, in a sentence. */
class Unexpected extends Error {}
function expect(actual, expected, what) {
  if (!isDeepStrictEqual(actual, expected))
    throw new Unexpected(`${what} is ${show(actual)} instead of ${show(expected)}`);
}
/** JSON without what nobody reads: long numbers, signatures, tokens, proofs. */
const show = (value) =>
  JSON.stringify(value, (name, part) => {
    if (['proof', 'public_signals', 'verification_key'].includes(name)) return '…';
    return typeof part === 'string' && /^\S{49,}$|\n/.test(part) ? `${part.slice(0, 20)}…` : part;
  });

const folder = mkdtempSync(join(tmpdir(), 'credence-wallet-'));
const children = [];
/** Starts a program that says where it listens. */
async function start(name, file, args, env, listening) {
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  let output = '';
  return new Promise((found, failed) => {
    child.stdout.on('data', (chunk) => {
      output += chunk;
      const match = listening.exec(output);
      if (match) found(match[1]);
    });
    child.once('error', failed);
    child.once('exit', (code) => failed(new Unexpected(`${name} ended with ${code}: ${output}`)));
  });
}

let service = '';
let key = '';
/** Position of the last write: reads wait until it is applied. */
let position;
/**
 * Sends a request and prints it with the parts of the answer that matter here.
 * @param who undefined: public; 'key': the operator's API key; else a session
 * @param shown names of members of the answer; none: all of it
 */
async function call(who, method, path, body, status, shown) {
  const headers = {
    ...(who && (who === 'key' ? { 'x-api-key': key } : { authorization: `Bearer ${who.access_token}` })),
    ...(body && { 'content-type': 'application/json' }),
    ...(position && { 'credence-min-position': position }),
  };
  const answer = await fetch(service + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  const json = await answer.json();
  const request = `${method} ${path}`;
  print(`${request}  (${who ? (who === 'key' ? 'API key' : 'session') : 'public'})${body ? `\n  ${show(body)}` : ''}`);
  if (answer.status !== status) {
    throw new Unexpected(
      `${request} answered ${answer.status} ${json.code ?? ''} instead of ${status}: ${json.detail}`,
    );
  }
  print(`→ ${status} ${show(shown ? Object.fromEntries(shown.map((name) => [name, json[name]])) : json)}`);
  position = answer.headers.get('credence-position') ?? position;
  return json;
}

/** Has a wallet agree to something: the service words it, the wallet signs it. */
async function consent(account, wish) {
  const { message } = await call(
    undefined,
    'POST',
    '/v1/tris/auth/siwe/start',
    { address: account.address, chain_id: CHAIN_ID, ...wish },
    200,
    ['nonce', 'expires_at'],
  );
  print(`  what the wallet shows, and signs:\n${message.replace(/^/gm, '    | ')}`);
  return { message, signature: await account.signMessage({ message }) };
}

/** A holder's proof by the repository's circuit; its prover is a separate program. */
async function prove(job) {
  const file = join(folder, 'jobs.json');
  writeFileSync(file, JSON.stringify([job]));
  return new Promise((found, failed) => {
    const prover = execFile(process.execPath, [join(ROOT, 'circuits/prove.mjs')], (error, stdout) =>
      error ? failed(error) : found(JSON.parse(stdout)[0]),
    );
    prover.stdin.end(readFileSync(file));
  });
}

/** Text as a public input: its SHA-256 as a number, modulo the group's order. */
const fieldOf = (text) =>
  String(BigInt(`0x${createHash('sha256').update(text).digest('hex')}`) % bn254.fields.Fr.ORDER);

async function main() {
  step('A chain, and a wallet with a past on it');
  const rpc = `http://${await start(
    'anvil',
    ANVIL,
    ['--port', '0', '--chain-id', String(CHAIN_ID), '--timestamp', String(Math.floor(Date.now() / 1000) - PAST_S)],
    process.env,
    /Listening on ([\d.]+:\d+)/,
  )}`;
  const chain = defineChain({
    id: CHAIN_ID,
    name: 'anvil',
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: [rpc] } },
  });
  const node = createTestClient({ mode: 'anvil', chain, transport: http(), pollingInterval: 20, cacheTime: 0 })
    .extend(publicActions)
    .extend(walletActions);
  const [deployer, everyday, seasoned] = await Promise.all(
    [1, 2, 3].map(async () => {
      const account = privateKeyToAccount(generatePrivateKey());
      await node.setBalance({ address: account.address, value: 10n ** 18n });
      return account;
    }),
  );
  const contracts = compile('examples/gated-action.sol', 'contracts/EligibilityVerifier.sol');
  const mined = async (hash) => node.waitForTransactionReceipt({ hash });
  const deploy = async (name, args = []) => {
    const { contractAddress } = await mined(await node.deployContract({ account: deployer, ...contracts[name], args }));
    return { address: contractAddress, abi: contracts[name].abi };
  };
  const pool = await deploy('LendingPool');
  for (let n = 1; n <= REPAYMENTS; n++) {
    await node.increaseTime({ seconds: DAY_S });
    await mined(await node.writeContract({ account: seasoned, ...pool, functionName: 'repay', args: [BigInt(n)] }));
  }
  await node.mine({ blocks: FINALITY });
  await node.increaseTime({ seconds: DAY_S - 2 * FINALITY });
  print(
    `anvil, chain ${CHAIN_ID}; ${seasoned.address} repaid ${REPAYMENTS} loans, one a day, to the pool ${pool.address}`,
  );

  const listed = join(folder, 'contracts.json');
  writeFileSync(listed, JSON.stringify({ [CHAIN_ID]: [{ address: pool.address, protocol: 'aave-v3' }] }));
  const data = join(folder, 'data');
  service = await start(
    'the service',
    process.execPath,
    [join(ROOT, 'dist/src/main.js')],
    {
      PATH: process.env.PATH,
      CREDENCE_DATA: data,
      CREDENCE_PORT: '0',
      CREDENCE_RATE_LIMIT: '0',
      CREDENCE_LOG_LEVEL: 'error',
      CREDENCE_CHAIN_CONTRACTS: listed,
      [`CREDENCE_RPC_${CHAIN_ID}`]: rpc,
    },
    /serves (http:\S+)/,
  );
  key = readFileSync(join(data, 'dev-api-key'), 'utf8').trim();

  step('Sign in with a fresh wallet');
  const nobody = await call(undefined, 'POST', '/v1/tris/auth/siwe/verify', await consent(everyday, {}), 200, [
    'wallet',
    'tris_id',
    'token_type',
    'expires_in',
  ]);
  expect(nobody.tris_id, null, 'the TRIS of a wallet nobody has seen');

  step('Claim a TRIS for it');
  const claimed = await consent(everyday, { purpose: 'claim' });
  const session = await call(undefined, 'POST', '/v1/tris/auth/siwe/verify', claimed, 200, ['wallet', 'tris_id']);
  const tris = session.tris_id;
  expect(tris, `tris:${everyday.address.toLowerCase()}`, 'the claimed TRIS');
  const replay = await call(undefined, 'POST', '/v1/tris/auth/siwe/verify', claimed, 401, ['code', 'detail']);
  expect(replay.code, 'nonce_used', 'the code for the same signature a second time');

  step('Gate an action');
  const AP = 'AP_CREDIT_LINE_V1';
  const { content_hash } = await call(
    'key',
    'POST',
    '/v1/policies/ap',
    { policy_id: AP, rules: { disc_min: 10, verification: ['zk-KYH'] }, ttl_seconds: 600 },
    201,
    ['policy_id', 'status', 'content_hash', 'rules'],
  );
  const subject = { policy_id: AP, subject_tris: tris };
  const denied = await call('key', 'POST', '/v1/policies/ap/check', subject, 200, [
    'granted',
    'score',
    'reasons',
    'how_to_pass',
  ]);
  expect(denied.granted, false, '“granted” of the first check');
  const missing = denied.how_to_pass.map(({ fact }) => fact).sort();
  expect(missing, ['net_tct', 'verification.zk-KYH'], 'what is missing');

  step('What is missing, first: link the wallet with the past');
  const linking = await consent(seasoned, { purpose: 'link', tris_id: tris });
  await call(session, 'POST', '/v1/wallets/link', linking, 200);
  const { wallets } = await call(session, 'GET', `/v1/wallets/${tris}`, undefined, 200, ['wallets']);
  expect(wallets.length, 2, 'the number of wallets');

  step('… and bring its history');
  const reading = { wallet: seasoned.address, chain_id: CHAIN_ID };
  const { job_id } = await call(session, 'POST', '/v1/wallets/ingest', reading, 202);
  const job = await finished(session, `/v1/wallets/ingest/${job_id}`);
  print(`GET /v1/wallets/ingest/${job_id}  (session), until it is done`);
  print(`→ 200 ${show({ status: job.status, result: job.result })}`);
  expect([job.status, job.result?.recorded], ['completed', REPAYMENTS], 'what became of the reading');

  step('What is missing, second: prove to be a human, without saying which');
  const expires_at = String(Math.floor(Date.now() / 1000) + YEAR_S);
  const secret = String(BigInt(generatePrivateKey()) % bn254.fields.Fr.ORDER);
  const members = [
    { secret: '1001', expires_at },
    { secret, expires_at },
    { secret: '1003', expires_at },
  ];
  print(`The registry has enrolled ${members.length} humans; one of them proves to be among them, as ${tris}.`);
  const scope = 'credit-line.humans';
  const proven = await prove({ circuit: 'kyh', members, holder: 1, scope: fieldOf(scope), subject: fieldOf(tris) });
  const scheme = {
    scheme: 'humans',
    status: 'zk-KYH',
    issuer: 'tris:registry',
    scope,
    public_inputs: ['nullifier', 'root', 'scope', 'subject', 'expires_at'].map((role) => ({ role })),
    verification_key: JSON.parse(readFileSync(join(ROOT, 'circuits/artifacts/kyh.vkey.json'), 'utf8')),
    transcript_hash: createHash('sha256')
      .update(readFileSync(join(ROOT, 'circuits/artifacts/kyh.zkey')))
      .digest('hex'),
    roots: [proven.root],
  };
  await call('key', 'POST', '/v1/verification-schemes', scheme, 201, ['scheme', 'status', 'verification_key_hash']);
  const { proof, public_signals } = proven;
  await call(session, 'POST', '/v1/tris/verifications', { scheme: 'humans', proof, public_signals }, 201);
  const stolen = { scheme: 'humans', proof, public_signals, tris_id: 'tris:mallory' };
  const theft = await call('key', 'POST', '/v1/tris/verifications', stolen, 422, ['code', 'detail']);
  expect(theft.code, 'public_signal_mismatch', 'the code for the same proof by somebody else');

  step('Now');
  const standing = await call(undefined, 'GET', `/v1/disc/score/${tris}`, undefined, 200, [
    'score',
    'score_rating',
    'total_tct',
    'verification',
  ]);
  expect(standing.total_tct, REPAYMENTS * 100, 'the TCT of the repayments');
  const granted = await call('key', 'POST', '/v1/policies/ap/check', subject, 200, [
    'granted',
    'score',
    'expires_at',
    'eligibility_token',
  ]);
  expect(granted.granted, true, '“granted” of the second check');
  const token = { token: granted.eligibility_token, policy_id: AP };
  expect(
    (await call(undefined, 'POST', '/v1/eligibility/verify', token, 200, ['active'])).active,
    true,
    '“active” of the token',
  );

  step('The same decision on the chain: a voucher, which opens a line of credit once');
  const { issuers } = await call(undefined, 'GET', '/v1/eligibility/issuers', undefined, 200, ['issuers']);
  const issuer = issuers.find(({ status }) => status === 'signing').address;
  const credit = await deploy('CreditLine', [deployer.address, issuer, `0x${content_hash}`]);
  print(`deployed CreditLine at ${credit.address}: it trusts that issuer, and this policy by its content hash`);
  const onChain = { ...subject, wallet: everyday.address, chain_id: CHAIN_ID, verifying_contract: credit.address };
  const decide = async () => {
    const answer = await call('key', 'POST', '/v1/policies/ap/check', onChain, 200, [
      'granted',
      'expires_at',
      'eligibility_token',
      'voucher',
    ]);
    expect(answer.granted, true, '“granted” of a check with a wallet');
    const { message, signature } = answer.voucher;
    return {
      token: answer.eligibility_token,
      voucher: [{ ...message, expiresAt: BigInt(message.expiresAt) }, signature],
    };
  };
  /** Has an account call the contract; the name of the error it reverts with, or undefined once it is mined. */
  const transact = async (account, functionName, args) => {
    print(
      `CreditLine.${functionName}(${functionName === 'open' ? 'voucher, signature' : args})  from ${account.address}`,
    );
    try {
      await node.simulateContract({ account, ...credit, functionName, args });
    } catch (error) {
      const reverted = error.walk((cause) => cause instanceof ContractFunctionRevertedError);
      if (!reverted) throw error;
      print(`→ refused: ${reverted.data.errorName}`);
      return reverted.data.errorName;
    }
    const { blockNumber, gasUsed } = await mined(await node.writeContract({ account, ...credit, functionName, args }));
    print(`→ mined in block ${blockNumber}, ${gasUsed} gas`);
  };
  const first = await decide();
  expect(await transact(seasoned, 'open', first.voucher), 'NotTheWallet', 'the answer to another wallet');
  expect(await transact(everyday, 'open', first.voucher), undefined, 'the answer to the first redemption');
  const limit = await node.readContract({ ...credit, functionName: 'limitOf', args: [everyday.address] });
  expect(String(limit), String(10n ** 18n), 'the limit of the line of credit');
  print('The line of credit is open.');
  expect(await transact(everyday, 'open', first.voucher), 'VoucherRedeemed', 'the answer to the second redemption');

  step('Revoke a decision');
  const second = await decide();
  await call('key', 'POST', '/v1/eligibility/revoke', { token: second.token }, 200);
  const revoked = await call(undefined, 'POST', '/v1/eligibility/verify', { token: second.token }, 200, [
    'active',
    'reason',
  ]);
  expect(revoked.active, false, '“active” of the token after it was revoked');
  const trusted = await node.readContract({ ...credit, functionName: 'check', args: second.voucher });
  expect(trusted, issuer, 'who granted, by the contract');
  print(
    'The token is worth nothing at once. The chain has not heard of it: CreditLine.check still accepts the voucher,',
  );
  print('until it expires or an issuer or the owner of the contract invalidates it there.');
  const [{ jti }] = second.voucher;
  expect(await transact(deployer, 'invalidate', [jti]), undefined, 'the answer to the owner');
  expect(await transact(everyday, 'open', second.voucher), 'VoucherInvalidated', 'the answer after that');

  step('Refresh the session, and sign out');
  const { refresh_token } = session;
  const next = await call(undefined, 'POST', '/v1/tris/token/refresh', { refresh_token }, 200, [
    'refresh_token',
    'expires_in',
  ]);
  await call(undefined, 'POST', '/v1/tris/token/revoke', { refresh_token: next.refresh_token }, 200);
  const ended = await call(next, 'GET', `/v1/wallets/${tris}`, undefined, 401, ['code', 'detail']);
  expect(ended.code, 'session_revoked', 'the code for a session that was ended');
  print('\nEverything answered as it should.');
}

async function finished(who, path) {
  for (let tries = 0; tries < 1_000; tries++) {
    const answer = await fetch(service + path, { headers: { authorization: `Bearer ${who.access_token}` } });
    const job = await answer.json();
    if (!['queued', 'running'].includes(job.status)) return job;
    await sleep(20);
  }
  throw new Unexpected(`GET ${path} does not come to an end`);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`\n${error instanceof Unexpected ? error.message : error.stack}\n`);
  process.exitCode = 1;
} finally {
  for (const child of children) {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGTERM')) await ended;
  }
  rmSync(folder, { recursive: true, force: true });
}
