import { writeFileSync } from 'node:fs';
import { cp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Hex, zeroAddress } from 'viem';
import { becomes } from '../contracts/harness.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { send } from '../http/client.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { Anvil } from '../servers/anvil.js';
import { compile } from '../../contracts/tools.mjs';
import { type Account, type Tokens, bearer, call, claim, consent, newAccount, signIn } from '../sessions/wallet.js';
import { type Endpoint, blocksOf, endpointBefore } from './rpc.js';

const CHAIN = 31337;
const { History, Coins, Positions } = compile('test/ingestion/history.sol') as Record<
  string,
  ReturnType<typeof compile>[string]
>;
/** Blocks between the tip and the last that is final. */
const FINALITY = 64;

let anvil: Anvil;
let endpoint: Endpoint;
let service: Service;
let env: Record<string, string>;
let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let at: Record<'pool' | 'governor' | 'eas' | 'schemas' | 'coins' | 'positions' | 'unlisted' | 'safe', Hex>;
const attester = newAccount();
const SCHEMA: Hex = `0x${'5c'.repeat(32)}`;

beforeAll(async () => {
  anvil = await Anvil.start(CHAIN, ['--prune-history']);
  endpoint = await endpointBefore(anvil.url);
  at = {
    pool: await anvil.deploy(History!),
    governor: await anvil.deploy(History!),
    eas: await anvil.deploy(History!),
    schemas: await anvil.deploy(History!),
    safe: await anvil.deploy(History!),
    coins: await anvil.deploy(Coins!),
    positions: await anvil.deploy(Positions!),
    unlisted: await anvil.deploy(History!),
  };
  folder = await temporaryFolder();
  const file = join(folder.path, 'contracts.json');
  const contracts = [
    { address: at.pool, protocol: 'aave-v3' },
    { address: at.governor, protocol: 'governor' },
    { address: at.eas, protocol: 'eas', attesters: [attester.address] },
    { address: at.schemas, protocol: 'eas', attesters: [attester.address], schemas: [SCHEMA] },
    { address: at.safe, protocol: 'safe' },
    { address: at.coins, protocol: 'erc20' },
    { address: at.positions, protocol: 'uniswap-v3-positions' },
  ];
  writeFileSync(file, JSON.stringify({ [CHAIN]: contracts }));
  env = { [`CREDENCE_RPC_${CHAIN}`]: endpoint.url, CREDENCE_CHAIN_CONTRACTS: file };
  service = await startService(env);
});
afterAll(async () => {
  await service.close();
  await endpoint.close();
  await anvil.stop();
  await folder.remove();
});
beforeEach(() => {
  endpoint.refuse = () => undefined;
  endpoint.change = (result) => result;
  endpoint.refuseBatches = undefined;
  endpoint.asked.length = 0;
});

/** Resolves once it is mined. */
async function write(
  address: Hex,
  { abi }: { abi: unknown },
  functionName: string,
  args: unknown[] = [],
): Promise<void> {
  const hash = await anvil.writer.writeContract({ address, abi, functionName, args } as never);
  await anvil.mined(hash);
}
const mine = (blocks: number) => anvil.mine(blocks);
const finalize = () => mine(FINALITY);

const ingest = (wallet: string, headers: Record<string, string>, more: object = {}) =>
  call(service, '/v1/wallets/ingest', { wallet, chain_id: CHAIN, ...more }, headers);
const jobOf = async (jobId: string) =>
  (await service.get(`/v1/wallets/ingest/${jobId}`, { 'x-api-key': service.key })).json;
const finished = (jobId: string) =>
  becomes(
    () => jobOf(jobId),
    ({ status }) => !['queued', 'running'].includes(status),
  );
