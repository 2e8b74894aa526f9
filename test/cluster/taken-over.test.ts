import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { Progress, SEED, limit, randomFrom, repeated } from '../faults/faults.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import { Receiver } from '../webhooks/receiver.js';

/**
 * Two workers, of which one is killed or suspended again and again while webhooks are delivered. A suspended one has
 * lost its jobs when it goes on, and does not know it yet.
 */

const ROUNDS = repeated(1, 4);
const IDENTITIES = Array.from({ length: 8 }, (_, n) => `tris:told-${n}`);
/** Longer than a worker keeps a job without a sign of life. */
const SUSPENDED_MS = 10_000;

const random = randomFrom(SEED);

describeOnOwnCluster('workers that lose their jobs', () => {
  let cluster: Cluster;
  let api: Server;
  let workers: Server[];
  const receiver = new Receiver();
  const startWorker = () =>
    Server.process({ ...cluster.env, CREDENCE_WEBHOOK_LOOPBACK: 'on', CREDENCE_ROLES: 'worker' }, cluster.key);

  beforeAll(async () => {
    await receiver.start();
    cluster = await Cluster.start();
    workers = await Promise.all([startWorker(), startWorker()]);
    api = await Server.process({ ...cluster.env, CREDENCE_WEBHOOK_LOOPBACK: 'on', CREDENCE_ROLES: 'api' }, cluster.key);
  }, 240_000);
  afterAll(async () => {
    for (const { child } of workers ?? []) child.kill('SIGCONT');
    await Promise.all([api, ...(workers ?? [])].map((server) => server?.stop()));
    await cluster?.stop();
    await receiver.stop();
  }, 240_000);

  test(
    `deliver everything, in order for each identity, and end with what came of it; seed ${SEED}`,
    async () => {
      const progress = new Progress('kills and pauses of workers', ROUNDS);
      const refused = new Set<string>();
      // A receiver that takes its time, so that there is always something under way, and refuses some messages once.
      receiver.answer = ({ id }, response) => {
        const isRefused = !refused.has(id) && random() < 0.02;
        if (isRefused) refused.add(id);
        setTimeout(() => response.writeHead(isRefused ? 500 : 204).end(), random() * 200);
      };
      const created = await api.post('/v1/webhooks', { url: receiver.url, events: ['bad_status.changed'] });
      expect(created.status).toBe(201);
      const at = `/v1/webhooks/${created.json.webhook_id}`;
      const wanted = new Map(IDENTITIES.map((tris): [string, number[]] => [tris, []]));
      let isOver = false;
      const writers = IDENTITIES.map(async (tris) => {
        for (let level = 1; !isOver; level = (level % 6) + 1) {
          const answer = await api.post(`/v1/identities/${tris}/bad-status`, { level, reason_code: 'fraud' });
          expect(answer.status).toBe(200);
          wanted.get(tris)!.push(level);
          await sleep(random() * 1_000);
        }
      });
      for (let round = 0; round < ROUNDS; round++) {
        const n = Math.floor(random() * 2);
        await sleep(random() * 3_000);
        if (random() < 0.3) {
          await workers[n]!.kill();
          workers[n] = await startWorker();
        } else {
          workers[n]!.child.kill('SIGSTOP');
          await sleep(SUSPENDED_MS);
          workers[n]!.child.kill('SIGCONT');
        }
        progress.step();
      }
      isOver = true;
      await Promise.all(writers);
      const count = [...wanted.values()].flat().length;
      await eventually(async () => {
        const { json } = await api.get(at);
        return json.pending === 0 && new Set(receiver.received.map(({ id }) => id)).size >= count;
      }, 'the last message');
      expect(told(receiver)).toEqual(wanted);
      expect((await api.get(at)).json).toMatchObject({ status: 'active' });
      const deliveries: { status: string }[] = [];
      for (let cursor: string | null = ''; cursor !== null;) {
        const { json } = await api.get(`${at}/deliveries?limit=100${cursor && `&cursor=${cursor}`}`);
        deliveries.push(...json.deliveries);
        cursor = json.next_cursor;
      }
      expect(deliveries.filter(({ status }) => status !== 'delivered')).toEqual([]);
      expect(deliveries).toHaveLength(count);
      progress.end(`${count} messages, ${receiver.received.length} received`);
    },
    limit(600_000),
  );
});

/** By identity: the levels of what was received, in the order of their first arrival. */
function told({ received }: Receiver): Map<string, number[]> {
  const seen = new Set<string>();
  const levels = new Map(IDENTITIES.map((tris): [string, number[]] => [tris, []]));
  for (const { id, message } of received) {
    if (!seen.has(id)) levels.get(message.data.tris_id)!.push(message.data.level);
    seen.add(id);
  }
  return levels;
}
