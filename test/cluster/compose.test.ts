import { type ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { loadConfig } from '../../src/kernel/config.js';
import { parseRedisUrl } from '../../src/stores/redis/connection.js';
import { ACTION, Server, unique } from '../e2e/server.js';
import { eventually } from '../contracts/harness.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import { spawnServer } from '../servers/launch.js';
import { POSTGRES } from '../servers/postgres-folder.mjs';

/**
 * docker-compose.yml against the Compose Specification (compose-spec.json: compose-spec/compose-spec at 170098ba,
 * Apache-2.0), and what it starts, started by hand with the same environment.
 */

interface Service {
  image: string;
  user?: string;
  read_only?: boolean;
  environment: Record<string, string>;
  command?: string | string[];
  volumes: string[];
  ports?: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck: { test: string[] };
}
const COMPOSE = parse(readFileSync('docker-compose.yml', 'utf8'), { merge: true }) as {
  services: Record<string, Service>;
  volumes: Record<string, unknown>;
};
const OURS = ['api-1', 'api-2', 'worker'];
const KEYS = '/run/credence';

const LARGER = parse(readFileSync('ops/larger.yml', 'utf8'), { merge: true }) as typeof COMPOSE;

test('is a Compose file, and so is what makes it larger', () => {
  const schema = JSON.parse(readFileSync(new URL('./compose-spec.json', import.meta.url), 'utf8')) as object;
  // The meta-schema is named by its https address, which the library knows under http.
  const validate = new Ajv({ strict: false, validateFormats: false }).compile({ ...schema, $schema: undefined });
  validate(COMPOSE);
  expect(validate.errors).toBeNull();
  validate(LARGER);
  expect(validate.errors).toBeNull();
  const broken = structuredClone(COMPOSE) as any;
  broken.services.worker.depends_on.redis.condition = 'service_fine';
  expect(validate(broken)).toBe(false);
});

test('pins every image, keeps what the stores write, and gives each service a health check', () => {
  expect(Object.keys(COMPOSE.services).sort()).toEqual([...OURS, 'eventstore', 'postgres', 'redis'].sort());
  for (const { image, healthcheck } of Object.values(COMPOSE.services)) {
    expect(image).toMatch(/:\d+\.\d+/);
    expect(healthcheck.test.length).toBeGreaterThan(1);
  }
  const stores = ['eventstore', 'postgres', 'redis'].map((name) => COMPOSE.services[name]!);
  const kept = stores.flatMap(({ volumes }) => volumes).map((volume) => volume.split(':')[0]!);
  expect([...kept, 'worker-data'].sort()).toEqual(Object.keys(COMPOSE.volumes).sort());
  expect(stores.map(({ ports }) => ports)).toEqual([undefined, undefined, undefined]);
});

test('ops/larger.yml names only services that there are, in addresses that the service understands', () => {
  const services = new Set([...Object.keys(COMPOSE.services), ...Object.keys(LARGER.services)]);
  for (const name of OURS) {
    const { EVENTSTORE_URL, REDIS_URL } = LARGER.services[name]!.environment;
    const { nodes, sentinel } = parseRedisUrl(REDIS_URL!);
    expect(nodes.filter(({ host }) => !services.has(host))).toEqual([]);
    expect(String(LARGER.services['sentinel-1']!.command)).toContain(`sentinel monitor ${sentinel} redis 6379 2`);
    const places = /@([^?]+)\?/.exec(EVENTSTORE_URL!)![1]!.split(',');
    expect(places.map((place) => place.replace(/:2113$/, '')).filter((host) => !services.has(host))).toEqual([]);
  }
});

test('is built on an exact release of a Node line that is at least 24', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  const [, major] = /^ARG NODE_IMAGE=node:(\d+)\.\d+\.\d+-/m.exec(dockerfile)!;
  expect(Number(major)).toBeGreaterThanOrEqual(24);
  expect(dockerfile.match(/^FROM (\S+)/gm)).toEqual(['FROM ${NODE_IMAGE}', 'FROM ${NODE_IMAGE}']);
});

