import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** The example checks its own answers and ends with 1 if one is off; here it must end well, and have shown them. */
test('a change of policy on real ratings: previewed, replayed, promoted under load, rolled back; access denied and then granted', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['examples/policy-change.mjs']);
  for (const shown of [
    /2,003 lines: 2,003 recorded/,
    /rpl_\w+ completed: 90 identities/,
    /VP_STRICT_V1 → VP_LENIENT_V1: 90 identities/,
    /\d{3,} answers through the model’s own lens\n\d{3,} answers through VP_STRICT_V1\n0 answers that mix the two/,
    /under VP_STRICT_V1: \d+ events, the last:\n[^]*under VP_LENIENT_V1: \d+ events, the last:/,
    /granted until [^]*: denied\n[^]*: granted until /,
    /2 decisions about tris:otc:\d+: all agree/,
    /again, as before the promotion/,
    /disc-1 → disc-2: 90 identities[^]*the platform uses disc-2\n[^]*disc-1: does not serve\ndisc-2: serves\n/,
    /\nidentical\n$/,
  ]) {
    expect(stdout).toMatch(shown);
  }
}, 240_000);
