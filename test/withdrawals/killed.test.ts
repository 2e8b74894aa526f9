import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { credence } from '../faults/faults.js';

const ACTIONS = 3_000;
const IDENTITIES = 7;

test('a withdrawal of many actions that kill -9 interrupts goes on, and withdraws each action once', async () => {
  const data = await mkdtemp(join(tmpdir(), 'credence-withdrawals-'));
  try {
    const first = await Server.start({ data });
    for (let n = 0; n < ACTIONS; n += 1_000) {
      const actions = Array.from({ length: 1_000 }, (_, i) => ({
        tris_id: `tris:person-${(n + i) % IDENTITIES}`,
        action_type: 'loan',
        category: 'finance',
        criticality: 'critical',
        platform_id: 'lendco',
      }));
      expect((await first.request('POST', '/v1/decision-relay/batch', { body: { actions } })).status).toBe(200);
    }
    const start = async (server: Server, body: object) => {
      const { status, json } = await server.request('POST', '/v1/actions/withdrawals', { body });
      expect(status).toBe(202);
      return json.job_id as string;
    };
    const job = async (server: Server, id: string) => (await server.get(`/v1/jobs/${id}`)).json;
    const dryRun = await start(first, { platform_id: 'lendco', reason: 'mistake', dry_run: true });
    await eventually(async () => (await job(first, dryRun)).status === 'completed', 'the dry run has ended');
    expect((await job(first, dryRun)).result).toMatchObject({ actions: ACTIONS, identities: IDENTITIES });
    const applied = await start(first, { apply: dryRun });
    await eventually(async () => (await job(first, applied)).progress.done > 0, 'some actions are withdrawn');
    await first.kill();

    const second = await Server.start({ data });
    await eventually(async () => (await job(second, applied)).status === 'completed', 'all are withdrawn');
    expect((await job(second, applied)).result.actions).toBe(ACTIONS);
    expect(await start(second, { apply: dryRun })).toBe(applied);
    const { json } = await second.get('/v1/disc/score/tris:person-0');
    expect(json).toMatchObject({ total_tct: 0 });
    await second.stop();
    const { stdout } = await credence(data, 'export');
    const withdrawn = stdout.split('\n').filter((line) => line.includes('"type":"ActionWithdrawn"'));
    expect(withdrawn).toHaveLength(ACTIONS);
    expect(new Set(withdrawn.map((line) => JSON.parse(line).data.action_id)).size).toBe(ACTIONS);
    expect((await credence(data, 'verify')).code).toBe(0);
  } finally {
    await rm(data, { recursive: true, force: true });
  }
});