test('runs the service without root, after the stores are healthy, with a valid configuration', () => {
  for (const name of OURS) {
    const { user, read_only, depends_on, volumes, environment } = COMPOSE.services[name]!;
    expect([user!.startsWith('0'), read_only]).toEqual([false, true]);
    expect(depends_on).toEqual({
      eventstore: { condition: 'service_healthy' },
      postgres: { condition: 'service_healthy' },
      redis: { condition: 'service_healthy' },
    });
    expect(volumes).toEqual([`./secrets:${KEYS}:ro`, ...(name === 'worker' ? ['worker-data:/data'] : [])]);
    const variables = environmentOf(name);
    const { POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB } = environmentOf('postgres');
    expect(variables['CREDENCE_DATABASE_URL']).toBe(
      `postgres://${POSTGRES_USER}:${POSTGRES_PASSWORD}@postgres:5432/${POSTGRES_DB}`,
    );
    expect(variables['CREDENCE_DATA']).toBe(name === 'worker' ? '/data' : undefined);
    expect(loadConfig(variables)).toMatchObject({
      profile: 'cluster',
      roles: [environment['CREDENCE_ROLES']],
    });
  }
  const dockerfile = readFileSync('Dockerfile', 'utf8');
  expect(dockerfile.match(/^FROM /gm)).toHaveLength(2);
  expect(dockerfile).toMatch(/^USER 1000:1000$/m);
  // As the user that is given here, whoever that is.
  expect(dockerfile).toMatch(/^ENV CREDENCE_DATA=\/data\nRUN install --directory .*--mode=1777 \/data$/m);
  expect(dockerfile).toMatch(/^COPY --from=build .*LICENSE/m);
  expect(readFileSync('.dockerignore', 'utf8').split('\n')).toEqual(expect.arrayContaining(['*', '!LICENSE']));
});

/** As Compose gives it to the container, with the defaults of what is not set. */
function environmentOf(name: string): Record<string, string> {
  const { environment } = COMPOSE.services[name]!;
  return Object.fromEntries(
    Object.entries(environment).map(([key, value]) => [key, value.replace(/\$\{\w+:-([^}]*)\}/g, '$1')]),
  );
}

