import { NoBatches, RpcFailure } from '../../src/features/accounts/json-rpc.js';
import { LogReader, RefusedRange } from '../../src/features/ingestion/log-reader.js';
import { batchesBy } from './rpc.js';

/** What nodes have answered that must not be recorded, or be taken for all there is. */

const word = (digits: string) => `0x${digits.padStart(64, '0')}`;
const quantity = (number: number) => `0x${number.toString(16)}`;
const POOL = `0x${'aa'.repeat(20)}`;
const TOPIC = word('abc');
const hashOf = (number: number) => word(number.toString(16));
const block = (number: number) => ({ number: quantity(number), hash: hashOf(number), timestamp: '0x65000000' });
const log = (number: number, more: object = {}) => ({
  address: POOL,
  topics: [TOPIC],
  blockHash: hashOf(number),
  blockNumber: quantity(number),
  logIndex: '0x0',
  ...more,
});

type Answer = unknown | ((params: readonly unknown[]) => unknown);
/** A node that has blocks 0 to 100, unless it answers otherwise. An answer that is an error is thrown. */
function reader(answers: Record<string, Answer>, withBatches = true) {
  const asked: string[] = [];
  const request = async (method: string, params: readonly unknown[]): Promise<unknown> => {
    asked.push(method);
    const given = method in answers ? answers[method] : undefined;
    const answer = typeof given === 'function' ? given(params) : given;
    if (answer instanceof Error) throw answer;
    if (answer !== undefined) return answer;
    if (method === 'eth_getBlockByNumber') return block(params[0] === 'finalized' ? 100 : Number(params[0]));
    throw new Error(`nothing is answered to ${method}`);
  };
  const noBatch = async () => {
    throw new NoBatches();
  };
  const batch = withBatches ? batchesBy(request) : noBatch;
  return { asked, reader: new LogReader({ request, batch }, 1) };
}
const logsOf = (answers: Record<string, Answer>, withBatches = true) =>
  reader(answers, withBatches)
    .reader.range(10, 20)
    .logs([POOL], [[TOPIC]]);
/** Answers of one method after the other; the last one for good. */
const inTurn = (...answers: Answer[]) => {
  let turn = 0;
  return (params: readonly unknown[]) => {
    const answer = answers[Math.min(turn++, answers.length - 1)];
    return typeof answer === 'function' ? answer(params) : answer;
  };
};

test('logs that were removed, are pending, are of other blocks or were not asked for do not count', async () => {
  const logs = [
    log(15),
    log(15, { removed: true, logIndex: '0x1' }),
    log(15, { blockHash: null, blockNumber: null, logIndex: null }),
    log(21),
    log(9),
    log(15, { address: `0x${'bb'.repeat(20)}` }),
    log(15, { topics: [word('def')] }),
  ];
  expect(await logsOf({ eth_getLogs: logs })).toEqual([{ ...log(15), blockTimestamp: undefined }]);
});

test('addresses, hashes and topics are compared in lower case', async () => {
  const upper = (hex: string) => `0x${hex.slice(2).toUpperCase()}`;
  const logs = [log(15, { address: upper(POOL), topics: [upper(TOPIC)], blockHash: upper(hashOf(15)) })];
  expect(await logsOf({ eth_getLogs: logs })).toMatchObject([
    { address: POOL, topics: [TOPIC], blockHash: hashOf(15) },
  ]);
});

test.each([
  ['an object', {}],
  ['a text', 'rate limited'],
  ['a list of texts', ['0x1']],
  ['a log without topics', [log(15, { topics: null })]],
  ['a log with a short topic', [log(15, { topics: ['0x1'] })]],
  ['a log with a number as index', [log(15, { logIndex: 0 })]],
  ['a log without a block', [log(15, { blockNumber: '' })]],
])('%s instead of logs is an error, and not "none"', async (_what, answer) => {
  await expect(logsOf({ eth_getLogs: answer })).rejects.toThrow(
    /^the node answered with .* instead of a (list of logs|log)$/,
  );
});

test('null is "none" for logs', async () => {
  expect(await logsOf({ eth_getLogs: null })).toEqual([]);
});

