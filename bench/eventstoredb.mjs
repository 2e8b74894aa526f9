import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { eventId } from '../dist/src/stores/ports/event-encoding.js';
import { EventStoreDbEventStore } from '../dist/src/stores/eventstoredb/eventstoredb-event-store.js';
import { inTemporaryFolder, interleave } from './measure.mjs';

/**
 * The log in EventStoreDB against its own client, both in this process, against the server in EVENTSTORE_URL or one
 * that is started from the PATH (`--mem-db`: on a disk, both wait for the same syncs and nothing else shows).
 */

const IN_FLIGHT = 64;

/** @param work is given the connection string, and the process id if the server is one of its own */
export async function withEventStoreDb(work) {
  if (process.env.EVENTSTORE_URL) return work(process.env.EVENTSTORE_URL);
  return inTemporaryFolder(async (folder) => {
    const [port, replication] = [await freePort(), await freePort()];
    const ports = [`--node-port=${port}`, `--replication-port=${replication}`];
    const addresses = ['--node-ip=127.0.0.1', '--replication-ip=127.0.0.1'];
    const server = spawn(
      'eventstored',
      ['--insecure', '--mem-db', ...ports, ...addresses, `--log=${join(folder, 'log')}`],
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
