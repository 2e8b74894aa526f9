import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { EventStoreDBClient } from '@eventstore/db-client';
import { loadConfig } from '../dist/src/kernel/config.js';
import { SCOPES } from '../dist/src/credentials/caller.js';
import { signingKeyFile } from '../dist/src/credentials/signing-keys.js';
import { Follower } from '../dist/src/read-side/follower.js';
import { drop, rebuild } from '../dist/src/read-side/generations.js';
import { countEach } from '../dist/src/read-side/log-tree.js';
import { ensureManifest } from '../dist/src/read-side/manifest.js';
import { viewsOf } from '../dist/src/read-side/own-views.js';
import { PROJECTIONS } from '../dist/src/read-side/all-projections.js';
import { LmdbReadModels } from '../dist/src/stores/lmdb/lmdb-read-models.js';
import { closeStores, openProfile } from '../dist/src/stores/open.js';
import { AS_SERVER, POSTGRES, makeData, serverFolder } from '../test/servers/postgres-folder.mjs';
import { appending, clientAppend, freePort, withCosts, withEventStoreDb } from './eventstoredb.mjs';
import { checkOptions, createPolicy, fetchReady, keyOf } from './http.mjs';
import { lookUpsOf, populate } from './look-up.mjs';
import {
  ROOT,
  accepted,
  groupTime,
  inTemporaryFolder,
  interleave,
  load,
  median,
  processorTime,
  startServer,
} from './measure.mjs';
import { action, fill } from './population.mjs';

/**
 * The cluster profile, on a new EventStoreDB, Redis and PostgreSQL unless EVENTSTORE_URL, REDIS_URL and
 * CREDENCE_DATABASE_URL name existing ones.
 */

const SERVER = join(ROOT, 'dist/src/main.js');
const IN_FLIGHT = 64;
/** To which relays are sent. */
const IDENTITIES = 5_000;
const SECONDS = 2;
/** Until V8 has compiled what a check runs: the first seconds of a process give a quarter of the rate. */
const WARM_UP_SECONDS = 10;
/** Of a live batch: those of twenty relays. */
const LIVE_EVENTS = 40;
/** Of a minute of 100 relays a second, after which autovacuum looks at a table. */
const MINUTE_EVENTS = 12_000;

/**
 * @param work is given the environment of the profile, a key with every scope, and the process ids of the servers that are
 * its own
 * @param options as of `withEventStoreDb`
 */
export function withCluster(work, options = undefined) {
  return inTemporaryFolder((folder) =>
    withRedis(folder, (REDIS_URL, redis) =>
      withPostgres((CREDENCE_DATABASE_URL, postgres) =>
        withEventStoreDb((EVENTSTORE_URL, eventStored) => {
          const key = randomBytes(24).toString('base64url');
          const sha256 = createHash('sha256').update(key).digest('hex');
          const env = {
            CREDENCE_PROFILE: 'cluster',
            CREDENCE_DATA: join(folder, 'data'),
            CREDENCE_API_KEYS: join(folder, 'api-keys.json'),
            CREDENCE_SIGNING_KEYS: join(folder, 'signing-keys.json'),
            EVENTSTORE_URL,
            REDIS_URL,
            CREDENCE_DATABASE_URL,
          };
          mkdirSync(env.CREDENCE_DATA);
          writeFileSync(env.CREDENCE_API_KEYS, JSON.stringify([{ id: 'bench', sha256, scopes: SCOPES }]));
          signingKeyFile(loadConfig(env)).create();
          return work(env, key, { eventStored, redis, postgres });
        }, options),
      ),
    ),
  );
}

async function withRedis(folder, work) {
  if (process.env.REDIS_URL) return work(process.env.REDIS_URL);
  const port = await freePort();
  const args = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder];
  const server = spawn('redis-server', args, { stdio: 'ignore' });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  try {
    return await work(`redis://127.0.0.1:${port}`, server.pid);
  } finally {
    server.kill('SIGKILL');
    await ended;
  }
}

