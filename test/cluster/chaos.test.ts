import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import pg from 'pg';
import { eventually } from '../contracts/harness.js';
import { Ledger, expectVerified } from '../e2e/ledger.js';
import { Server } from '../e2e/server.js';
import { SEED, limit, randomFrom, repeated } from '../faults/faults.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import type { PostgresServer } from '../servers/postgres.js';
import { Proxy } from '../servers/proxy.js';
import { Receiver } from '../webhooks/receiver.js';

/**
 * Two API processes and two workers under 100 relays a second, reads, checks and webhooks, while one store or worker after
 * the other fails: nothing is lost, doubled, wrong or back in time. For half an hour:
 * `FAULTS_TIMES=40 npm run test:faults -- test/cluster/chaos`.
 */

const MS = repeated(20_000, 45_000);
const WRITERS = 20;
const PACE_MS = 200;
const POLICY = 'AP_CHAOS_V1';
const HOOKED = 'tris:hooked';

const random = randomFrom(SEED);

describeOnOwnCluster('a cluster in which everything fails in turn', () => {
  let cluster: Cluster;
  /** Between all processes and PostgreSQL. */
  let network: Proxy;
  /** The one behind the network; those before it. */
  let postgres: PostgresServer;
  const replaced: PostgresServer[] = [];
  let apis: Server[];
  let workers: Server[];
  const receiver = new Receiver();

  const env = () => ({
    ...cluster.env,
    CREDENCE_DATABASE_URL: cluster.postgres.url.replace(`:${cluster.postgres.port}/`, `:${network.port}/`),
    CREDENCE_WEBHOOK_LOOPBACK: 'on',
  });
  const start = (CREDENCE_ROLES: string) => Server.process({ ...env(), CREDENCE_ROLES }, cluster.key);

  beforeAll(async () => {
    await receiver.start();
    cluster = await Cluster.start({ onDisk: true });
    postgres = cluster.postgres;
    network = await Proxy.to(postgres.port);
    workers = [await start('worker'), await start('worker')];
    apis = await Promise.all([start('api'), start('api')]);
  }, 240_000);
  afterAll(async () => {
    for (const { child } of workers ?? []) child.kill('SIGCONT');
    await Promise.all([...(apis ?? []), ...(workers ?? [])].map((server) => server.stop()));
    await network?.close();
    await Promise.all([...replaced, postgres].filter((each) => each !== cluster.postgres).map((each) => each.stop()));
    await cluster?.stop();
    await receiver.stop();
  }, 240_000);

  const moment = (least = 500, most = 3_000) => sleep(least + random() * (most - least));
  const asAdmin = (database = 'credence') => `postgres://postgres@127.0.0.1:${postgres.port}/${database}`;

  /** What fails, and is as before when the promise is settled. */
  const faults: Record<string, () => Promise<unknown>> = {
    'PostgreSQL killed': async () => {
      await postgres.kill();
      await moment();
      await postgres.run();
    },
    'PostgreSQL restarted': () => postgres.restart(),
    'a process of PostgreSQL killed': () => postgres.killBackend().catch(() => undefined),
    'PostgreSQL stopped': async () => {
      postgres.pause();
      await moment(2_000, 6_000);
      postgres.resume();
    },
    'PostgreSQL read-only': async () => {
      const set = (value: string) => postgres.sql(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
      await set('on');
      await postgres.sql('SELECT pg_reload_conf()');
      await moment();
      await set('off');
      await postgres.sql('SELECT pg_reload_conf()');
    },
    'PostgreSQL without connections': async () => {
      const others: pg.Client[] = [];
      await postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'credence'");
      for (let isFull = false; !isFull;) {
        const other = new pg.Client({ connectionString: asAdmin() });
        other.on('error', () => undefined);
        isFull = await other.connect().then(
          () => others.push(other) > 200,
          () => true,
        );
      }
      await moment();
      await Promise.all(others.map((other) => other.end()));
    },
    'an older backup of PostgreSQL': async () => {
      const backup = await postgres.baseBackup();
      await moment();
      await postgres.restore(backup);
    },
    'a failover of PostgreSQL to a standby that lags': async () => {
      const standby = await postgres.standby();
      await standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
      await standby.sql('SELECT pg_reload_conf()');
      await moment();
      await postgres.kill();
      network.target = standby.port;
      await standby.promote();
      replaced.push(postgres);
      postgres = standby;
    },
    'a network to PostgreSQL that takes 2 s': async () => {
      network.delayMs = 2_000;
      await moment(2_000, 5_000);
      network.delayMs = 0;
    },
    'a network to PostgreSQL that cuts answers': async () => {
      for (let n = 0; n < 10; n++) {
        network.loseNextAnswer(random());
        await sleep(random() * 200);
      }
    },
    'all connections to PostgreSQL cut': async () => network.cut(),
    'a worker killed': async () => {
      const n = Math.floor(random() * 2);
      await workers[n]!.kill();
      workers[n] = await start('worker');
    },
    'a worker paused beyond its lease': async () => {
      const { child } = workers[Math.floor(random() * 2)]!;
      child.kill('SIGSTOP');
      await moment(3_000, 6_000);
      child.kill('SIGCONT');
    },
    'EventStoreDB killed': async () => {
      await cluster.eventStored.kill();
      await cluster.eventStored.start();
    },
    'Redis killed': async () => {
      await cluster.redis.kill();
      await moment();
      await cluster.redis.run();
    },
    'Redis empty': async () => {
      const redis = new Redis(cluster.redis.url);
      await redis.flushall();
      redis.disconnect();
    },
  };

  test(
    `nothing is lost, doubled, wrong or back in time; seed ${SEED}`,
    async () => {
      const ledger = new Ledger('chaos');
      const [read] = ledger.identities as [string];
      for (const api of apis) {
        await eventually(async () => (await api.send('GET', '/health/ready')).status === 200, 'ready');
      }
      const rules = { policy_id: POLICY, rules: { tct_min: 1 }, ttl_seconds: 60 };
      expect((await apis[0]!.post('/v1/policies/ap', rules)).status).toBe(201);
      const hook = { url: receiver.url, events: ['bad_status.changed'] };
      expect((await apis[0]!.post('/v1/webhooks', hook)).status).toBe(201);
      await ledger.persistOnce(apis[0]!);
      const score = `/v1/disc/score/${read}?model=disc-1`;
      const check = (api: Server) => api.post('/v1/policies/ap/check', { policy_id: POLICY, subject_tris: read });
      await eventually(async () => (await check(apis[0]!)).status === 200, 'a decision');

      let isOver = false;
      const wrong: unknown[] = [];
      let [reads, checks] = [0, 0];
      const paced = async (pace: number, work: () => Promise<unknown>) => {
        for (let due = performance.now(); !isOver; due = Math.max(due + pace, performance.now())) {
          await work();
          await sleep(due + pace - performance.now());
        }
      };
      const expectAway = ({ status, text }: { status: number; text: string }) => {
        if (status !== 503) wrong.push(['not 503', status, text]);
      };
      const load = apis.flatMap((api) => {
        let [position, tct] = [0, 0];
        return [
          ...Array.from({ length: WRITERS / 2 }, () => paced(PACE_MS, () => ledger.persistOnce(api, expectAway))),
          ...Array.from({ length: 2 }, () =>
            paced(20, async () => {
              const [floor, least] = [position, tct];
              const answer = await api.send('GET', score);
              if (answer.status !== 200) return expectAway(answer);
              reads++;
              const at = Number(answer.json.position.split('.')[1]);
              if (at < floor || answer.json.total_tct < least) wrong.push(['back in time', floor, least, answer.json]);
              [position, tct] = [Math.max(position, at), Math.max(tct, answer.json.total_tct)];
            }),
          ),
          paced(PACE_MS, async () => {
            const answer = await check(api);
            if (answer.status !== 200) return expectAway(answer);
            checks++;
            if (answer.json.granted !== true) wrong.push(['not granted', answer.json]);
          }),
        ];
      });
      let stated = 0;
      const states = paced(500, async () => {
        const body = { level: (stated % 6) + 1, reason_code: 'fraud' };
        while ((await apis[1]!.send('POST', `/v1/identities/${HOOKED}/bad-status`, { body })).status !== 200) {
          await sleep(100);
        }
        stated++;
      });

      const isWell = async (api: Server) => {
        const answers = await Promise.all([api.send('GET', score), check(api), api.relay({ tris_id: 'tris:well' })]);
        return answers.map(({ status }) => status).join() === '200,200,202';
      };
      /** By what failed: how often, and the most ms until all was right again. */
      const seen = new Map<string, { times: number; ms: number }>();
      const started = performance.now();
      for (let order: string[] = []; performance.now() - started < MS;) {
        if (order.length === 0) order = Object.keys(faults).sort(() => random() - 0.5);
        const name = order.pop()!;
        await faults[name]!();
        const healed = performance.now();
        for (const api of apis) await eventually(() => isWell(api), `right answers after: ${name}`);
        const { times, ms } = seen.get(name) ?? { times: 0, ms: 0 };
        seen.set(name, { times: times + 1, ms: Math.max(ms, performance.now() - healed) });
        await moment(200, 1_500);
      }
      isOver = true;
      await Promise.all([...load, states]);
      const seconds = (performance.now() - started) / 1_000;

      const last = await ledger.retryAll(apis[1]!);
      await ledger.expectHistories(apis[0]!, last);
      expect(wrong).toEqual([]);
      const messages = () => new Set(receiver.received.map(({ id }) => id)).size;
      await eventually(() => messages() >= stated, 'every message of the webhook');
      expect(messages()).toBe(stated);
      await expectVerified(env());
      const right = [...seen].map(
        ([name, { times, ms }]) => `  ${name}: ${times} times, ${(ms / 1_000).toFixed(1)} s\n`,
      );
      process.stderr.write(
        `chaos: ${seconds.toFixed(0)} s, seed ${SEED}; ${ledger.acknowledged} relays, ${reads} reads, ${checks} checks, ` +
          `${stated} messages (${receiver.received.length} sent); right again after at most\n${right.join('')}`,
      );
    },
    limit(600_000),
  );
});