/** Why the first attempt of a job has failed. */
async function firstError(jobId: string): Promise<string> {
  const { error } = await becomes(
    () => jobOf(jobId),
    (job) => job.error !== null,
  );
  return error as string;
}
async function ingested(wallet: string, tokens: Tokens, more: object = {}) {
  const answer = await ingest(wallet, bearer(tokens), more);
  if (answer.status !== 202) throw new Error(answer.text);
  const job = await finished(answer.json.job_id);
  if (job.status !== 'completed') throw new Error(JSON.stringify(job));
  return job.result;
}
/** Metrics of the actions of a TRIS, in log order. */
async function actionsOf(trisId: string): Promise<string[]> {
  await service.get('/v1/disc/changes?limit=1', { 'x-api-key': service.key });
  const position = `${service.stores.eventStore.logId}.${await service.stores.eventStore.head()}`;
  const { json } = await service.get(`/v1/disc/score/${trisId}/history?limit=1000`, {
    'credence-min-position': position,
  });
  return json.entries
    .filter((entry: { event_type: string }) => entry.event_type === 'ActionRelayed')
    .map((entry: { metric: string }) => entry.metric);
}
async function owner(): Promise<{ account: Account; wallet: Hex; tokens: Tokens & { tris_id: string } }> {
  const account = newAccount();
  return { account, wallet: account.address, tokens: await claim(service, account) };
}

test('a linked wallet’s history becomes actions that move its score, each once', async () => {
  const { wallet, tokens } = await owner();
  const other = newAccount().address;
  await write(at.pool, History!, 'repay', [wallet, 2n]);
  await write(at.pool, History!, 'repay', [other, 3n]);
  await write(at.unlisted, History!, 'repay', [wallet, 5n]);
  await write(at.governor, History!, 'vote', [wallet]);
  await write(at.governor, History!, 'repay', [wallet, 1n]); // a governor knows no repayments
  await write(at.coins, Coins!, 'transfer', [wallet, other]);
  await write(at.coins, Coins!, 'transfer', [other, wallet]); // nothing the wallet did
  await write(at.eas, History!, 'attest', [wallet, attester.address]);
  await write(at.eas, History!, 'attest', [wallet, other]); // anyone can attest anything
  await finalize();
  expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 5, already_present: 0, counted_elsewhere: 0 });
  expect(await actionsOf(tokens.tris_id)).toEqual([
    'financial_loan_repayment_consistency',
    'financial_loan_repayment_consistency',
    'behavioral_vote_participation',
    'financial_txn_consistency',
    'social_verified_identity_linked',
  ]);
  const before = (await service.get(`/v1/disc/score/${tokens.tris_id}`)).json;
  expect(before).toMatchObject({ total_tct: 100 + 100 + 70 + 10 + 30 });
  const { validations } = (await service.get(`/api/tris-validations/${tokens.tris_id}`)).json;
  expect(validations[0]).toMatchObject({ from: `tris:platform:eip155:${CHAIN}`, amount: 100 });

  expect(await ingested(wallet, tokens)).toMatchObject({ to_block: null, recorded: 0 });
  expect(await ingested(wallet, tokens, { from_block: 0 })).toMatchObject({ recorded: 0, already_present: 5 });

  await write(at.pool, History!, 'liquidate', [wallet]);
  await finalize();
  expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 1 });
  await actionsOf(tokens.tris_id);
  const after = (await service.get(`/v1/disc/score/${tokens.tris_id}`)).json;
  expect(after).toMatchObject({ total_tct: 0, forfeited_tct: 1400 });
  expect(after.score).toBeLessThan(before.score);
});

test('of a contract with schemas, attestations of other schemas do not count', async () => {
  const { wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  await write(at.schemas, History!, 'attestTo', [wallet, attester.address, SCHEMA]);
  await write(at.schemas, History!, 'attestTo', [wallet, attester.address, `0x${'00'.repeat(32)}`]);
  await finalize();
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 1 });
});

test.each<[string, Endpoint['refuseBatches']]>([
  ['answers batches', undefined],
  ['refuses batches', { code: -32600, message: 'batches are not supported' }],
  ['takes a batch for a malformed request', { status: 400, message: 'Bad Request' }],
])('behind an endpoint that %s, a node that lags behind loses nothing', async (_what, refuseBatches) => {
  const { wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  await write(at.pool, History!, 'repay', [wallet, 2n]);
  await finalize();
  endpoint.refuseBatches = refuseBatches;
  // The first requests get to it. It has no block from `first` on.
  let asked = 0;
  endpoint.change = (result, method, params) => {
    const ofRange = method === 'eth_getLogs' && 'fromBlock' in (params[0] as object);
    const ofLast = method === 'eth_getBlockByNumber' && params[0] !== 'finalized';
    if (!ofRange && !ofLast) return result;
    return asked++ < 2 ? (ofRange ? [] : null) : result;
  };
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 2 });
  expect(asked).toBeGreaterThan(2);
});