/** With the settings that it has by itself. */
async function withPostgres(work) {
  if (process.env.CREDENCE_DATABASE_URL) return work(process.env.CREDENCE_DATABASE_URL);
  const folder = await serverFolder();
  const data = join(folder, 'data');
  try {
    await makeData(data);
    const port = await freePort();
    const args = ['-D', data, '-h', '127.0.0.1', '-p', port, '-k', ''];
    const server = spawn(join(POSTGRES, 'postgres'), args, { ...AS_SERVER, stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = new Promise((resolve) => server.once('close', resolve));
    try {
      let output = '';
      server.stderr.on('data', (chunk) => (output += chunk));
      while (!output.includes('ready to accept connections')) {
        if (server.exitCode !== null) throw new Error(`PostgreSQL did not start: ${output}`);
        await sleep(20);
      }
      return await work(`postgres://credence@127.0.0.1:${port}/credence`, server.pid);
    } finally {
      server.kill('SIGQUIT');
      await ended;
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * A full rebuild of all views into PostgreSQL by one process, and `readAll` of the log's own client with an empty
 * handler: events/s, and processor time of this process and of the servers per event, in microseconds.
 * @param servers their process ids; undefined: unknown
 */
export async function rebuilds(env, rounds, servers, identities) {
  const stores = await openProfile(loadConfig(env), Date.now);
  const { eventStore, readModels } = stores;
  const { signal } = new AbortController();
  await fill(stores, identities, 5);
  await ensureManifest(PROJECTIONS, eventStore, readModels);
  const events = await countEach(eventStore, 0);
  const client = EventStoreDBClient.connectionString(env.EVENTSTORE_URL);
  const cpu = Object.fromEntries(['own', 'eventStored', 'postgres'].map((name) => [name, { ours: [], peer: [] }]));
  const usedByServers = async () => ({
    eventStored: servers.eventStored === undefined ? 0 : 1e6 * (await processorTime(servers.eventStored)),
    postgres: servers.postgres === undefined ? 0 : 1e6 * (await groupTime(servers.postgres)),
  });
  const timed = (name, work) => async () => {
    const [before, used, started] = [await usedByServers(), process.cpuUsage(), performance.now()];
    const built = await work();
    const rate = (1000 * events) / (performance.now() - started);
    const { user, system } = process.cpuUsage(used);
    const after = await usedByServers();
    cpu.own[name].push((user + system) / events);
    for (const server of Object.keys(after)) cpu[server][name].push((after[server] - before[server]) / events);
    if (built) await drop(built.id, readModels);
    return rate;
  };
  const read = () =>
    new Promise((resolve, reject) => {
      client
        .readAll()
        .on('data', () => undefined)
        .on('end', resolve)
        .on('error', reject);
    });
  const contestants = {
    ours: timed('ours', () => rebuild('all', eventStore, readModels, signal)),
    peer: timed('peer', read),
  };
  await interleave(1, contestants);
  for (const each of Object.values(cpu)) for (const name of Object.keys(each)) each[name] = [];
  const rates = await interleave(rounds, contestants);
  await client.dispose();
  await closeStores(stores);
  const medians = (times) => Object.fromEntries(Object.entries(times).map(([name, each]) => [name, median(each)]));
  return {
    events,
    rates,
    cpu: { own: medians(cpu.own), eventStored: medians(cpu.eventStored), postgres: medians(cpu.postgres) },
  };
}

/**
 * One follower applies a log in EventStoreDB batch by batch, as a worker does that has fallen behind, to PostgreSQL and to
 * embedded read models: events/s. Then the bytes of an event on the disk of PostgreSQL, where it was applied in live batches
 * and where the generation was loaded.
 */
export function projecting(env, rounds, identities) {
  return inTemporaryFolder(async (folder) => {
    const stores = await openProfile(loadConfig(env), Date.now);
    const { eventStore, readModels: far } = stores;
    const near = await LmdbReadModels.open(join(folder, 'views'), { clock: Date.now });
    await fill(stores, identities, 5);
    const events = await countEach(eventStore, 0);
    const { signal } = new AbortController();
    let generations = 0;
    const apply = async (readModels, store, options) => {
      const id = `bench-${++generations}`;
      await readModels.createGeneration(id, viewsOf(PROJECTIONS), store.logId);
      await new Follower(store, readModels).follow(id, { signal, ...options });
      return id;
    };
    const batchByBatch = (readModels) => Object.create(readModels, { load: { value: async () => undefined } });
    const projected = (readModels) => async () => {
      const started = performance.now();
      const id = await apply(batchByBatch(readModels), eventStore, { toHead: true });
      const rate = (1000 * events) / (performance.now() - started);
      await readModels.dropGeneration(id);
      return rate;
    };
    const contestants = { ours: projected(far), peer: projected(near) };
    await interleave(1, contestants);
    const rates = await interleave(rounds, contestants);
    const bytesOf = async (readModels, store, options) => {
      const id = await apply(readModels, store, options);
      const bytes = await bytesOfRows(far);
      await readModels.dropGeneration(id);
      return bytes / events;
    };
    const vacuums = `SELECT 'VACUUM credence_store.rows_' || part FROM credence_store.generations WHERE part IS NOT NULL`;
    const liveBatches = async function* (after) {
      let count = 0;
      for await (const slice of eventStore.readAll(after, { sliceSize: LIVE_EVENTS })) {
        yield slice;
        if ((count += slice.length) % MINUTE_EVENTS >= LIVE_EVENTS) continue;
        for (const [text] of await far.main.rows({ text: vacuums })) await far.main.rows({ text });
      }
    };
    const subscribe = { value: liveBatches };
    const bytes = {
      ours: await bytesOf(batchByBatch(far), Object.create(eventStore, { subscribe }), {}),
      peer: await bytesOf(far, eventStore, { toHead: true }),
    };
    await closeStores({ ...stores, readModels: far });
    await near.close();
    return { events, rates, bytes };
  });
}

/** The bytes of all rows in PostgreSQL on its disk, with their index. */
export async function bytesOfRows(readModels) {
  const text = `SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'credence_store.rows'::regclass`;
  const [[bytes]] = await readModels.main.rows({ text });
  return Number(bytes);
}

/** The position that everything which serves has applied. */
export async function appliedIn(readModels) {
  const ids = [...new Set(Object.values((await readModels.manifest()).views))];
  const read = await Promise.all(ids.map((id) => readModels.read(id, [])));
  return Math.min(...read.map(({ checkpoint }) => checkpoint.position));
}

/** Access checks that grant over 64 connections, recorded and signed, by an API process of each profile: per second. */
export function clusterChecks(env, key, rounds) {
  return inTemporaryFolder(async (data) => {
    for (const variables of [env, { CREDENCE_DATA: data }]) {
      const stores = await openProfile(loadConfig(variables), Date.now);
      await fill(stores, 1_000, 5);
      await closeStores(stores);
    }
    const far = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'api' });
    const worker = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'worker' });
    const near = await startServer(SERVER, { CREDENCE_DATA: data });
    const checking = async (url, ownKey) => {
      await fetchReady(`${url}/health/ready?for=reads`);
      await createPolicy(url, ownKey);
      const request = checkOptions(url, ownKey);
      const measured = (seconds) => load({ ...request, connections: IN_FLIGHT, seconds });
      await measured(WARM_UP_SECONDS);
      return async () => (await measured(SECONDS)).rate;
    };
    try {
      const contestants = { ours: await checking(far.url, key), peer: await checking(near.url, keyOf(data)) };
      return await interleave(rounds, contestants);
    } finally {
      await Promise.all([far.stop(), worker.stop(), near.stop()]);
    }
  });
}

/** Scores of random identities with 64 in flight, without HTTP, from PostgreSQL and from the embedded read models: per second. */
export function lookUps(env, rounds, identities = 10_000) {
  return inTemporaryFolder(async (data) => {
    const [far, near] = [
      await openProfile(loadConfig(env), Date.now),
      await openProfile(loadConfig({ CREDENCE_DATA: data }), Date.now),
    ];
    for (const stores of [far, near]) await populate(stores, identities);
    const contestants = {
      ours: () => lookUpsOf(far, identities, IN_FLIGHT),
      peer: () => lookUpsOf(near, identities, IN_FLIGHT),
    };
    await interleave(1, contestants);
    const result = await interleave(rounds, contestants);
    await Promise.all([closeStores(far), closeStores(near)]);
    return result;
  });
}

/** GET of the scores of a thousand identities in turn over 64 connections, from an API process of each profile: per second. */
export function reads(env, rounds) {
  return inTemporaryFolder(async (data) => {
    for (const variables of [env, { CREDENCE_DATA: data }]) {
      const stores = await openProfile(loadConfig(variables), Date.now);
      await populate(stores, 1_000);
      await closeStores(stores);
    }
    const far = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'api' });
    const near = await startServer(SERVER, { CREDENCE_DATA: data });
    const getting = (url) => async () => {
      const requests = Array.from({ length: 1_000 }, (_, n) => ({ path: `/api/disc-score/tris:identity-${n}` }));
      return (await load({ url, connections: IN_FLIGHT, seconds: SECONDS, requests })).rate;
    };
    try {
      return await interleave(rounds, { ours: getting(far.url), peer: getting(near.url) });
    } finally {
      await Promise.all([far.stop(), near.stop()]);
    }
  });
}

