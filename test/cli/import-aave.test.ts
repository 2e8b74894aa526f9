import { SLOW, Store } from './credence.js';

let store: Store;
beforeEach(async () => void (store = await Store.create()));
afterEach(() => store.remove());

const ALICE = '0x00000000001accfa9cef68cf5371a23025b6d4b6';
const BOB = '0x00000000000000000000000000000000000000bb';
let serial = 0;
const line = (action: string, more: object = {}) => {
  serial++;
  const txHash = `0x${String(serial).padStart(64, '0')}`;
  return JSON.stringify({
    userWallet: ALICE,
    network: 'polygon',
    protocol: 'aave_v2',
    txHash,
    logId: `${txHash}_${action}`,
    timestamp: 1_629_178_166 + serial,
    action,
    actionData: { type: action, amount: '2000000000', assetSymbol: 'USDC' },
    ...more,
  });
};

test(
  'a data set of Aave v2 becomes actions of each wallet’s own TRIS, once',
  async () => {
    const lines = [
      line('deposit'),
      line('borrow', { userWallet: ALICE.toUpperCase().replace('0X', '0x') }),
      line('repay'),
      line('redeemunderlying'),
      line('liquidationcall'),
      line('deposit', { userWallet: BOB }),
    ];
    const twice = (amount: string) =>
      line('deposit', { userWallet: BOB, logId: '0x01_Deposit', actionData: { amount, poolId: BOB } });
    lines.push(twice('1'), twice('2'));
    const file = store.file('aave.ndjson', lines);
    expect(await store.json('import', 'aave', file)).toMatchObject({ lines: 8, recorded: 8, wrong: 0, conflicts: 0 });
    expect(await store.json('import', 'aave', file)).toMatchObject({ lines: 8, recorded: 0, already_present: 8 });
    const { score, entries } = await store.json<{ score: object; entries: { metric: string; tct_delta: number }[] }>(
      'replay',
      `tris:${ALICE}`,
    );
    expect(entries.map(({ metric, tct_delta }) => [metric, tct_delta])).toEqual([
      ['financial_liquidity_provision', 30],
      ['financial_txn_consistency', 10],
      ['financial_loan_repayment_consistency', 100],
      // A day earns no more than 140 TCT.
      ['financial_txn_consistency', 0],
      ['financial_liquidation_flags', -1400],
    ]);
    expect(score).toMatchObject({ earned_tct: 140, forfeited_tct: 1400 });
  },
  SLOW,
);

test(
  'a wrong line is named, and nothing is recorded',
  async () => {
    const lines = [line('deposit'), line('flashloan', { network: 'moon' }), '{"userWallet":1}', '7'];
    const { code, stdout, stderr } = await store.run('import', 'aave', store.file('aave.ndjson', lines));
    expect([code, stdout]).toEqual([1, expect.stringContaining('3 of 4 lines are invalid; nothing was recorded.')]);
    expect(stderr).toMatch(/line 2 \/network: network must be one of mainnet, ethereum, polygon, avalanche/);
    expect(stderr).toMatch(
      /line 2 \/action: action must be one of deposit, redeemunderlying, borrow, repay, liquidationcall/,
    );
    expect(stderr).toMatch(/line 3 \/userWallet/);
    expect(stderr).toMatch(/line 4/);
  },
  SLOW,
);
