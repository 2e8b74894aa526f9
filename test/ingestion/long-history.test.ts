import { type JsonRpc, RpcFailure } from '../../src/features/accounts/json-rpc.js';
import { LogReader } from '../../src/features/ingestion/log-reader.js';
import { Scan } from '../../src/features/ingestion/scan.js';
import { Anvil } from '../servers/anvil.js';
import { compile } from '../../contracts/tools.mjs';
import { newAccount } from '../sessions/wallet.js';
import { batchesBy, blocksOf } from './rpc.js';

const { History } = compile('test/ingestion/history.sol') as Record<string, ReturnType<typeof compile>[string]>;

type Ask = JsonRpc['request'];
/** Reads a node that also answers batches. */
const readerOf = (request: Ask) => new LogReader({ request, batch: batchesBy(request) });
const refused = (message: string) => new RpcFailure('refused', message, -32000, 200);

test('1,000 logs over 5,000 blocks are found once each, by a node that refuses large ranges and answers', async () => {
  const anvil = await Anvil.start(31337, ['--prune-history']);
  const pool = await anvil.deploy(History!);
  const [wallet, other] = [newAccount().address, newAccount().address];
  const repay = (user: string, times: bigint) =>
    anvil.writer.writeContract({
      address: pool,
      abi: History!.abi,
      functionName: 'repay',
      args: [user, times],
    } as never);
  for (let i = 0; i < 10; i++) {
    await repay(wallet, 90n);
    await repay(other, 20n);
    await anvil.mine(498);
  }
  const last100 = await anvil.mined(await repay(wallet, 100n));
  const crowded = Number(last100.blockNumber);
  await anvil.mine(100);

  const asked: { method: string; params: readonly unknown[] }[] = [];
  const ask: Ask = async (method, params) => {
    asked.push({ method, params });
    if (method === 'eth_getLogs') {
      if (blocksOf([...params]) > 700) throw refused('block range is too wide');
      const logs = (await anvil.reader.request({ method, params } as never)) as unknown[];
      if (logs.length > 95) throw refused('query returned more than 95 results');
      return logs;
    }
    return anvil.reader.request({ method, params } as never);
  };
  const reader = readerOf(ask);
  const scan = new Scan(reader, wallet, [{ address: pool, protocol: 'aave-v3' }]);
  const last = await reader.finalBlock();
  expect(last).toBeGreaterThanOrEqual(crowded);
  const found = new Set<string>();
  let logs = 0;
  let cursor = { since: 0, next_block: 0, last_hash: null as string | null, tokens: [] as string[], attestations: {} };
  while (cursor.next_block <= last) {
    const read = await scan.next(cursor, last);
    for (const { place } of read.occurrences) found.add(place);
    logs += read.occurrences.length;
    cursor = read.cursor;
  }
  expect([found.size, logs]).toEqual([1_000, 1_000]);
  // The one block with more than is given at once.
  expect(asked.filter(({ method }) => method === 'eth_getBlockReceipts').map(({ params }) => params)).toEqual([
    [`0x${crowded.toString(16)}`],
  ]);
  // It learns what it may ask: not many more questions than the fewest there could be, two for each 700 blocks.
  expect(asked.filter(({ method }) => method === 'eth_getLogs').length).toBeLessThan(100);
  await anvil.stop();
}, 300_000);

test('the ranges of a crowded history shrink, so that each answer has about 2,000 logs', async () => {
  const wallet = newAccount().address.toLowerCase();
  const pool = newAccount().address.toLowerCase();
  const perBlock = 20;
  const last = 2_999;
  const word = (digits: string) => `0x${digits.padStart(64, '0')}`;
  const answers: number[] = [];
  const ask: Ask = async (method, params) => {
    const [asked] = params as readonly [{ fromBlock: string; toBlock: string; topics: [string[], ...unknown[]] }];
    if (method === 'eth_getBlockByNumber') return { hash: word((params[0] as string).slice(2)), number: params[0] };
    const { topics } = asked;
    // The repayments: their user is the second argument.
    const isRepayment = topics.length === 3;
    const [from, to] = [Number(asked.fromBlock), Number(asked.toBlock)];
    const count = isRepayment ? perBlock * (to - from + 1) : 0;
    if (isRepayment) answers.push(count);
    return Array.from({ length: count }, (_, n) => ({
      address: pool,
      topics: [topics[0][0], word('1'), word(wallet.slice(2)), word('2')],
      blockHash: word((from + Math.floor(n / perBlock)).toString(16)),
      blockNumber: `0x${(from + Math.floor(n / perBlock)).toString(16)}`,
      blockTimestamp: '0x65000000',
      logIndex: `0x${(n % perBlock).toString(16)}`,
    }));
  };
  const scan = new Scan(readerOf(ask), wallet, [{ address: pool, protocol: 'aave-v3' }]);
  let cursor = { since: 0, next_block: 0, last_hash: null as string | null, tokens: [] as string[], attestations: {} };
  let found = 0;
  while (cursor.next_block <= last) {
    const read = await scan.next(cursor, last);
    found += read.logs;
    cursor = read.cursor;
  }
  expect(found).toBe(perBlock * (last + 1));
  // Nothing is known about the first range.
  expect(Math.max(...answers.slice(1))).toBeLessThanOrEqual(2_000);
});
