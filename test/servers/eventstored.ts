import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { freePort } from './ports.js';
import { isOnPath } from './programs.js';

/** A server of EventStoreDB for tests: `eventstored` from the PATH, insecure, on the loopback, without telemetry. */
export interface EventStored {
  url: string;
  port: number;
  pid: number;
  /** Whether it has ended by itself or was killed. */
  readonly hasEnded: boolean;
  /** `kill -9`. */
  kill(): Promise<void>;
  /** Starts again what was killed, on the same port and folder. */
  start(): Promise<void>;
  /** Ends it and removes what it wrote. */
  stop(): Promise<void>;
}

const START_MS = 120_000;

/** Why no server can be started here; undefined if one can. */
export const noEventStored: string | undefined = isOnPath('eventstored')
  ? undefined
  : 'there is no eventstored on the PATH';

/** As `describe`; counts the tests as skipped, and says why, where no server can be had. */
export function describeWithEventStored(
  name: string,
  tests: () => void,
  reason: string | undefined = noEventStored,
): void {
  if (reason === undefined) describe(name, tests);
  else {
    process.stderr.write(`skipped: ${name}: ${reason}\n`);
    describe.skip(name, tests);
  }
}

/** The same where EVENTSTORE_URL may name a server. */
export const noEventStore = process.env['EVENTSTORE_URL'] ? undefined : noEventStored;

/**
 * @param options onDisk: with the database in a temporary folder, so that it can be killed and started again; under: where
 * that folder is
 */
export async function startEventStored({
  onDisk = false,
  under = tmpdir(),
  args = [] as string[],
  query = 'tls=false',
  /** Of a node of a cluster, which the others must know: where clients and where the other nodes connect to. */
  ports = undefined as readonly [number, number] | undefined,
} = {}): Promise<EventStored> {
  const folder = await mkdtemp(join(under, 'credence-eventstored-'));
  const [port, replicationPort] = ports ?? [await freePort(), await freePort()];
  const secure = args.length > 0;
  let child: ChildProcess;
  let output = '';
  const server: EventStored = {
    url: `esdb://127.0.0.1:${port}?${query}`,
    port,
    pid: 0,
    get hasEnded() {
      return child.exitCode !== null || child.signalCode !== null;
    },
    async start() {
      child = spawn(
        'eventstored',
        [
          ...(secure ? args : ['--insecure']),
          ...(onDisk ? ['--db', join(folder, 'db')] : ['--mem-db']),
          '--node-ip=127.0.0.1',
          '--replication-ip=127.0.0.1',
          `--node-port=${port}`,
          `--replication-port=${replicationPort}`,
          `--log=${join(folder, 'log')}`,
          '--index-cache-depth=10',
        ],
        {
          stdio: ['ignore', 'pipe', 'pipe'],
          env: {
            ...process.env,
            EVENTSTORE_URL: undefined,
            EVENTSTORE_TELEMETRY_OPTOUT: 'true',
            DOTNET_gcServer: '0',
            DOTNET_EnableDiagnostics: '0',
          },
        },
      );
      server.pid = child.pid!;
      const keep = (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4_000));
      child.stdout!.on('data', keep);
      child.stderr!.on('data', keep);
      const until = Date.now() + START_MS;
      while (!(await isLive(server.port, secure))) {
        if (child.exitCode !== null || Date.now() > until) {
          await server.stop();
          throw new Error(`eventstored did not start:\n${output}`);
        }
        await sleep(100);
      }
    },
    async kill() {
      if (server.hasEnded) return;
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
    async stop() {
      await server.kill();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  await server.start();
  return server;
}

async function isLive(port: number, secure: boolean): Promise<boolean> {
  if (secure) return speaksTls(port);
  return fetch(`http://127.0.0.1:${port}/health/live`).then(
    ({ ok }) => ok,
    () => false,
  );
}

async function speaksTls(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
  return once(socket, 'secureConnect')
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy());
}
