import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { credence } from '../faults/faults.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

const DISPUTES = 20;

test('kill -9 between answers and withdrawals loses none: each action of an upheld dispute is withdrawn once', async () => {
  const data = await mkdtemp(join(tmpdir(), 'credence-disputes-'));
  try {
    const first = await Server.start({ data });
    const at = { port: Number(new URL(first.url).port) };
    const person = await claim(at, newAccount());
    const ids = new Map<string, string>();
    for (let n = 0; n < DISPUTES; n++) {
      const relayed = await first.relay({ tris_id: person.tris_id });
      const { action_id } = relayed.json;
      const opened = await first.request('POST', '/v1/disputes', {
        body: { action_id },
        key: false,
        headers: bearer(person),
      });
      ids.set(opened.json.dispute_id, action_id);
    }
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