/**
 * 1,000 relays a second, each sent when due whatever happened to the others, to an API process, with a worker in
 * another: the p99 in ms of the time from the acknowledgement to the moment when the serving read models hold it, and how
 * many were acknowledged a second.
 * @param options retained: the worker also keeps a generation up to date that does not serve
 */
export async function lag(env, key, rounds, { perSecond = 1_000, seconds = 5, retained = false } = {}) {
  const api = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'api' });
  const worker = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'worker' });
  const stores = await openProfile(loadConfig(env), Date.now);
  const relay = relayer(api.url, key);
  const applied = () => appliedIn(stores.readModels);
  const rates = [];
  const round = async (length) => {
    const lags = [];
    let waiting = [];
    const started = performance.now();
    let [sent, acknowledged, open] = [0, 0, 0];
    let last = started;
    for (;;) {
      const elapsed = performance.now() - started;
      const due = Math.min(perSecond * length, Math.floor((elapsed * perSecond) / 1000));
      while (sent < due) {
        sent++;
        open++;
        void relay().then((position) => {
          open--;
          acknowledged++;
          last = performance.now();
          waiting.push({ position, at: last });
        });
      }
      const reached = await applied();
      const now = performance.now();
      for (const { position, at } of waiting) if (position <= reached) lags.push(Math.max(0, now - at));
      waiting = waiting.filter(({ position }) => position > reached);
      if (sent === perSecond * length && open === 0 && waiting.length === 0) break;
      await sleep(1);
    }
    rates.push((1000 * acknowledged) / (last - started));
    return lags.sort((a, b) => a - b)[Math.floor(0.99 * lags.length)];
  };
  try {
    await ready(api.url);
    await registerPlatforms(api.url, key);
    if (retained) await rebuild('all', stores.eventStore, stores.readModels, new AbortController().signal);
    await round(2);
    rates.length = 0;
    const { p99 } = await interleave(rounds, { p99: () => round(seconds) });
    return { p99, rate: Math.min(...rates) };
  } finally {
    await closeStores(stores);
    await Promise.all([api.stop(), worker.stop()]);
  }
}

