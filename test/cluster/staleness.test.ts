import { eventually, recovery } from '../contracts/harness.js';
import { type Answer, Server } from '../e2e/server.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import { Proxy } from '../servers/proxy.js';

/** What an API process answers while the read models fall behind, or a store stands still. */

const LONG = 240_000;
const POLICY = 'AP_KNOWN_V1';
const SUBJECT = 'tris:alice';
const SCORE = `/v1/disc/score/${SUBJECT}`;

describeOnOwnCluster('a cluster whose checks may be two seconds old', () => {
  let cluster: Cluster;
  /** Between the API and EventStoreDB. */
  let network: Proxy;
  let api: Server;
  let worker: Server;

  const startWorker = () => Server.process({ ...cluster.env, CREDENCE_ROLES: 'worker' }, cluster.key);
  const check = () => api.post('/v1/policies/ap/check', { policy_id: POLICY, subject_tris: SUBJECT });
  const act = () => api.relay({ tris_id: SUBJECT });
  const readiness = async () =>
    Promise.all(
      ['', '?for=reads', '?for=writes'].map(async (q) => (await api.send('GET', `/health/ready${q}`)).status),
    );

  beforeAll(async () => {
    cluster = await Cluster.start();
    network = await Proxy.to(cluster.eventStored.port);
    worker = await startWorker();
    const own = {
      CREDENCE_ROLES: 'api',
      CREDENCE_MAX_STALENESS_SECONDS: '2',
      EVENTSTORE_URL: `esdb://127.0.0.1:${network.port}?tls=false`,
    };
    api = await Server.process({ ...cluster.env, ...own }, cluster.key);
    await api.post('/v1/policies/ap', { policy_id: POLICY, rules: { tct_min: 1 }, ttl_seconds: 60 });
    await api.getAfter(await act(), SCORE);
  }, LONG);
  afterAll(async () => {
    await Promise.all([api?.stop(), worker?.stop()]);
    await network?.close();
    await cluster?.stop();
  }, LONG);

  function expectBehind({ status, headers, json }: Answer): void {
    expect([status, headers['retry-after'], json.code]).toEqual([503, '1', 'projection_behind']);
  }

  test(
    'without a worker, checks are refused after the bound and reads go on; both are as before within 2 s of its return',
    async () => {
      expect((await check()).json).toMatchObject({ granted: true });
      expect((await api.get(SCORE)).headers['credence-lag']).toBeUndefined();
      await worker.stop();
      await act();
      const since = performance.now();
      expect((await check()).status).toBe(200);
      await eventually(async () => (await check()).status === 503, 'a refusal');
      expect(performance.now() - since).toBeGreaterThan(2_000);
      expect(performance.now() - since).toBeLessThan(5_000);
      expectBehind(await check());
      await eventually(async () => (await api.get(SCORE)).headers['credence-lag'] !== undefined, 'a lag');
      const score = await api.get(SCORE);
      expect([score.status, Number(score.headers['credence-lag'])]).toEqual([200, expect.any(Number)]);
      expect(Number(score.headers['credence-lag'])).toBeGreaterThanOrEqual(2);
      expect(await readiness()).toEqual([200, 200, 200]);

      worker = await startWorker();
      const back = performance.now();
      await recovery(
        'checks work',
        eventually(async () => (await check()).status === 200, 'a decision'),
      );
      await eventually(async () => (await api.get(SCORE)).headers['credence-lag'] === undefined, 'no lag');
      expect(performance.now() - back).toBeLessThan(2_000);
    },
    LONG,
  );

  const connected = async (server: string): Promise<number> => {
    const { text } = await api.send('GET', '/metrics');
    return Number(new RegExp(`^credence_store_connected\\{server="${server}"\\} (\\S+)$`, 'm').exec(text)![1]);
  };

  test.each([
    [
      'eventstoredb',
      (): void => void (network.mode = 'stalled'),
      (): void => void (network.mode = 'open'),
      [503, 200, 503],
    ],
    ['postgresql', () => cluster.postgres.pause(), () => cluster.postgres.resume(), [503, 503, 200]],
    ['redis', () => cluster.redis.pause(), () => cluster.redis.resume(), [503, 200, 200]],
  ] as const)(
    '%s that gives no answers, although its connections stay, counts as not connected',
    async (server, pause, resume, expected) => {
      expect([await connected(server), await readiness()]).toEqual([1, [200, 200, 200]]);
      pause();
      try {
        const since = performance.now();
        await eventually(async () => (await connected(server)) === 0, 'not connected');
        process.stderr.write(`${server}: seen after ${Math.round(performance.now() - since)} ms\n`);
        expect(performance.now() - since).toBeLessThan(10_000);
        expect(await readiness()).toEqual(expected);
        if (server === 'eventstoredb') {
          await eventually(async () => (await api.get(SCORE)).headers['credence-lag'] !== undefined, 'a lag');
          expect((await check()).status).toBe(503);
        }
      } finally {
        resume();
      }
      await eventually(async () => (await connected(server)) === 1, 'connected');
      await eventually(async () => (await readiness()).every((status) => status === 200), 'ready again');
      await eventually(async () => (await check()).status === 200, 'a decision');
      await eventually(async () => (await api.get(SCORE)).headers['credence-lag'] === undefined, 'no lag');
    },
    LONG,
  );
});