test('a node that does not know which blocks are final is named with its chain', async () => {
  const { wallet, tokens } = await owner();
  endpoint.refuse = (method, params) =>
    method === 'eth_getBlockByNumber' && params[0] === 'finalized'
      ? { code: -32602, message: 'invalid block tag' }
      : undefined;
  const { json: job } = await ingest(wallet, bearer(tokens));
  const error = await firstError(job.job_id);
  expect(error).toBe(`Chain ${CHAIN}: the node does not know the block tag "finalized": invalid block tag`);
  endpoint.refuse = () => undefined;
  await finished(job.job_id);
});

test('a node that dies midway: the job is tried again and continues where it stopped', async () => {
  const { wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  for (let i = 0; i < 6; i++) {
    await write(at.pool, History!, 'repay', [wallet, 1n]);
    await mine(100);
  }
  let questions = 0;
  endpoint.refuse = (method, params) => {
    if (method !== 'eth_getLogs') return undefined;
    if (blocksOf(params) > 100) return { code: -32005, message: 'limit exceeded' };
    return ++questions > 12 && questions < 15 ? 'die' : undefined;
  };
  const { json: job } = await ingest(wallet, bearer(tokens), { from_block: first });
  const error = await firstError(job.job_id);
  const [, at_block, since, until] = /^Stopped at block (\d+) \(blocks (\d+) to (\d+) are recorded\): /.exec(error)!;
  expect([Number(since), Number(until) + 1]).toEqual([first, Number(at_block)]);
  expect(Number(at_block)).toBeGreaterThan(first);
  // The result is that of the whole job, not of its last attempt.
  const { status, progress, result } = await finished(job.job_id);
  expect([status, result]).toEqual(['completed', expect.objectContaining({ from_block: first, recorded: 6 })]);
  expect(progress.total).toBe(result.to_block - first + 1);
  expect(await actionsOf(tokens.tris_id)).toHaveLength(6);
  const isSmall = ({ method, params }: (typeof endpoint.asked)[number]) =>
    method === 'eth_getLogs' && blocksOf(params) <= 100;
  const starts = endpoint.asked
    .filter(isSmall)
    .map(({ params }) => Number((params[0] as { fromBlock: string }).fromBlock));
  expect(starts.filter((block) => block === first)).toHaveLength(3); // once: a question for each place of the wallet
});

test('a node with a rate limit: the job is tried again later, with ranges of the same size', async () => {
  const { wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  await write(at.pool, History!, 'repay', [wallet, 1n]);
  await mine(300);
  await finalize();
  const refusals = [
    { code: -32005, message: 'daily request count exceeded, request rate limited' },
    { status: 429, message: 'limit exceeded' },
  ];
  endpoint.refuse = (method) => (method === 'eth_getLogs' ? refusals.shift() : undefined);
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 1 });
  const logs = endpoint.asked.filter(({ method }) => method === 'eth_getLogs').map(({ params }) => params);
  expect(logs.slice(1, 3)).toEqual([logs[0], logs[0]]);
});

test('a block that is not final does not count, and one that replaces it is read', async () => {
  const { wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  await mine(2);
  const snapshot = await anvil.controls.snapshot();
  await write(at.pool, History!, 'liquidate', [wallet]);
  await mine(3);
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 0 });
  await anvil.controls.revert({ id: snapshot }); // the chain goes another way
  await write(at.pool, History!, 'repay', [wallet, 1n]);
  await finalize();
  expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 1 });
  expect(await actionsOf(tokens.tris_id)).toEqual(['financial_loan_repayment_consistency']);
});

test('a chain that replaces final blocks is read again; logs in both versions count once', async () => {
  const { wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  await write(at.pool, History!, 'repay', [wallet, 1n]);
  const snapshot = await anvil.controls.snapshot();
  await finalize();
  await finalize();
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 1 });
  await anvil.controls.revert({ id: snapshot });
  await write(at.pool, History!, 'repay', [wallet, 1n]);
  await finalize();
  await finalize();
  await mine(2);
  expect(await ingested(wallet, tokens)).toMatchObject({ from_block: first, recorded: 1, already_present: 1 });
});

