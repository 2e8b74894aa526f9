import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { ACTION, Server } from '../e2e/server.js';
import { blocks, read, section } from './markdown.js';

/** docs/runbook.md: its commands do what stands beside them. */

test('the commands for a leaked API key revoke it, and take back what its thief recorded', async () => {
  const data = mkdtempSync(join(tmpdir(), 'credence-runbook-'));
  const keys = join(data, 'keys.json');
  const command = `credence() { CREDENCE_API_KEYS=${keys} node dist/src/cli.js --data ${data} "$@"; }`;
  const shell = (script: string, prefix = '') =>
    execFileSync('bash', ['-euc', `${command}\n${prefix}\n${script}`], { encoding: 'utf8' });
  const create = (id: string, scopes: string) =>
    /\S{40,}/.exec(shell(`credence keys create --id ${id} --scopes ${scopes}`))![0];
  const operator = create('operator', 'ops,relay:write,reads');
  const leaked = create('lendco-relay', 'relay:write');
  const server = await Server.start({ data, env: { CREDENCE_API_KEYS: keys } });
  try {
    const relay = (key: string) => server.send('POST', '/api/decision-relay', { key, body: ACTION });
    for (const key of [operator, leaked, leaked]) expect((await relay(key)).status).toBe(202);
    const [revoke, dryRun, apply] = blocks(section(read('docs/runbook.md'), 'A key has leaked')).map(({ text }) =>
      text.replaceAll('http://127.0.0.1:3000', server.url).replace('2026-03-01', '2000-01-01'),
    ) as [string, string, string];

    shell(revoke);
    await eventually(
      async () => (await server.send('GET', '/v1/me', { key: leaked })).status === 401,
      'the leaked key is refused',
    );
    const define = `key=${operator}\n${dryRun.split('\n')[0]}`;
    const { job_id } = JSON.parse(shell(dryRun, define)) as { job_id: string };
    const jobOf = async (id: string) => (await server.send('GET', `/v1/jobs/${id}`, { key: operator })).json;
    await eventually(async () => (await jobOf(job_id)).status === 'completed', 'the dry run');
    expect((await jobOf(job_id)).result).toMatchObject({
      actions: 2,
      key_digest: expect.stringMatching(/^[0-9a-f]{16}$/),
    });
    const applied = JSON.parse(shell(apply.replace('<job_id>', job_id), define)) as { job_id: string };
    await eventually(async () => (await jobOf(applied.job_id)).status === 'completed', 'the withdrawal');
    const explained = async () =>
      (await server.send('GET', `/v1/disc/score/${ACTION.tris_id}/explain`, { key: operator })).json;
    await eventually(async () => (await explained()).withdrawn === 2, 'what is explained');
  } finally {
    await server.end();
  }
});
