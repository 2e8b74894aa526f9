/** Leaves ./data as a user does who has followed the README before the tests: served once, with an action in its log. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

const service = spawn('npm', ['start'], {
  env: { ...process.env, CREDENCE_PORT: '0' },
  stdio: ['ignore', 'pipe', 'inherit'],
  // npm passes no signal on: it and the service get the same one.
  detached: true,
});
// Of the service, too, which ends after npm: both hold the pipe.
const ended = once(service, 'close');
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    process.kill(-service.pid, signal);
    process.exit(1);
  });
}
const url = await new Promise((resolve, reject) => {
  let output = '';
  service.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
    const [, address] = /^Credence serves (\S+)\s/m.exec(output) ?? [];
    if (address) resolve(address);
  });
  service.stdout.once('end', () => reject(new Error(`the service did not start: ${output}`)));
});
const answer = await fetch(`${url}/api/decision-relay`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-api-key': readFileSync('data/dev-api-key', 'utf8') },
  body: JSON.stringify({
    tris_id: 'tris:alice',
    action_type: 'loan_repayment',
    category: 'financial',
    criticality: 'high',
    platform_id: 'lender',
  }),
});
if (answer.status !== 202) throw new Error(`the action was answered ${answer.status}: ${await answer.text()}`);
process.kill(-service.pid, 'SIGTERM');
await ended;
