import { randomUUID } from 'node:crypto';
import { BUILD_JOB } from '../../src/read-side/shared-build.js';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { BullmqJobs } from '../../src/stores/redis/bullmq-jobs.js';
import { eventually } from '../contracts/harness.js';
import { expectVerified } from '../e2e/ledger.js';
import { Server } from '../e2e/server.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';

/** Workers share the rebuild of a log that is long enough, and one of them is killed. */

const LONG = 300_000;
/** With this limit of the heap, logs of 126,000 events or more are divided. */
const SMALL_HEAP = { NODE_OPTIONS: '--max-old-space-size=320' };
const EVENTS = 130_000;
const PER_APPEND = 40;
const AT_ONCE = 100;

describeOnOwnCluster('a rebuild with two workers', () => {
  let cluster: Cluster;
  let jobs: BullmqJobs;
  const servers: Server[] = [];

  beforeAll(async () => {
    cluster = await Cluster.start();
    const store = await EventStoreDbEventStore.open({ url: cluster.eventStored.url });
    jobs = await BullmqJobs.open(cluster.redis.url, { prefix: `{credence-jobs:${store.logId}}` });
    const now = new Date().toISOString();
    for (let n = 0; n < EVENTS; n += AT_ONCE * PER_APPEND) {
      await Promise.all(Array.from({ length: AT_ONCE }, (_, k) => append(store, n + k * PER_APPEND, now)));
    }
    await store.close();
    for (const role of ['worker', 'worker', 'api']) {
      servers.push(await Server.process({ ...cluster.env, ...SMALL_HEAP, CREDENCE_ROLES: role }, cluster.key));
    }
  }, LONG);
  afterAll(async () => {
    await jobs?.close();
    await Promise.all(servers.map((server) => server.stop()));
    await cluster?.stop();
  }, LONG);

  function append(store: EventStoreDbEventStore, first: number, now: string): Promise<unknown> {
    const times = { occurred_at: now, recorded_at: now };
    const origin = { correlation_id: 'test', actor: 'key:test', body_hash: '0'.repeat(64) };
    const action = {
      metric: 'financial_loan_repayment',
      criticality: 'High',
      platform_id: 'lender',
      evidence_hash: null,
    };
    const events = Array.from({ length: PER_APPEND }, (_, index) => ({
      id: randomUUID(),
      type: 'ActionRelayed',
      data: { tris_id: `tris:shared-${(first + index) % 5_000}`, ...action },
      metadata: { schema: 1, ...times, ...origin, index, size: PER_APPEND },
    }));
    return store.append(`action-${randomUUID()}`, 'no-stream', events);
  }

  async function rebuilt(meanwhile: (done: () => Promise<number>) => Promise<void>): Promise<void> {
    const api = servers.at(-1)!;
    const { status, json } = await api.post('/v1/ops/rebuild', { swap: true });
    expect(status).toBe(202);
    const look = async () => (await api.get(`/v1/jobs/${json.job_id}`)).json;
    await meanwhile(async () => (await look()).progress.done);
    // A job whose worker was killed waits for a time before another takes it.
    await eventually(async () => ['completed', 'failed'].includes((await look()).status), 'the rebuild ends');
    expect(await look()).toMatchObject({ status: 'completed', result: { swapped: true } });
  }

  test(
    'both work on it',
    async () => {
      const help = () => jobs.list({ kind: BUILD_JOB, status: 'running' });
      await rebuilt(() => eventually(async () => (await help()).length > 0, 'a worker helps'));
      await expectVerified(cluster.env);
    },
    LONG,
  );

  test(
    'it is completed by the other if one is killed',
    async () => {
      await rebuilt(async (done) => {
        await eventually(async () => (await done()) > EVENTS / 10, 'the rebuild is under way');
        await servers[0]!.kill();
      });
      await expectVerified(cluster.env);
    },
    LONG,
  );
});
