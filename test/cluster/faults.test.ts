import { Redis } from 'ioredis';
import { eventually, recovery } from '../contracts/harness.js';
import { longTest, repeated } from '../faults/faults.js';
import { FaultyMachine, describeFaulty } from '../faults/faulty-machine.js';
import { Ledger, expectVerified } from '../e2e/ledger.js';
import { type Answer, Server, expectProblem } from '../e2e/server.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import { startEventStored } from '../servers/eventstored.js';
import { configuration } from '../policies/configuration.js';
import { Proxy } from '../servers/proxy.js';
import { Receiver } from '../webhooks/receiver.js';

/** Two API processes and two workers on real servers, and what breaks under them. */

const LONG = 240_000;

describeOnOwnCluster('a cluster', () => {
  let cluster: Cluster;
  /** Between the first API and EventStoreDB. */
  let network: Proxy;
  let apis: [Server, Server];
  /** Two of them, until one test kills both, one after the other. */
  let workers: Server[];

  const startApi = (n: number) => {
    const eventStore = n === 0 ? { EVENTSTORE_URL: `esdb://127.0.0.1:${network.port}?tls=false` } : {};
    const own = { CREDENCE_WEBHOOK_LOOPBACK: 'on', CREDENCE_ROLES: 'api' };
    return Server.process({ ...cluster.env, ...eventStore, ...own }, cluster.key);
  };
  const startWorker = () =>
    Server.process({ ...cluster.env, CREDENCE_WEBHOOK_LOOPBACK: 'on', CREDENCE_ROLES: 'worker' }, cluster.key);

  beforeAll(async () => {
    cluster = await Cluster.start({ onDisk: true });
    network = await Proxy.to(cluster.eventStored.port);
    workers = await Promise.all([startWorker(), startWorker()]);
    apis = await Promise.all([startApi(0), startApi(1)]);
  }, LONG);
  afterAll(async () => {
    await Promise.all([...(apis ?? []), ...(workers ?? [])].map((server) => server.stop()));
    await network?.close();
    await cluster?.stop();
  }, LONG);

  /** Every action is there once, whoever is asked. */
  async function expectSound(ledger: Ledger): Promise<void> {
    const last = await ledger.retryAll(apis[1]);
    await ledger.expectHistories(apis[0], last);
  }

  test(
    'an API that is killed in the middle of appends loses nothing acknowledged and doubles nothing',
    async () => {
      const ledger = new Ledger('api');
      const doomed = Array.from({ length: 16 }, () => ledger.write(apis[0]));
      const other = Array.from({ length: 8 }, () => ledger.persist(apis[1], () => undefined));
      await ledger.acknowledges(100);
      await apis[0].kill();
      await Promise.all(doomed);
      ledger.stop();
      await Promise.all(other);
      apis[0] = await startApi(0);
      await expectSound(ledger);
    },
    LONG,
  );

  test(
    'a worker that is killed in the middle of batches is followed by the other',
    async () => {
      const ledger = new Ledger('worker');
      const writers = apis.flatMap((api) => Array.from({ length: 8 }, () => ledger.persist(api, () => undefined)));
      for (const n of [0, 1]) {
        await ledger.acknowledges(100);
        await workers[n]!.kill();
        // The other applies what is written now, once it has the lease.
        const write = await apis[0].relay({ tris_id: `tris:after-${n}` });
        for (let tries = 0; ; tries++) {
          const { status } = await apis[1].getAfter(write, `/api/disc-score/tris:after-${n}`);
          if (status === 200) break;
          expect([status, tries < 20]).toEqual([503, true]);
        }
        if (n === 0) workers[0] = await startWorker();
      }
      workers.pop();
      ledger.stop();
      await Promise.all(writers);
      await expectSound(ledger);
    },
    LONG,
  );

  test(
    'a position at which the log has no event, as after it lost some, is refused as unknown',
    async () => {
      const write = await apis[0].relay({ tris_id: 'tris:positions' });
      const wire = String(write.headers['credence-position']);
      const lost = wire.replace(/\d+$/, (position) => String(Number(position) - 1));
      const path = '/v1/disc/score/tris:positions';
      expect((await apis[0].getAfter(write, path)).status).toBe(200);
      expect((await apis[0].get(`${path}?as_of_position=${wire}`)).status).toBe(200);
      expectProblem(await apis[0].get(`${path}?as_of_position=${lost}`), 400, 'position_unknown');
      const headers = { 'credence-min-position': lost };
      expectProblem(await apis[0].get(path, { headers }), 400, 'position_unknown');
    },
    LONG,
  );

  longTest(
    'EventStoreDB killed and started again under 64 relays: 503s meanwhile, nothing lost, nothing twice',
    async () => {
      const ledger = new Ledger('store');
      const refused: Answer[] = [];
      const writers = apis.flatMap((api) =>
        Array.from({ length: 32 }, () => ledger.persist(api, (answer) => void refused.push(answer))),
      );
      for (let kills = 0; kills < repeated(1, 1); kills++) {
        await ledger.acknowledges(200);
        const before = refused.length;
        await cluster.eventStored.kill();
        await eventually(() => refused.length > before, 'a refusal');
        await cluster.eventStored.start();
      }
      await ledger.acknowledges(200);
      ledger.stop();
      await Promise.all(writers);
      for (const answer of refused) expectUnavailable(answer);
      await expectSound(ledger);
    },
    LONG,
  );

  longTest(
    'a network that is cut between one API and EventStoreDB: it answers 503, the other serves, and it recovers',
    async () => {
      const ledger = new Ledger('network');
      await ledger.persistOnce(apis[0]);
      network.mode = 'stalled';
      const cut = await Promise.all(Array.from({ length: 64 }, () => ledger.try(apis[0])));
      for (const answer of cut) expectUnavailable(answer);
      expect((await apis[0].send('GET', '/health/ready')).status).toBe(503);
      expect((await apis[0].send('GET', '/health/live')).status).toBe(200);
      await ledger.persistOnce(apis[1]);
      network.mode = 'open';
      const opened = Date.now();
      await ledger.persistOnce(apis[0]);
      process.stderr.write(`recovered ${Date.now() - opened} ms after the network was back\n`);
      await expectSound(ledger);
    },
    LONG,
  );

  test(
    'a worker that is stopped while Redis is away ends by itself',
    async () => {
      const worker = await startWorker();
      await cluster.redis.kill();
      await eventually(() => worker.errors.join('').includes('is unavailable'), 'a line');
      expect(await worker.stop()).toBe(0);
      expect(worker.errors.join('')).not.toContain('not stopped within');
      await cluster.redis.run();
      const isReady = async () => (await apis[0].send('GET', '/health/ready')).status === 200;
      await eventually(isReady, 'ready again');
    },
    LONG,
  );

  test(
    'several processes that are stopped while Redis gives no answers end by themselves',
    async () => {
      const [api, ...others] = await Promise.all([startApi(1), startApi(1), startWorker()]);
      cluster.redis.pause();
      try {
        const reads = Array.from({ length: 8 }, () =>
          api.send('GET', '/api/disc-score/tris:x-0').catch(() => undefined),
        );
        const group = [api, ...others];
        expect(await Promise.all(group.map((server) => server.stop()))).toEqual([0, 0, 0]);
        for (const { errors } of group) expect(errors.join('')).not.toContain('not stopped within');
        await Promise.all(reads);
      } finally {
        cluster.redis.resume();
      }
      const isReady = async () => (await apis[0].send('GET', '/health/ready')).status === 200;
      await eventually(isReady, 'ready again');
    },
    LONG,
  );

  test(
    'Redis loses all that it holds, under load: no read, relay or webhook is lost by it, and every process says so once',
    async () => {
      const receiver = new Receiver();
      await receiver.start();
      const redis = new Redis(cluster.redis.url);
      try {
        const { json: hook } = await apis[0].post('/v1/webhooks', {
          url: receiver.url,
          events: ['bad_status.changed'],
        });
        const setBad = (level: number) =>
          apis[1].post('/v1/identities/tris:hooked/bad-status', { level, reason_code: 'fraud' });
        const levels = () => receiver.verified(hook.secret, 'bad_status.changed').map(({ level }) => level);
        await setBad(6);
        await eventually(() => levels().length === 1, 'the message before');
        const ledger = new Ledger('flushed');
        const refused: number[] = [];
        const writers = apis.flatMap((api) =>
          Array.from({ length: 8 }, () => ledger.persist(api, ({ status }) => void refused.push(status))),
        );
        await ledger.acknowledges(50);
        await redis.flushall();
        await ledger.acknowledges(50);
        ledger.stop();
        await Promise.all(writers);
        expect(refused).toEqual([]);
        await expectSound(ledger);
        await setBad(5);
        await eventually(() => levels().length === 2, 'the message after');
        expect(levels()).toEqual([6, 5]);
        const lost = (server: Server) => server.errors.join('').match(/Redis has lost what it held/g)?.length;
        await eventually(() => [...apis, ...workers].every((server) => lost(server) === 1), 'the line');
      } finally {
        redis.disconnect();
        await receiver.stop();
      }
    },
    LONG,
  );

  longTest(
    'a worker says once that a store is unavailable, with the reason, and once that it is back; its metrics show it',
    async () => {
      const worker = await startWorker();
      const said = (from: number) =>
        worker.errors
          .join('')
          .split('\n')
          .filter((line) => line !== '')
          .slice(from)
          .map((line) => (JSON.parse(line) as { msg: string }).msg);
      const metric = async (name: string) => {
        const { text } = await worker.send('GET', '/metrics');
        return Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\S+)$`, 'm').exec(text)![1]);
      };
      const outages = [
        ['redis', 'Redis', cluster.redis, () => cluster.redis.run()],
        ['eventstoredb', 'EventStoreDB', cluster.eventStored, () => cluster.eventStored.start()],
      ] as const;
      for (const [server, name, store, start] of outages) {
        const before = said(0).length;
        const connected = `credence_store_connected{server="${server}"}`;
        const reconnections = `credence_store_reconnections{server="${server}"}`;
        const times = await metric(reconnections);
        await store.kill();
        await eventually(() => said(before).length > 0, 'a line');
        expect(await metric(connected)).toBe(0);
        expect((await worker.send('GET', '/health/ready')).status).toBe(503);
        // Requests meanwhile add no line to the worker's log.
        for (const api of apis) await api.get('/api/disc-score/tris:nobody');
        await start();
        const isReady = async () => (await worker.send('GET', '/health/ready')).status === 200;
        await recovery(`${name} is back`, eventually(isReady, 'ready again'));
        // A server that has just started may stand still once more: each time has its two lines.
        await eventually(() => said(before).length % 2 === 0, 'a line that ends the outage');
        const host = '127\\.0\\.0\\.1:\\d+';
        const lines = [new RegExp(`^${name} at ${host} is unavailable: .`), new RegExp(`^${name} at ${host} is back$`)];
        said(before).forEach((line, n) => expect(line).toMatch(lines[n % 2]!));
        await eventually(async () => (await metric(connected)) === 1, 'connected');
        expect(await metric(reconnections)).toBeGreaterThan(times);
      }
      expect(await metric('credence_jobs_waiting{kind="vp_replay"}')).toBe(0);
      await worker.stop();
    },
    LONG,
  );

  describeFaulty('an API whose clock is two hours ahead', () => {
    longTest(
      'warns in its log, its metrics and its readiness; what it relays counts at once wherever it is read',
      async () => {
        const machine = new FaultyMachine('none');
        machine.set('clock_ms', 7_200_000);
        const ahead = await Server.process({ ...cluster.env, ...machine.env, CREDENCE_ROLES: 'api' }, cluster.key);
        const warning = /"the clock of this process is 7\d{3}\.\d s ahead of that of PostgreSQL: synchronize/;
        await eventually(() => warning.test(ahead.errors.join('')), 'the warning');
        const skew = /^credence_clock_skew_seconds (\S+)$/m;
        const skewOf = async (server: Server) => Number(skew.exec((await server.get('/metrics')).text)![1]);
        expect(await skewOf(ahead)).toBeGreaterThan(7_000);
        expect(Math.abs(await skewOf(apis[1]))).toBeLessThan(2);
        const ready = await ahead.get('/health/ready');
        expect([ready.status, ready.text]).toEqual([200, expect.stringContaining('"warning: 7')]);

        const tris_id = 'tris:ahead';
        const hour = new Date(Date.now() + 3_600_000).toISOString();
        const write = await ahead.relay({ tris_id });
        for (const api of [...apis, ahead]) {
          const score = await api.getAfter(write, `/v1/disc/score/${tris_id}`);
          expect(score.json).toMatchObject({ total_tct: 100 });
          expect(score.json.as_of > hour).toBe(true);
          const again = await api.get(`/v1/disc/score/${tris_id}?as_of=${score.json.as_of}`);
          expect(again.json).toEqual({ ...score.json, position: expect.any(String) });
          const { json: report } = await api.get(`/v1/disc/report/${tris_id}`);
          expect([report.score, report.period.to]).toEqual([score.json.score, score.json.as_of]);
          expect((await api.get(`/v1/disc/score/${tris_id}/explain`)).json.contributions).toHaveLength(1);
          expect((await api.get(`/v1/disc/score/${tris_id}/history`)).json.entries).toHaveLength(1);
        }
        await ahead.stop();
        machine.remove();
      },
      LONG,
    );
  });

  longTest(
    'a promotion that no worker applies in time is answered 202, and carried out when there is one again',
    async () => {
      const policy = {
        policy_id: 'VP_LATE_V1',
        tris_org: 'tris:lender',
        inputs: configuration([{ metric: 'financial_loan_repayment', criticality: 'High', weight: 0.1 }]),
        metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
      };
      expect((await apis[0].post('/v1/policies/vp', policy)).status).toBe(201);
      await Promise.all(workers.map((worker) => worker.stop()));
      const promoted = await apis[0].post('/v1/policies/vp/VP_LATE_V1/promote', { scope: 'platform' });
      expect(promoted.status).toBe(202);
      const at = `/v1/promotions/${promoted.json.job_id}`;
      expect((await apis[1].get(at)).json.status).toBe('switching');
      const behind = await apis[1].getAfter(promoted, '/api/disc-score/tris:after-0');
      expectProblem(behind, 503, 'projection_behind');

      workers = [await startWorker()];
      await eventually(async () => (await apis[1].get(at)).json.status === 'applied', 'applied');
      const seen = await apis[1].getAfter(promoted, '/v1/disc/score/tris:after-0');
      expect(seen.json.lens.policy_id).toBe('VP_LATE_V1');
      const back = await apis[1].post('/v1/policies/vp/VP_LATE_V1/rollback');
      expect((await apis[0].getAfter(back, '/v1/disc/score/tris:after-0')).json.lens.policy_id).toBeNull();
    },
    LONG,
  );

  longTest(
    'a process that is told of another log is refused, and nobody notices',
    async () => {
      const other = await startEventStored();
      try {
        for (const CREDENCE_ROLES of ['worker', 'api']) {
          const env = { ...cluster.env, EVENTSTORE_URL: other.url, CREDENCE_ROLES };
          await expect(Server.process(env, cluster.key)).rejects.toThrow(
            /ended with 1: credence: The read models that serve \(g\d+\) are of the log [^\n]+\n$/,
          );
        }
      } finally {
        await other.stop();
      }
      const write = await apis[0].relay({ tris_id: 'tris:unnoticed' });
      for (const api of apis) {
        const { status, json } = await api.getAfter(write, '/api/disc-score/tris:unnoticed');
        expect([status, json.total_tct]).toEqual([200, 100]);
      }
    },
    LONG,
  );

  test('after all of these tests the read models equal a fresh fold', () => expectVerified(cluster.env), LONG);
});

function expectUnavailable(answer: Answer): void {
  expectProblem(answer, 503, 'store_unavailable');
  expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
}