test('a log that an older copy has replaced: what it lacks is recorded again', async () => {
  const data = await temporaryFolder();
  const whole = service;
  const restarted = async (between: () => Promise<void> = async () => undefined) => {
    if (service !== whole) await service.close();
    await between();
    const next = await startService({ ...env, CREDENCE_DATA: data.path });
    // The key is told once.
    service = { ...next, key: next.key || service.key };
  };
  const pathOf = (name: string) => join(data.path, name);
  try {
    await restarted();
    const { wallet, tokens } = await owner();
    const first = Number(await anvil.reader.getBlockNumber());
    await write(at.pool, History!, 'repay', [wallet, 1n]);
    await finalize();
    await restarted(() => cp(pathOf('log'), pathOf('older'), { recursive: true }));
    expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 1 });
    expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 0 });
    // As the runbook says: the state stays as it is.
    await restarted(async () => {
      await rm(pathOf('log'), { recursive: true });
      await rename(pathOf('older'), pathOf('log'));
      await rm(pathOf('log.marker.json'));
    });
    expect(await ingested(wallet, tokens)).toMatchObject({ from_block: first, recorded: 1 });
    expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 0 });
  } finally {
    if (service !== whole) await service.close();
    service = whole;
    await data.remove();
  }
});

test('the owner of a token is its holder at the time of the event', async () => {
  const { wallet, tokens } = await owner();
  const other = newAccount().address;
  const first = Number(await anvil.reader.getBlockNumber());
  await write(at.positions, Positions!, 'increase', [1n]); // before it was the wallet's
  await write(at.positions, Positions!, 'transfer', [other, wallet, 1n]);
  await write(at.positions, Positions!, 'increase', [1n]);
  await write(at.positions, Positions!, 'mint', [wallet, 2n]);
  await write(at.positions, Positions!, 'mint', [other, 3n]);
  await finalize();
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 2 });
  await write(at.positions, Positions!, 'increase', [2n]); // known from the reading before
  await write(at.positions, Positions!, 'transfer', [wallet, zeroAddress, 1n]);
  await write(at.positions, Positions!, 'increase', [1n]); // no longer the wallet's
  await finalize();
  expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 1 });
  expect(new Set(await actionsOf(tokens.tris_id))).toEqual(new Set(['financial_liquidity_provision_duration']));
});

describe('is refused', () => {
  const codeOf = async (answer: Promise<{ status: number; json: { code?: string } }>) => {
    const { status, json } = await answer;
    return [status, json.code];
  };

  test('for a wallet with only an asserted link, or none', async () => {
    const wallet = newAccount().address;
    const operator = { 'x-api-key': service.key };
    expect(await codeOf(ingest(wallet, operator))).toEqual([404, 'wallet_not_linked']);
    await call(service, '/api/link-account', { wallet, tris_id: 'tris:somebody' }, operator);
    expect(await codeOf(ingest(wallet, operator))).toEqual([404, 'wallet_not_linked']);
  });

  test('for a chain that is not configured', async () => {
    const { wallet, tokens } = await owner();
    expect(await codeOf(ingest(wallet, bearer(tokens), { chain_id: 5 }))).toEqual([400, 'chain_not_configured']);
  });

  test('in the session of another TRIS, which cannot read the job either', async () => {
    const { wallet, tokens } = await owner();
    const stranger = await owner();
    expect(await codeOf(ingest(wallet, bearer(stranger.tokens)))).toEqual([403, 'forbidden']);
    const { job_id } = (await ingest(wallet, bearer(tokens))).json;
    const path = `/v1/wallets/ingest/${job_id}`;
    const seen = (headers: Record<string, string>) => codeOf(send(service.port, 'GET', path, { headers }));
    expect(await seen(bearer(stranger.tokens))).toEqual([404, 'ingestion_not_found']);
    expect(await seen(bearer(tokens))).toEqual([200, undefined]);
    expect(await seen({})).toEqual([401, 'unauthorized']);
    await finished(job_id);
  });

  test('for an Idempotency-Key with another body; the same body gets the same job', async () => {
    const { wallet, tokens } = await owner();
    const headers = { ...bearer(tokens), 'idempotency-key': 'once' };
    const first = await ingest(wallet, headers);
    const retry = await ingest(wallet, headers);
    expect([retry.json, retry.headers['idempotency-replayed']]).toEqual([first.json, 'true']);
    expect(await codeOf(ingest(wallet, headers, { from_block: 1 }))).toEqual([422, 'idempotency_key_reused']);
    await finished(first.json.job_id);
  });
});

