import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { Ledger, expectVerified } from '../e2e/ledger.js';
import { Server } from '../e2e/server.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';

/** A newer build, whose projections differ, takes the place of an older one, and gives it back, under relays. */

const LONG = 240_000;
const IDENTITIES = 'dist/projections/identities.js';

describeOnOwnCluster('two builds of the service on one cluster', () => {
  let cluster: Cluster;
  let folder: string;
  /** The program of a build whose fold of identities has another version. */
  let newer: string;
  const servers: Server[] = [];

  beforeAll(async () => {
    cluster = await Cluster.start();
    folder = await mkdtemp(join(tmpdir(), 'credence-build-'));
    await cp('dist', join(folder, 'dist'), { recursive: true });
    for (const name of ['node_modules', 'package.json']) await symlink(resolve(name), join(folder, name));
    const code = await readFile(IDENTITIES, 'utf8');
    const raised = code.replace(/version: (\d+)/, (_, version) => `version: ${Number(version) + 1}`);
    expect(raised).not.toBe(code);
    await writeFile(join(folder, IDENTITIES), raised);
    newer = join(folder, 'dist/src/main.js');
  }, LONG);
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.stop()));
    await cluster?.stop();
    await rm(folder, { recursive: true, force: true });
  }, LONG);

  async function start(role: 'api' | 'worker', build?: string): Promise<Server> {
    const server = await Server.process({ ...cluster.env, CREDENCE_ROLES: role }, cluster.key, build);
    servers.push(server);
    return server;
  }
  const readBy = async (api: Server) => (await api.send('GET', '/v1/disc/score/tris:a-0')).status;
  const isReady = async (api: Server) => (await api.send('GET', '/health/ready')).status === 200;

  test(
    'the older build serves until the newer one is ready; only one of them serves at any time, and nothing is lost',
    async () => {
      const oldWorker = await start('worker');
      const oldApi = await start('api');
      const ledger = new Ledger('a');
      const writing = Array.from({ length: 4 }, () => ledger.persist(oldApi, () => undefined));
      await ledger.acknowledges(50);
      await eventually(async () => (await readBy(oldApi)) === 200, 'the older build serves');

      const newWorker = await start('worker', newer);
      const newApi = await start('api', newer);
      expect(await readBy(newApi)).toBe(200);
      const refused = await oldApi.send('GET', '/v1/disc/score/tris:a-0');
      expect(refused).toMatchObject({ status: 503, json: { code: 'projection_rebuilding' } });
      expect(refused.json.detail).toContain('for another build of Credence');
      expect(await isReady(oldApi)).toBe(false);
      // It still accepts what it is sent until it is stopped.
      const before = ledger.acknowledged;
      await eventually(() => ledger.acknowledged > before + 10, 'relays to the older build');

      await oldWorker.stop();
      ledger.stop();
      await Promise.all(writing);
      await oldApi.stop();
      const last = await ledger.retryAll(newApi);
      await ledger.expectHistories(newApi, last);

      // Back again: the older build waits until no process of the newer one is left.
      await newWorker.stop();
      await newApi.stop();
      await start('worker');
      const api = await start('api');
      await ledger.expectHistories(api, last);
      await expectVerified(cluster.env);
    },
    LONG,
  );
});
