import fc from 'fast-check';
import { RpcFailure } from '../../src/features/accounts/json-rpc.js';
import { type RefusalKind, refusalKind } from '../../src/features/ingestion/refusals.js';

/**
 * What nodes and providers answer to `eth_getLogs`, and where each answer was published. Those of PONDER are the words
 * that this helper looks for, without the codes.
 */
interface Known {
  from: string;
  message: string;
  code?: number;
  /** HTTP status; default 200. */
  status?: number;
}

const PONDER = 'https://github.com/ponder-sh/ponder/blob/main/packages/utils/src/getLogsRetryHelper.ts';
const MUD = 'https://github.com/latticexyz/mud/issues/1522';
const CONFURA = 'https://github.com/Conflux-Chain/conflux-documentation/issues/335';
const ETHERS = 'https://github.com/ethers-io/ethers.js/issues/4703';

const RANGE: Known[] = [
  {
    from: ETHERS,
    code: -32005,
    message: 'query returned more than 10000 results. Try with this block range [0xBDE5F8, 0x102DBCC].',
  },
  {
    from: ETHERS,
    code: -32602,
    message:
      'Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size, or you can request any block range with a cap of 10K logs in the response. Based on your parameters and the response size limit, this block range should work: [0x0, 0xd043b8]',
  },
  {
    from: 'https://github.com/INFURA/infura/issues/237',
    code: -32602,
    message: 'range 1000000 exceeds limit of 10000',
  },
  {
    from: 'https://github.com/OffchainLabs/arbitrum-sdk/issues/609',
    code: -32614,
    status: 413,
    message: 'eth_getLogs is limited to a 10,000 range',
  },
  {
    from: 'https://github.com/DefiLlama/dimension-adapters/pull/280',
    code: -32005,
    message: 'limit exceeded',
  },
  {
    from: 'https://github.com/AlphaWallet/alpha-wallet-ios/issues/5277',
    code: -32600,
    message: 'block range too high',
  },
  {
    from: 'https://github.com/moonbeam-foundation/moonbeam/pull/3250',
    code: -32000,
    message: 'block range is too wide (maximum 1024)',
  },
  {
    from: 'https://github.com/energywebfoundation/origin/issues/2378',
    code: -32000,
    message: 'Query requested more than 10.000 blocks',
  },
  {
    from: 'https://github.com/filecoin-project/ref-fvm/issues/1206',
    code: 1,
    message: 'invalid epoch range',
  },
  {
    from: 'https://github.com/Conflux-Chain/conflux-rust/pull/1768',
    code: -32602,
    message: 'epoch gap is larger than 1000',
  },
  {
    from: CONFURA,
    code: -32000,
    message:
      'result set to be queried is too large with more than 10000 logs, please narrow down your filter condition',
  },
  {
    from: CONFURA,
    code: -32000,
    message: 'query set is too large, please narrow down your filter condition',
  },
  { from: CONFURA, code: -32000, message: 'query timeout with duration exceeds 3s' },
  { from: PONDER, message: 'requested too many blocks from 1 to 9000, maximum is set to 2048' },
  { from: PONDER, message: 'Invalid eth_getLogs request. Max range: 800' },
  { from: PONDER, message: 'Maximum allowed number of requested blocks is 1000' },
  { from: PONDER, code: -32600, message: 'block range is too wide' },
  { from: PONDER, message: 'eth_getLogs is limited to 1024 block range' },
  { from: PONDER, message: 'response size should not greater than 10000000 bytes' },
  { from: PONDER, message: 'query returned more than 10000 results' },
  { from: PONDER, message: 'query exceeds max results 20000, retry with the range 1-2' },
  { from: PONDER, status: 500, message: 'backend response too large' },
  { from: PONDER, message: 'Block range is too large' },
  { from: PONDER, status: 503, message: 'no backend is currently healthy to serve traffic' },
  { from: PONDER, message: 'logs matched by query exceeds limit of 10000' },
  { from: PONDER, message: 'exceeds the range allowed for your plan (10001 > 3000)' },
  { from: PONDER, message: 'Block range limit exceeded.' },
  { from: PONDER, message: 'please limit the query to at most 1,000 blocks' },
  { from: PONDER, message: 'exceed maximum block range: 50000' },
  { from: PONDER, message: 'query exceeds max block range 1000' },
  { from: PONDER, message: 'block range greater than 2000 max' },
  { from: PONDER, message: 'block range exceeds 1000' },
  { from: PONDER, message: 'eth_getLogs range is too large, max is 10k blocks' },
  { from: PONDER, message: 'query must be smaller than size 1024' },
  { from: PONDER, message: 'You can make eth_getLogs requests with up to a 10 block range.' },
  { from: PONDER, message: 'maximum [from, to] blocks distance: 10000' },
  { from: 'https://github.com/circlefin/arc-node/issues/83', code: -32000, message: 'request timed out' },
];