describe.each([
  ['in one batch with the last block', true],
  ['without batches', false],
])('%s', (_how, withBatches) => {
  test('a node that lags behind is asked again until the one that answers has the range', async () => {
    const eth_getLogs = (params: readonly unknown[]) => {
      // By the hash of a block.
      if ('blockHash' in (params[0] as object)) return [log(20)];
      return range(params);
    };
    const range = inTurn([], [], [log(15), log(20)]);
    const eth_getBlockByNumber = inTurn(null, null, block(20));
    expect(await logsOf({ eth_getLogs, eth_getBlockByNumber }, withBatches)).toHaveLength(2);
  });

  test('a range whose last block no node has is an error', async () => {
    const answers = { eth_getLogs: [], eth_getBlockByNumber: null };
    await expect(logsOf(answers, withBatches)).rejects.toThrow('the node that answers does not have block 20');
  });

  test('a node that refuses a range beyond its last block is asked again, without smaller ranges', async () => {
    if (!withBatches) return;
    const beyond = new RpcFailure('refused', 'block range extends beyond current head block', -32602, 200);
    const answers = { eth_getLogs: inTurn(beyond, [log(15)]), eth_getBlockByNumber: inTurn(null, block(20)) };
    expect(await logsOf(answers, withBatches)).toHaveLength(1);
  });

  test('a log of another last block than that of the node is not taken', async () => {
    const eth_getLogs = inTurn([log(20, { blockHash: word('f') })], [log(20)]);
    expect(await logsOf({ eth_getLogs }, withBatches)).toEqual([expect.objectContaining({ blockHash: hashOf(20) })]);
  });

  test('a refusal of several blocks asks for fewer; of one block, for its receipts', async () => {
    const eth_getLogs = new RpcFailure('refused', 'query returned more than 10000 results', -32005, 200);
    await expect(logsOf({ eth_getLogs }, withBatches)).rejects.toThrow(RefusedRange);
    const eth_getBlockReceipts = inTurn(null, [{ logs: [log(20)] }, { logs: [] }]);
    const { reader: one } = reader({ eth_getLogs, eth_getBlockReceipts }, withBatches);
    expect(await one.range(20, 20).logs([POOL], [[TOPIC]])).toHaveLength(1);
  });

  test.each([
    ['a rate limit', new RpcFailure('refused', 'Too many requests', -32005, 200)],
    ['a wrong key', new RpcFailure('failed', 'HTTP status 401', undefined, 401)],
    ['no connection', new RpcFailure('failed', 'no answer: ECONNREFUSED')],
  ])('%s is passed on, and not answered by smaller ranges', async (_what, failure) => {
    await expect(logsOf({ eth_getLogs: failure }, withBatches)).rejects.toBe(failure);
  });
});

test('without batches, a range without the logs of its last block is read again', async () => {
  const eth_getLogs = (params: readonly unknown[]) =>
    'blockHash' in (params[0] as object) ? [log(20)] : whole(params);
  const whole = inTurn([log(15)], [log(15), log(20)]);
  expect(await logsOf({ eth_getLogs }, false)).toHaveLength(2);
});

test('without batches, a range of which a second reading has more is read again', async () => {
  const eth_getLogs = (params: readonly unknown[]) => ('blockHash' in (params[0] as object) ? [] : whole(params));
  const whole = inTurn([], [log(15)]);
  expect(await logsOf({ eth_getLogs }, false)).toHaveLength(1);
});

test('an endpoint that answers no batches is asked for one only once', async () => {
  const { reader: one, asked } = reader({ eth_getLogs: [] }, false);
  await one.range(10, 20).logs([POOL], [[TOPIC]]);
  expect(one.answersBatches).toBe(false);
  expect(asked).toEqual(['eth_getBlockByNumber', 'eth_getLogs', 'eth_getLogs', 'eth_getLogs']);
});

test('the hash of a block is asked for until the node that answers has it', async () => {
  const { reader: one } = reader({ eth_getBlockByNumber: inTurn(null, null, block(20)) });
  expect(await one.range(20, 20).lastHash()).toBe(hashOf(20));
});

test.each([0, '', null, '0x0', '0x', undefined, 'soon'])(
  'a time of %j in a log is not known: the block is asked',
  async (blockTimestamp) => {
    const { reader: one } = reader({ eth_getBlockByHash: block(15) });
    const times = await one.timesOf([{ ...log(15), blockTimestamp } as never]);
    expect(times.get(hashOf(15))).toBe(0x65000000 * 1_000);
  },
);

test.each([
  ['is not there', null, 'is not there any more'],
  ['has no time', { ...block(15), timestamp: '0x0' }, 'the node gives no time for block'],
])('a block that %s gives no time', async (_what, answer, message) => {
  const { reader: one } = reader({ eth_getBlockByHash: answer });
  await expect(one.timesOf([{ ...log(15), blockTimestamp: 0 } as never])).rejects.toThrow(message);
});

test.each([
  ['refuses', new RpcFailure('refused', 'unknown block tag', -32602, 200), /know the block tag "finalized": unknown/],
  ['does not have', null, 'the node has no block with the tag "finalized"'],
  ['answers otherwise', { number: 5 }, 'instead of block "finalized"'],
])('a node that %s the tag "finalized" is an error that names it', async (_what, answer, message) => {
  await expect(reader({ eth_getBlockByNumber: answer }).reader.finalBlock()).rejects.toThrow(message);
});

test('a block with another number than asked for is an error', async () => {
  await expect(reader({ eth_getBlockByNumber: block(7) }).reader.hashOf(8)).rejects.toThrow('instead of block 8');
});
