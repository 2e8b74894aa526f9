import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { credence } from '../faults/faults.js';
import { FaultyMachine, describeFaulty } from '../faults/faulty-machine.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

const DISPUTES = 20;
const DAY_MS = 86_400_000;

/** A person disputes so many actions; the ids of the actions by those of the disputes. */
async function open(server: Server): Promise<Map<string, string>> {
  const person = await claim({ port: Number(new URL(server.url).port) }, newAccount());
  const ids = new Map<string, string>();
  for (let n = 0; n < DISPUTES; n++) {
    const { action_id } = (await server.relay({ tris_id: person.tris_id })).json;
    const headers = bearer(person);
    const opened = await server.request('POST', '/v1/disputes', { body: { action_id }, key: false, headers });
    ids.set(opened.json.dispute_id, action_id);
  }
  return ids;
}

test('kill -9 between answers and withdrawals loses none: each action of an upheld dispute is withdrawn once', async () => {
  const data = await mkdtemp(join(tmpdir(), 'credence-disputes-'));
  try {
    const first = await Server.start({ data });
    const ids = await open(first);
    const upheld = new Set<string>();
    const answers = [...ids].map(async ([id, action_id]) => {
      const answered = await first
        .request('POST', `/v1/disputes/${id}/answer`, { body: { outcome: 'upheld' } })
        .catch(() => undefined);
      if (answered?.status === 200) upheld.add(action_id);
    });
    await eventually(() => upheld.size > 0, 'one is answered');
    await first.kill();
    await Promise.all(answers);

    const second = await Server.start({ data });
    const changes = async (id: string) => (await second.get(`/v1/actions/${id}`)).json.changes as object[];
    for (const id of upheld) await eventually(async () => (await changes(id)).length > 0, 'the action is withdrawn');
    const { json } = await second.get('/v1/disputes?open=false&limit=100');
    const answered = json.disputes.filter(({ open }: { open: boolean }) => !open);
    expect(answered.length).toBeGreaterThanOrEqual(upheld.size);
    for (const { action_id } of answered) {
      await eventually(async () => (await changes(action_id)).length > 0, 'the action is withdrawn');
      expect(await changes(action_id)).toMatchObject([{ reason: 'disputed', by: 'job:dispute_withdrawal' }]);
    }
    await second.stop();
    expect((await credence(data, 'verify')).code).toBe(0);
  } finally {
    await rm(data, { recursive: true, force: true });
  }
});

describeFaulty('a lapse', () => {
  test('kill -9 between lapses and withdrawals loses none: each action is withdrawn once', async () => {
    const data = await mkdtemp(join(tmpdir(), 'credence-lapses-'));
    const machine = new FaultyMachine('none');
    const env = { ...machine.env, CREDENCE_DISPUTE_DAYS: '1' };
    try {
      machine.set('clock_ms', -2 * DAY_MS);
      const first = await Server.start({ data, env });
      const ids = await open(first);
      expect(await first.stop()).toBe(0);
      machine.set('clock_ms', 0);
      const second = await Server.start({ data, env });
      const disputes = async (server: Server) => (await server.get('/v1/disputes?limit=100')).json.disputes as any[];
      const lapsed = async () => (await disputes(second)).some(({ status }) => status === 'lapsed');
      await eventually(lapsed, 'one has lapsed');
      await second.kill();

      const third = await Server.start({ data, env });
      const changes = async (id: string) => (await third.get(`/v1/actions/${id}`)).json.changes as object[];
      for (const id of ids.values()) {
        await eventually(async () => (await changes(id)).length > 0, 'the action is withdrawn');
        expect(await changes(id)).toMatchObject([{ reason: 'disputed', by: 'job:dispute_withdrawal' }]);
      }
      expect((await disputes(third)).map(({ status }) => status)).toEqual(Array(DISPUTES).fill('lapsed'));
      await third.stop();
      expect((await credence(data, 'verify')).code).toBe(0);
    } finally {
      await rm(data, { recursive: true, force: true });
      machine.remove();
    }
  }, 240_000);
});