const RATE: Known[] = [
  {
    from: MUD,
    code: 429,
    message:
      'Your app has exceeded its compute units per second capacity. If you have retries enabled, you can safely ignore this message.',
  },
  { from: MUD, code: -32012, message: 'credits limited to 6000/sec' },
  {
    from: 'https://github.com/CirclesUBI/circles-myxogastria/issues/54',
    code: -32005,
    message: 'daily request count exceeded, request rate limited',
  },
  {
    from: 'https://github.com/xmtp/xmtpd/issues/672',
    code: -32600,
    status: 403,
    message:
      'Monthly capacity limit exceeded. Visit https://dashboard.alchemyapi.io/settings/billing to upgrade your scaling policy for continued service.',
  },
  {
    from: 'https://github.com/a16z/zkdocs/issues/9',
    code: -32000,
    message:
      'Monthly capacity limit exceeded. Visit https://dashboard.alchemyapi.io/settings/billing to upgrade your scaling policy for continued service.',
  },
  { from: 'RFC 6585, section 4', status: 429, message: 'HTTP status 429' },
];

const FINAL: Known[] = [
  {
    from: 'JSON-RPC 2.0, section 5.1',
    code: -32601,
    message: 'the method eth_getLogs does not exist/is not available',
  },
  { from: 'RFC 9110, section 15.5.2', status: 401, code: -32000, message: 'invalid project id' },
  { from: 'RFC 9110, section 15.5.4', status: 403, code: -32000, message: 'origin is not allowed' },
];

const failureOf = ({ message, code, status = 200 }: Known) => new RpcFailure('refused', message, code, status);
const ALL: [RefusalKind, Known][] = [
  ...RANGE.map((known): [RefusalKind, Known] => ['range', known]),
  ...RATE.map((known): [RefusalKind, Known] => ['rate', known]),
  ...FINAL.map((known): [RefusalKind, Known] => ['final', known]),
];

test.each(ALL.map(([kind, known]) => [kind, known.message, known] as const))('%s: %s', (kind, _message, known) => {
  expect(refusalKind(failureOf(known))).toBe(kind);
});

test('the kind of a message depends neither on its case, nor on its numbers, nor on the words around it', () => {
  const around = fc.constantFrom('', 'Error: ', 'Fehler: ', '错误：', 'エラー ', 'ошибка: ', 'server error: ');
  const property = fc.property(
    fc.constantFrom(...ALL),
    around,
    around,
    fc.constantFrom(
      (text: string) => text,
      (text: string) => text.toUpperCase(),
      (text: string) => text.toLowerCase(),
    ),
    fc.integer({ min: 2, max: 999_999 }),
    ([kind, known], before, after, write, number) => {
      const message = before + write(known.message.replace(/\d+/g, String(number))) + after;
      // A method or a key that is not there is told by its code or status, not by its words.
      expect(refusalKind(failureOf({ ...known, message }))).toBe(kind);
    },
  );
  fc.assert(property, { numRuns: 2_000 });
});

test.each<[RefusalKind, string, RpcFailure]>([
  ['range', 'that took too long', new RpcFailure('timeout', 'no answer within 5000 ms')],
  ['range', 'that was too large', new RpcFailure('size', 'the answer is larger than 16777216 bytes')],
  ['range', 'of a gateway that gave up (503)', new RpcFailure('failed', 'HTTP status 503', undefined, 503)],
  ['range', 'of a gateway that gave up (504)', new RpcFailure('failed', 'HTTP status 504', undefined, 504)],
  ['range', 'of a gateway that gave up (524)', new RpcFailure('failed', 'HTTP status 524', undefined, 524)],
  ['range', 'that is too large for a proxy', new RpcFailure('failed', 'HTTP status 413', undefined, 413)],
  ['rate', 'too many at once', new RpcFailure('failed', 'HTTP status 429', undefined, 429)],
  ['final', 'without a key', new RpcFailure('failed', 'HTTP status 401', undefined, 401)],
  ['final', 'with a wrong key', new RpcFailure('failed', 'HTTP status 403', undefined, 403)],
  ['final', 'to a path that is not there', new RpcFailure('failed', 'HTTP status 404', undefined, 404)],
  ['final', 'to a port where nobody listens', new RpcFailure('failed', 'no answer: ECONNREFUSED')],
  ['final', 'to a name that does not exist', new RpcFailure('failed', 'no answer: ENOTFOUND')],
])('%s: an answer or none, %s', (kind, _what, failure) => {
  expect(refusalKind(failure)).toBe(kind);
});