/** As in production: of a platform that nobody has registered, each relay would look for an owner. */
async function registerPlatforms(url, key) {
  const platform_ids = [...new Set(Array.from({ length: IDENTITIES }, (_, n) => action(n, n, 0).platform_id))];
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  const body = JSON.stringify({ tris_org: 'tris:org:bench', platform_ids });
  const registered = await fetch(`${url}/v1/organizations`, { method: 'POST', headers, body });
  if (!registered.ok) throw new Error(await registered.text());
}

/**
 * Relays of 100 identities in turn over 256 connections to an API process, with a worker in another, and the appends
 * of as many in flight by the log's own client in this process: how many per second, and the processor time of that
 * process for each, in microseconds.
 */
export async function relays(env, key, rounds) {
  const api = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'api' });
  const worker = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'worker' });
  const client = EventStoreDBClient.connectionString(env.EVENTSTORE_URL);
  const requests = requestsToRelay();
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  const cpu = { ours: [], peer: [] };
  const contestants = {
    ours: async () => {
      const used = await processorTime(api.pid);
      const relayed = await accepted({ url: api.url, connections: 256, seconds: 5, requests, headers });
      cpu.ours.push((1e6 * ((await processorTime(api.pid)) - used)) / relayed.requests);
      return relayed.rate;
    },
    peer: async () => {
      const used = process.cpuUsage();
      const rate = await appending(clientAppend(client), 256, 20_000);
      const { user, system } = process.cpuUsage(used);
      cpu.peer.push((user + system) / 20_000);
      return rate;
    },
  };
  try {
    await ready(api.url);
    await registerPlatforms(api.url, key);
    await interleave(1, contestants);
    for (const figures of Object.values(cpu)) figures.length = 0;
    const rates = await interleave(rounds, contestants);
    return { rates, cpu: { ours: median(cpu.ours), peer: median(cpu.peer) } };
  } finally {
    await client.dispose();
    await Promise.all([api.stop(), worker.stop()]);
  }
}

/** Relays of 100 identities. The load generator prepares all of them for each connection. */
function requestsToRelay() {
  return Array.from({ length: 100 }, (_, n) => {
    const { external_id: _e, evidence_uri: _u, occurred_at: _o, ...fields } = action(n, n, Date.now());
    return { path: '/api/decision-relay', method: 'POST', body: JSON.stringify(fields) };
  });
}

/**
 * Two API processes, of which one appends by the client's unary call. No worker runs beside them, since it would read what
 * one of them has recorded while the other is measured.
 * @param work is given what relays over so many connections to both, in turn: how many are recorded per second, and the
 * processor time of a relay in that process and in the server of the log, in microseconds
 */
