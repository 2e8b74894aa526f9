import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { eventId } from '../dist/src/stores/ports/event-encoding.js';
import { EventStoreDbEventStore } from '../dist/src/stores/eventstoredb/eventstoredb-event-store.js';
import { inTemporaryFolder, interleave, median, processorTime } from './measure.mjs';
import { UnaryAppends } from './unary-appends.mjs';

/**
 * The log in EventStoreDB against its own client, both in this process, against the server in EVENTSTORE_URL or one
 * that is started from the PATH (`--mem-db`: on a disk, both wait for the same syncs and nothing else shows).
 */

const IN_FLIGHT = 64;

/**
 * @param work is given the connection string, and the process id if the server is one of its own
 * @param options isOnDisk: the log is in a folder; else in memory
 */
export async function withEventStoreDb(work, { isOnDisk = false } = {}) {
  if (process.env.EVENTSTORE_URL) return work(process.env.EVENTSTORE_URL);
  return inTemporaryFolder(async (folder) => {
    const [port, replication] = [await freePort(), await freePort()];
    const ports = [`--node-port=${port}`, `--replication-port=${replication}`];
    const addresses = ['--node-ip=127.0.0.1', '--replication-ip=127.0.0.1'];
    // The cache is bounded as in docker-compose.yml: by itself it takes most of the machine's memory.
    const onDisk = [`--db=${join(folder, 'db')}`, '--stream-info-cache-capacity=100000'];
    const database = isOnDisk ? onDisk : ['--mem-db'];
    const server = spawn(
      'eventstored',
      ['--insecure', ...database, ...ports, ...addresses, `--log=${join(folder, 'log')}`],
      { stdio: 'ignore', env: { ...process.env, EVENTSTORE_TELEMETRY_OPTOUT: 'true' } },
    );
    const ended = new Promise((resolve) => server.once('exit', resolve));
    try {
      for (let tries = 0; !(await isLive(port)); tries++) {
        if (tries > 300 || server.exitCode !== null) throw new Error('eventstored did not start');
        await sleep(200);
      }
      return await work(`esdb://127.0.0.1:${port}?tls=false`, server.pid);
    } finally {
      server.kill('SIGKILL');
      await ended;
    }
  });
}

/** Appends of one action (two events) to a new stream, 64 in flight; appends per second. */
export async function appends(url, rounds, actions = 5_000) {
  const store = await EventStoreDbEventStore.open({ url });
  const client = EventStoreDBClient.connectionString(url);
  const contestants = {
    ours: () => appending((stream, events) => store.append(stream, 'no-stream', events), IN_FLIGHT, actions),
    peer: () => appending(clientAppend(client), IN_FLIGHT, actions),
  };
  await interleave(1, contestants);
  const result = await interleave(rounds, contestants);
  await store.close();
  await client.dispose();
  return result;
}

/**
 * The same with so many in flight, beside the client's unary call: also the processor time of an append in this process
 * and in the server, in microseconds.
 * @param server the process id of the server; undefined: unknown
 */
export async function appendsBesideUnary(url, server, rounds, inFlight, actions = 5_000) {
  const store = await EventStoreDbEventStore.open({ url });
  const client = EventStoreDBClient.connectionString(url);
  const unary = new UnaryAppends();
  const by = (append) => [
    process.pid,
    async () => ({ rate: await appending(append, inFlight, actions), appended: actions }),
  ];
  const result = await withCosts(rounds, server, {
    ours: by((stream, events) => store.append(stream, 'no-stream', events)),
    peer: by((stream, events) => unary.append(client, stream, 'no-stream', events)),
  });
  await store.close();
  await client.dispose();
  return result;
}

/**
 * Interleaved rounds of contestants, after one that does not count.
 * @param contestants each is the id of its process, and what returns the rate of one round and how much was appended
 * @returns medians: `rates`, and the processor time of an append in that process and in the server, in microseconds
 */
export async function withCosts(rounds, server, contestants) {
  const costs = { own: {}, server: {} };
  const used = async (pid) => (pid === undefined ? 0 : 1e6 * (await processorTime(pid)));
  const measured = Object.entries(contestants).map(([name, [pid, run]]) => [
    name,
    async () => {
      const before = [await used(pid), await used(server)];
      const { rate, appended } = await run();
      (costs.own[name] ??= []).push(((await used(pid)) - before[0]) / appended);
      (costs.server[name] ??= []).push(((await used(server)) - before[1]) / appended);
      return rate;
    },
  ]);
  await interleave(1, Object.fromEntries(measured));
  for (const each of Object.values(costs)) for (const name of Object.keys(each)) each[name] = [];
  const rates = await interleave(rounds, Object.fromEntries(measured));
  const medians = (times) => Object.fromEntries(Object.entries(times).map(([name, each]) => [name, median(each)]));
  return { rates, own: medians(costs.own), server: server && medians(costs.server) };
}

/** The client's own append of the events of an action. */
export function clientAppend(client) {
  return (stream, events) => client.appendToStream(stream, events.map(jsonEvent), { expectedRevision: NO_STREAM });
}

/** Appends of one action each, so many in flight: per second. */
export async function appending(append, inFlight, actions) {
  let left = actions;
  const started = performance.now();
  const writer = async () => {
    while (left-- > 0) await append(...action());
  };
  await Promise.all(Array.from({ length: inFlight }, writer));
  return (1000 * actions) / (performance.now() - started);
}

/** A relayed action as the service appends it. */
function action() {
  const stream = `action-${randomUUID()}`;
  const body_hash = randomUUID().replaceAll('-', '').repeat(2);
  const now = new Date().toISOString();
  const facts = [
    {
      type: 'ActionRelayed',
      data: {
        tris_id: 'tris:0x9fd0',
        metric: 'financial_loan_repayment',
        criticality: 'High',
        platform_id: 'lender',
        evidence_hash: null,
      },
    },
    { type: 'CredonationRecorded', data: { tris_id: 'tris:0x9fd0', endorser: 'tris:platform:lender', tct: 100 } },
  ];
  const events = facts.map((fact, index) => ({
    id: eventId(stream, body_hash, index),
    ...fact,
    metadata: {
      schema: 1,
      occurred_at: now,
      recorded_at: now,
      correlation_id: randomUUID(),
      actor: 'key:bench',
      body_hash,
      index,
      size: 2,
    },
  }));
  return [stream, events];
}

async function isLive(port) {
  return fetch(`http://127.0.0.1:${port}/health/live`).then(
    ({ ok }) => ok,
    () => false,
  );
}

export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