describeOnOwnCluster('what docker-compose.yml starts', () => {
  let cluster: Cluster;
  const started = new Map<string, Server>();
  const [api1, api2, worker] = [() => started.get('api-1')!, () => started.get('api-2')!, () => started.get('worker')!];

  beforeAll(async () => {
    cluster = await Cluster.start({ onDisk: true, redis: redisOptions(String(COMPOSE.services['redis']!.command)) });
    const { eventStored, postgres, redis, folder } = cluster;
    const start = async (name: string) => {
      const inContainer = JSON.stringify({
        ...environmentOf(name),
        CREDENCE_HOST: '127.0.0.1',
        CREDENCE_PORT: '0',
        CREDENCE_RATE_LIMIT: '600',
      });
      const here = inContainer
        .replaceAll('eventstore:2113', `127.0.0.1:${eventStored.port}`)
        .replaceAll('postgres:5432', `127.0.0.1:${postgres.port}`)
        .replaceAll('redis:6379', `127.0.0.1:${redis.port}`)
        .replaceAll(KEYS, folder);
      started.set(name, await Server.process(JSON.parse(here) as Record<string, string>, cluster.key));
    };
    await Promise.all(OURS.map(start));
  });
  afterAll(async () => {
    await Promise.all([...started.values()].map((server) => server.stop()));
    await cluster?.stop();
  });

  test('is healthy by its own health check', async () => {
    for (const [name, server] of started) {
      const [, command, ...args] = COMPOSE.services[name]!.healthcheck.test;
      const options = { env: { PATH: process.env['PATH'], CREDENCE_PORT: new URL(server.url).port } };
      const unescaped = args.map((arg) => arg.replaceAll('$$', '$'));
      await promisify(execFile)(command!, unescaped, options);
      const nobody = promisify(execFile)(command!, unescaped, { env: { ...options.env, CREDENCE_PORT: '1' } });
      await expect(nobody).rejects.toMatchObject({ code: 1 });
    }
    const [, program, ...args] = COMPOSE.services['postgres']!.healthcheck.test;
    const isReady = (port: number) => promisify(execFile)(join(POSTGRES!, program!), [...args, `--port=${port}`]);
    await isReady(cluster.postgres.port);
    await expect(isReady(1)).rejects.toMatchObject({ code: 2 });
  });

  test('one API process reads what another has written, and answers a repeated request identically', async () => {
    const action = { ...ACTION, tris_id: unique(), external_id: 'once' };
    const headers = { 'idempotency-key': 'once' };
    const write = await api1().relay(action, headers);
    expect((await api2().getAfter(write, `/api/disc-score/${action.tris_id}`)).json.total_tct).toBe(100);
    const again = await api2().relay(action, headers);
    expect([again.json, again.headers['credence-position']]).toEqual([write.json, write.headers['credence-position']]);
    const keys = await Promise.all([api1(), api2()].map((api) => api.get('/.well-known/jwks.json')));
    expect(keys[0]!.json).toEqual(keys[1]!.json);
  });

  test('after all read models were deleted, the worker brings them back, and no API process serves wrong numbers', async () => {
    const action = { ...ACTION, tris_id: unique() };
    const write = await api1().relay(action);
    const path = `/v1/disc/score/${action.tris_id}`;
    const { total_tct } = (await api2().getAfter(write, path)).json;
    await cluster.postgres.sql("UPDATE credence_store.generations SET status = 'dropped', part = NULL");
    for (const api of [api1(), api2()]) {
      const isBack = async () => {
        const { status, json } = await api.get(path);
        if (status === 200) expect(json.total_tct).toBe(total_tct);
        else expect(status).toBe(503);
        return status === 200;
      };
      await eventually(isBack, 'the score after the loss');
    }
  });

  test('counts the requests of an address together', async () => {
    const remaining: number[] = [];
    for (let n = 0; n < 6; n++) {
      const { headers } = await [api1(), api2()][n % 2]!.get('/api/disc-score/tris:nobody', { key: false });
      remaining.push(Number(headers['ratelimit-remaining']));
    }
    expect(remaining.map((left) => remaining[0]! - left)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('a process keeps the marker of the log in a folder that it makes, or says that it cannot', async () => {
    const folder = join(cluster.folder, 'not', 'yet');
    const nowhere = '/proc/credence';
    const [keeps, cannot] = [folder, nowhere].map((CREDENCE_DATA) =>
      spawnServer({ ...cluster.env, CREDENCE_PORT: '0', CREDENCE_ROLES: 'api', CREDENCE_DATA }),
    ) as [ChildProcess, ChildProcess];
    let said = '';
    cannot.stderr!.on('data', (text) => (said += text));
    await eventually(() => existsSync(join(folder, 'eventstore.marker.json')), 'the marker');
    await eventually(() => /names \/proc\/credence, which cannot be .* No marker is kept/.test(said), 'the warning');
    for (const child of [keeps, cannot]) {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    }
  });

  test('a worker has health and metrics, and no API', async () => {
    expect((await worker().send('GET', '/health/live')).status).toBe(200);
    expect((await worker().send('GET', '/metrics', { key: false })).text).toContain('credence_projection_lag_events');
    for (const path of ['/api/disc-score/tris:a', '/openapi.json', '/docs', '/.well-known/jwks.json']) {
      expect([path, (await worker().send('GET', path)).status]).toEqual([path, 404]);
    }
    expect((await worker().send('POST', '/api/decision-relay', { body: ACTION })).status).toBe(404);
  });
});

/** `redis-server --name value …` as options. */
function redisOptions(command: string): Record<string, string> {
  const words = command.replaceAll("''", '').split(' --').slice(1);
  return Object.fromEntries(words.map((word) => [word.split(' ')[0]!, word.split(' ').slice(1).join(' ').trim()]));
}
