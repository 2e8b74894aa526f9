import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { runCommand } from '../servers/launch.js';
import { Receiver } from '../webhooks/receiver.js';
import { Progress, SEED, limit, randomFrom, repeated } from './faults.js';

/**
 * Rounds of a server that is written to while it delivers webhooks, until kill -9 hits it. Then every event in the log,
 * also one whose answer never arrived, has been delivered at least once, and in order for each identity.
 */

const ROUNDS = repeated(3, 5);
const IDENTITIES = Array.from({ length: 8 }, (_, n) => `tris:told-${n}`);

const random = randomFrom(SEED);

let data: string;
const receiver = new Receiver();
beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'credence-told-'));
  await receiver.start();
});
afterAll(async () => {
  await receiver.stop();
  await rm(data, { recursive: true, force: true });
});

/** By identity: the levels of what was received, in the order of their first arrival. */
function told(): Map<string, number[]> {
  const seen = new Set<string>();
  const levels = new Map<string, number[]>();
  for (const { id, message } of receiver.received) {
    if (seen.has(id)) continue;
    seen.add(id);
    const { tris_id, level } = message.data;
    levels.set(tris_id, [...(levels.get(tris_id) ?? []), level]);
  }
  return levels;
}

/** By identity: the levels in the log. */
async function recorded(): Promise<Map<string, number[]>> {
  const levels = new Map<string, number[]>();
  const { stdout } = await runCommand(['export'], { CREDENCE_DATA: data });
  for (const line of stdout.split('\n')) {
    if (!line.includes('"BadStatusSet"')) continue;
    const { tris_id, level } = JSON.parse(line).data;
    levels.set(tris_id, [...(levels.get(tris_id) ?? []), level]);
  }
  return levels;
}

test(
  `${ROUNDS} rounds of kill -9 while webhooks are delivered`,
  async () => {
    const progress = new Progress('kill -9 of deliveries', ROUNDS);
    // A receiver that takes its time, so that there is always something under way.
    receiver.answer = (_, response) => void setTimeout(() => response.writeHead(204).end(), random() * 10);
    const start = () => Server.start({ data, env: { CREDENCE_WEBHOOK_LOOPBACK: 'on' } });
    let server = await start();
    const body = { url: receiver.url, events: ['bad_status.changed'] };
    expect((await server.request('POST', '/v1/webhooks', { body })).status).toBe(201);
    let acknowledged = 0;
    /** By identity: the last level stated. Another one every time, also after a kill: the same again records nothing. */
    const stated = new Map<string, number>();
    const write = async (tris_id: string) => {
      for (;;) {
        const level = ((stated.get(tris_id) ?? 0) % 6) + 1;
        stated.set(tris_id, level);
        const statement = { level, reason_code: 'fraud' };
        const answer = await server.post(`/v1/identities/${tris_id}/bad-status`, statement).catch(() => undefined);
        if (!answer) return; // It was killed.
        expect(answer.status).toBe(200);
        acknowledged++;
      }
    };
    for (let round = 0; round < ROUNDS; round++) {
      const before = receiver.received.length;
      const writers = IDENTITIES.map(write);
      const enough = before + 20 + Math.floor(random() * 100);
      await eventually(() => receiver.received.length > enough, 'the number of messages');
      await server.kill();
      await Promise.all(writers);
      server = await start();
      progress.step();
    }
    await server.stop();
    const wanted = await recorded();
    const count = [...wanted.values()].flat().length;
    expect(count).toBeGreaterThanOrEqual(acknowledged);
    server = await start();
    await eventually(() => new Set(receiver.received.map(({ id }) => id)).size >= count, 'the last message');
    expect(new Map([...told()].sort())).toEqual(new Map([...wanted].sort()));
    // At least once is not often: what had been delivered is hardly sent again.
    expect(receiver.received.length - count).toBeLessThanOrEqual(ROUNDS * IDENTITIES.length * 2);
    await server.stop();
    progress.end(`${acknowledged} acknowledged, ${count} in the log, ${receiver.received.length} received`);
  },
  limit(600_000),
);