test('a wallet has at most one waiting or running job for a chain, however often it is requested', async () => {
  const { wallet, tokens } = await owner();
  const other = await owner();
  const headers = (key: string) => ({ ...bearer(tokens), 'idempotency-key': `${key}-${wallet}` });
  endpoint.refuse = () => 'die';
  const asked = [
    bearer(tokens),
    bearer(tokens),
    headers('a'),
    headers('a'),
    headers('b'),
    { 'x-api-key': service.key },
  ];
  const answers = await Promise.all(asked.map((by) => ingest(wallet, by)));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  const [job_id, ...more] = new Set(answers.map(({ json }) => json.job_id as string));
  expect(more).toEqual([]);
  expect((await ingest(wallet.toLowerCase(), bearer(tokens))).json).toEqual({ job_id });
  const elsewhere = await ingest(wallet, bearer(tokens), { from_block: 1 });
  expect([elsewhere.status, elsewhere.json.code]).toEqual([409, 'ingestion_open']);
  const others = (await ingest(other.wallet, bearer(other.tokens))).json.job_id;
  expect(others).not.toBe(job_id);

  endpoint.refuse = () => undefined;
  expect(await finished(job_id!)).toMatchObject({ status: 'completed' });
  for (const name of ['a', 'b']) {
    const retry = await ingest(wallet, headers(name));
    expect([retry.json, retry.headers['idempotency-replayed']]).toEqual([{ job_id }, 'true']);
    expect((await ingest(wallet, headers(name), { from_block: 1 })).json.code).toBe('idempotency_key_reused');
  }
  const next = await ingest(wallet, bearer(tokens), { from_block: 1 });
  expect(next.status).toBe(202);
  expect(next.json.job_id).not.toBe(job_id);
  expect(await finished(next.json.job_id)).toMatchObject({ status: 'completed', result: { from_block: 1 } });
  await finished(others);
});

test('a job that a crash kept out of the queue is enqueued by the next request', async () => {
  const { wallet, tokens } = await owner();
  const enqueue = service.stores.jobs.enqueue;
  service.stores.jobs.enqueue = () => Promise.reject(new Error('the process ended'));
  expect((await ingest(wallet, bearer(tokens), { from_block: 7 })).status).toBe(500);
  service.stores.jobs.enqueue = enqueue;
  expect((await ingest(wallet, bearer(tokens))).status).toBe(409);
  const again = await ingest(wallet, bearer(tokens), { from_block: 7 });
  expect(again.status).toBe(202);
  expect(await finished(again.json.job_id)).toMatchObject({ status: 'completed', result: { from_block: 7 } });
});

test('a finished job that the queue has forgotten is not run again, and holds up no other', async () => {
  const { wallet, tokens } = await owner();
  const first = (await ingest(wallet, bearer(tokens))).json.job_id as string;
  await finished(first);
  const { jobs } = service.stores;
  const { enqueue, get } = jobs;
  const forgotten: string[] = [];
  try {
    jobs.get = async (kind, id) => (id === first ? undefined : get.call(jobs, kind, id));
    jobs.enqueue = async (kind, id, input) => {
      if (id !== first) return enqueue.call(jobs, kind, id, input);
      forgotten.push(id);
      return { ...(await get.call(jobs, kind, id))!, status: 'queued' };
    };
    const next = await ingest(wallet, bearer(tokens), { from_block: 1 });
    expect([next.status, next.json.code]).toEqual([202, undefined]);
    expect(next.json.job_id).not.toBe(first);
    expect(forgotten).toEqual([]);
    await finished(next.json.job_id);
  } finally {
    Object.assign(jobs, { enqueue, get });
  }
});

