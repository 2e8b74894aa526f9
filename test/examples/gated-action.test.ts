import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { longTest } from '../faults/faults.js';

const run = (...args: string[]) => promisify(execFile)(process.execPath, ['examples/gated-action.mjs', ...args]);

/** The example checks its own answers and ends with 1 if one is off; here it must end well, and have shown them. */
test('a gated action: sign-in, claim, denial, linked history and proof, a grant, and its voucher on the chain', async () => {
  const { stdout, stderr } = await run();
  expect(stderr).toBe('');
  for (const shown of [
    / wants you to sign in with your Ethereum account:\n[^]*Request ID: credence:sign_in\n/,
    /→ 200 \{"wallet":"0x\w{40}","tris_id":null,/,
    /make this wallet the identity tris:0x\w{40}, or tris:eip155:31337:0x\w{40} if it is a contract\.\n[^]*→ 200 \{"wallet":"0x\w{40}","tris_id":"tris:0x\w{40}"\}/,
    /→ 401 \{"code":"nonce_used",/,
    /"granted":false,"score":7,[^]*"fact":"net_tct","required":484,[^]*"fact":"verification\.zk-KYH"/,
    /→ 200 \{"status":"linked","wallet":"0x\w{40}"/,
    /\{"status":"completed","result":\{[^}]*"recorded":5,/,
    /→ 201 \{"tris_id":"tris:0x\w{40}","status":"zk-KYH","issuer":"tris:registry"/,
    /→ 422 \{"code":"public_signal_mismatch","detail":"the proof is not bound to tris:mallory/,
    /"score":10,"score_rating":"Poor","total_tct":500,"verification":\[\{"status":"zk-KYH"/,
    /"granted":true,[^]*→ 200 \{"active":true\}/,
    /"voucher":\{"domain":\{"name":"Credence","version":"1","chainId":31337,/,
    /→ refused: NotTheWallet\n[^]*\n→ mined in block \d+, \d+ gas\n[^]*\n→ refused: VoucherRedeemed\n/,
    /→ 200 \{"active":false,"reason":"eligibility_revoked"\}[^]*invalidate[^]*\n→ refused: VoucherInvalidated\n/,
    /→ 401 \{"code":"session_revoked",/,
    /\nEverything answered as it should\.\n$/,
  ]) {
    expect(stdout).toMatch(shown);
  }
}, 240_000);

longTest(
  'with too short a history the second check says no, and the example says so and ends with 1',
  async () => {
    const failed = await run('4').catch((error) => error);
    expect([failed.code, failed.stderr]).toEqual([1, '\n“granted” of the second check is false instead of true\n']);
    expect(failed.stdout).toMatch(/"total_tct":400,[^]*"granted":false,/);
  },
  240_000,
);