export async function besideUnary(env, key, eventStored, rounds, work) {
  const variables = { ...env, CREDENCE_ROLES: 'api' };
  const preload = pathToFileURL(join(ROOT, 'bench/leave-out.mjs'));
  const LEAVE_OUT = 'own appends to EventStoreDB';
  const worker = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'worker' });
  const ours = await startServer(SERVER, variables);
  const unary = await startServer(SERVER, { ...variables, LEAVE_OUT }, [`--import=${preload}`]);
  const requests = requestsToRelay();
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  // Equally many for both, since code that has run more often is faster.
  const amount = 5_000;
  const by = ({ url, pid }, connections) => [
    pid,
    async () => {
      const relayed = await accepted({ url, connections, seconds: 1, amount, requests, headers, timeout: 60 });
      return { rate: relayed.rate, appended: relayed.requests };
    },
  ];
  try {
    try {
      for (const { url } of [ours, unary]) await ready(url);
      await registerPlatforms(ours.url, key);
    } finally {
      await worker.stop();
    }
    await work((connections) =>
      withCosts(rounds, eventStored, { ours: by(ours, connections), peer: by(unary, connections) }),
    );
  } finally {
    await Promise.all([ours.stop(), unary.stop()]);
  }
}

/**
 * Relays recorded per second over 1,500 connections and over 256, each of which sends the next as soon as it is answered;
 * with `bytesPerSecond`, on an EventStoreDB that takes no more than that.
 */
export async function overload(env, key, rounds, bytesPerSecond = Infinity) {
  const slow = await slowed(env.EVENTSTORE_URL, bytesPerSecond);
  const worker = await startServer(SERVER, { ...env, CREDENCE_ROLES: 'worker' });
  const api = await startServer(SERVER, { ...env, EVENTSTORE_URL: slow.url, CREDENCE_ROLES: 'api' });
  const { external_id: _, evidence_uri: __, occurred_at: ___, ...fields } = action(1, 1, Date.now());
  const requests = [{ path: '/api/decision-relay', method: 'POST', body: JSON.stringify(fields) }];
  const headers = { 'content-type': 'application/json', 'x-api-key': key };
  const over = (connections) => async () => {
    // The requests of the round before are worked on although their clients are gone.
    while (await isBusy(api.url)) await sleep(50);
    return (await accepted({ url: api.url, connections, seconds: 5, requests, headers })).rate;
  };
  try {
    await ready(api.url);
    await over(256)();
    return await interleave(rounds, { ours: over(1_500), peer: over(256) });
  } finally {
    await Promise.all([api.stop(), worker.stop()]);
    slow.close();
  }
}

async function isBusy(url) {
  const metrics = await (await fetch(`${url}/metrics`)).text();
  return /^credence_(?:requests|appends)_waiting [1-9]/m.test(metrics);
}

/** The address of a proxy that limits what clients send to this rate. */
async function slowed(url, bytesPerSecond) {
  if (bytesPerSecond === Infinity) return { url, close: () => undefined };
  const { hostname, port } = new URL(url);
  const sockets = new Set();
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname);
    client.on('data', (data) => {
      server.write(data);
      client.pause();
      setTimeout(() => client.resume(), (1000 * data.length) / bytesPerSecond);
    });
    server.pipe(client);
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => [client, server].forEach((end) => end.destroy()));
    }
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    url: url.replace(`:${port}`, `:${proxy.address().port}`),
    close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Sends one action. @returns its position */
function relayer(url, key) {
  const agent = new Agent({ keepAlive: true, maxSockets: 256 });
  const { hostname, port } = new URL(url);
  let n = 0;
  return () =>
    new Promise((resolve, reject) => {
      const { external_id: _, evidence_uri: __, occurred_at: ___, ...fields } = action(n % IDENTITIES, n, Date.now());
      n++;
      const body = JSON.stringify(fields);
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'x-api-key': key,
      };
      const sent = request(
        { hostname, port, agent, method: 'POST', path: '/api/decision-relay', headers },
        (answer) => {
          answer.resume().on('end', () => {
            if (answer.statusCode !== 202) reject(new Error(`a relay was answered ${answer.statusCode}`));
            else resolve(Number(String(answer.headers['credence-position']).split('.').at(-1)));
          });
        },
      );
      sent.on('error', reject).end(body);
    });
}

async function ready(url) {
  while (!(await fetch(`${url}/health/ready`)).ok) await sleep(50);
}