test('actions from before stay with the identity that the wallet belonged to', async () => {
  const { account, wallet, tokens } = await owner();
  const first = Number(await anvil.reader.getBlockNumber());
  await write(at.pool, History!, 'repay', [wallet, 2n]);
  await finalize();
  expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 2 });
  const next = await owner();
  const agreed = await consent(service, account, tokens.tris_id, 'unlink');
  expect((await call(service, '/v1/wallets/unlink', { wallet, ...agreed }, bearer(tokens))).status).toBe(200);
  const linked = await call(
    service,
    '/v1/wallets/link',
    await consent(service, account, next.tokens.tris_id),
    bearer(next.tokens),
  );
  expect(linked.status).toBe(200);
  expect(await ingested(wallet, next.tokens, { from_block: first })).toMatchObject({
    recorded: 0,
    counted_elsewhere: 2,
  });
  expect((await signIn(service, account)).json.tris_id).toBe(next.tokens.tris_id);
});

describe('an attestation that its attester revokes', () => {
  const uid = (n: number): Hex => `0x${n.toString(16).padStart(64, '0')}`;
  const attest = (wallet: Hex, n: number, by = attester.address) =>
    write(at.eas, History!, 'attestAs', [wallet, by, uid(n)]);
  const revoke = (wallet: Hex, n: number, by = attester.address, contract = at.eas) =>
    write(contract, History!, 'revoke', [wallet, by, uid(n)]);
  const earned = async (trisId: string) => {
    await actionsOf(trisId);
    return (await service.get(`/v1/disc/score/${trisId}`)).json.earned_tct as number;
  };
  /** Ids of the withdrawn actions of a TRIS. */
  const withdrawnOf = async (trisId: string): Promise<string[]> => {
    await actionsOf(trisId);
    const { json } = await service.get(`/v1/disc/score/${trisId}/history?limit=1000`);
    return json.entries
      .filter((entry: { event_type: string }) => entry.event_type === 'ActionWithdrawn')
      .map((entry: { action_id: string }) => entry.action_id);
  };

  test('counts no more, in the same range and in a later one; by others it counts on', async () => {
    const { wallet, tokens } = await owner();
    const stranger = newAccount().address;
    const first = Number(await anvil.reader.getBlockNumber());
    for (const n of [1, 2, 3]) await attest(wallet, n);
    await revoke(wallet, 1); // before the read models can have its attestation
    await revoke(wallet, 2, stranger); // whom nobody listed
    await revoke(wallet, 2, attester.address, at.schemas); // another contract
    await revoke(stranger, 2); // about another wallet
    await revoke(wallet, 9); // of none
    await finalize();
    expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 3, withdrawn: 1 });
    expect(await earned(tokens.tris_id)).toBe(60);
    await revoke(wallet, 2);
    await finalize();
    expect(await ingested(wallet, tokens)).toMatchObject({ recorded: 0, withdrawn: 1 });
    expect(await earned(tokens.tris_id)).toBe(30);
    expect(await withdrawnOf(tokens.tris_id)).toHaveLength(2);
  });

  test('is withdrawn once, however often it is read: an operator may have reinstated it', async () => {
    const { wallet, tokens } = await owner();
    const first = Number(await anvil.reader.getBlockNumber());
    await attest(wallet, 1);
    await revoke(wallet, 1);
    await finalize();
    expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ recorded: 1, withdrawn: 1 });
    const [id] = await withdrawnOf(tokens.tris_id);
    expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ already_present: 1, withdrawn: 0 });
    const reinstated = await service.post(`/v1/actions/${id}/reinstate`, { reason: 'mistake' });
    expect(reinstated.status).toBe(200);
    expect(await ingested(wallet, tokens, { from_block: first })).toMatchObject({ withdrawn: 0 });
    expect(await earned(tokens.tris_id)).toBe(30);
    const { changes } = (await service.get(`/v1/actions/${id}`, { 'x-api-key': service.key })).json;
    expect(changes).toMatchObject([
      { by: `wallet:${wallet.toLowerCase()}`, reason: 'reversed', state: 'withdrawn' },
      { by: 'key:dev', state: 'counted' },
    ]);
  });
});
