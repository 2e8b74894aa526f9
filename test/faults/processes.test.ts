import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { copyFile, mkdtemp, rename, rm } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually, recovery } from '../contracts/harness.js';
import { Ledger, WRITERS, expectVerified, reached } from '../e2e/ledger.js';
import { type Member, membersOf } from '../e2e/members.js';
import type { Answer } from '../http/client.js';
import { ACTION, Server } from '../e2e/server.js';
import { ended, spawnServer } from '../servers/launch.js';

/** Several processes on one port: each of them may die, under load. */

const ENV = { CREDENCE_PROCESSES: '2', CREDENCE_LOG_LEVEL: 'debug' };

let data: string;
beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-group-'))));
afterEach(() => rm(data, { recursive: true, force: true }));

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
const isAlive = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};
/** The process of projections and jobs: the one that answers no request. */
async function projectorOf(server: Server): Promise<number> {
  const answering = new Set((await membersOf(server, 2)).map(({ pid }) => pid));
  return childrenOf(server.child.pid!).find((pid) => !answering.has(pid))!;
}
const isWhole = async (server: Server): Promise<boolean> => {
  // The connection of this request may be one of the process that has just been killed.
  const answer = await server.send('GET', '/health/ready').catch(() => undefined);
  return answer?.json.checks[0].detail === '2 of 2 processes answer requests; one does the rest';
};
/** Writers that go on when a process dies with their connection: what was sent may have been recorded. */
function writersOf(ledger: Ledger, server: Server): { stop: () => Promise<void> } {
  let stopped = false;
  const write = async () => {
    while (!stopped) await ledger.persistOnce(server).catch(() => undefined);
  };
  const all = Promise.all(Array.from({ length: WRITERS }, write));
  return {
    stop: async () => {
      stopped = true;
      await all;
    },
  };
}

test('kill -9 of a process that answers: the others go on, another takes its place, nothing acknowledged is lost', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data, env: ENV });
  const writers = writersOf(ledger, server);
  await ledger.acknowledges(100);
  const [victim] = await membersOf(server, 2);
  const requests = async () => {
    const { text } = await server.send('GET', '/metrics');
    return Number(/^http_request_duration_seconds_count\{.*decision-relay",status="202"\} (\d+)$/m.exec(text)?.[1]);
  };
  const before = await requests();
  process.kill(victim!.pid, 'SIGKILL');
  await ledger.acknowledges(50);
  await recovery(
    'a process of two that answer',
    eventually(() => isWhole(server), 'both processes'),
  );
  // What the process had reported is still in the sum.
  expect(await requests()).toBeGreaterThanOrEqual(before);
  await writers.stop();
  await ledger.expectHistories(server, await ledger.retryAll(server));
  await expectVerified({ CREDENCE_DATA: data });
  const lines = server.errors.join('').split('\n');
  expect(lines.filter((line) => line.includes('"a process that answers requests works again"'))).toHaveLength(1);
  expect(await server.stop()).toBe(0);
});

test('kill -9 of a process that a connection is being passed to: the connection ends, and its client does not wait', async () => {
  const server = await Server.start({ data, env: ENV });
  const [victim] = await membersOf(server, 2);
  process.kill(victim!.pid, 'SIGSTOP');
  const late = AbortSignal.timeout(30_000);
  // Each on a connection of its own, so that the next in turn gets one of them, and does not take it.
  const outcomes = Array.from({ length: 4 }, async () => {
    const asked = request(`${server.url}/health/live`, { agent: false, signal: late }).end();
    try {
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      answer.resume();
      return answer.statusCode;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code;
    }
  });
  await Promise.race(outcomes);
  process.kill(victim!.pid, 'SIGKILL');
  expect((await Promise.all(outcomes)).sort()).toEqual([200, 200, 200, 'ECONNRESET']);
  expect(await server.stop()).toBe(0);
});

test('kill -9 of a process during a scrape: what it has counted is in the sum once', async () => {
  const server = await Server.start({ data, env: { ...ENV, CREDENCE_PROCESSES: '3' } });
  const [silent, victim, asked] = (await membersOf(server, 3)) as [Member, Member, Member];
  const same = (await membersOf(server, 3)).find(({ pid }) => pid === asked.pid)!;
  const counted = ({ text }: Answer) =>
    Number(/^http_request_duration_seconds_count\{.*"\/health\/live",status="200"\} (\d+)$/m.exec(text)?.[1]);
  const before = counted(await asked.send('GET', '/metrics'));
  // The sum waits for two seconds for a process that does not answer.
  process.kill(silent.pid, 'SIGSTOP');
  const scrape = asked.send('GET', '/metrics');
  // The first process gets the questions of a process in their order.
  await same.send('GET', '/health/ready');
  process.kill(victim.pid, 'SIGKILL');
  expect(counted(await scrape)).toBe(before);
  process.kill(silent.pid, 'SIGCONT');
  await server.stop();
});

test('kill -9 of the process of projections and jobs: answers go on, and another applies what was written', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data, env: ENV });
  const projector = await projectorOf(server);
  const writers = writersOf(ledger, server);
  await ledger.acknowledges(100);
  process.kill(projector, 'SIGKILL');
  await eventually(async () => (await server.send('GET', '/health/ready')).status === 503, 'readiness says so');
  await ledger.acknowledges(50);
  const write = await ledger.try(server);
  await recovery('the process of projections', reached(server, write));
  await writers.stop();
  await ledger.expectHistories(server, await ledger.retryAll(server));
  await eventually(() => isWhole(server), 'the whole group');
  await server.stop();
});

test('kill -9 of the first process ends all others, with a sentence, and the service starts again', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data, env: ENV });
  const others = childrenOf(server.child.pid!);
  expect(others).toHaveLength(3);
  const writers = Array.from({ length: WRITERS }, () => ledger.write(server));
  await ledger.acknowledges(100);
  await server.kill();
  await Promise.all(writers);
  await eventually(() => !others.some(isAlive), 'the end of the others');
  expect(server.errors.join('')).toContain('the first process of the group has ended');
  const again = await Server.start({ data, env: ENV });
  await ledger.expectHistories(again, await ledger.retryAll(again));
  await again.stop();
});

test('SIGTERM under load ends all processes in time, with 0', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data, env: ENV });
  const others = childrenOf(server.child.pid!);
  const writers = Array.from({ length: WRITERS }, () => ledger.write(server));
  await ledger.acknowledges(100);
  // The first process ends with 1, and the others at once, where the end takes too long.
  expect(await server.stop()).toBe(0);
  expect(others.some(isAlive)).toBe(false);
  await Promise.all(writers);
  expect(server.errors.join('')).not.toContain('"level":"error"');
  const again = await Server.start({ data, env: { ...ENV, CREDENCE_PROCESSES: '1' } });
  await ledger.expectHistories(again, await ledger.retryAll(again));
  await again.stop();
});

test('SIGTERM to every process at once, as supervisors send it, lets a request that is under way end', async () => {
  const server = await Server.start({ data, env: ENV });
  const body = JSON.stringify(ACTION);
  const headers = {
    'x-api-key': server.key,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    expect: '100-continue',
  };
  const sent = request(`${server.url}/api/decision-relay`, { method: 'POST', headers });
  sent.flushHeaders();
  await once(sent, 'continue');
  for (const pid of [...childrenOf(server.child.pid!), server.child.pid!]) process.kill(pid, 'SIGTERM');
  await eventually(() => server.errors.join('').includes('"stopping"'), 'the first process stops');
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  expect(answer.statusCode).toBe(202);
  answer.resume();
  expect(await server.exit).toBe(0);
});

test('a process that cannot be started is tried again, and the others go on', async () => {
  const node = join(data, 'node');
  await copyFile(process.execPath, node);
  const first = spawnServer({ ...ENV, CREDENCE_DATA: join(data, 'store') }, undefined, node);
  let output = '';
  for (const stream of [first.stdout!, first.stderr!]) {
    stream.setEncoding('utf8').on('data', (text: string) => void (output += text));
  }
  try {
    await eventually(() => output.includes('Documentation: '), 'the group');
    const url = /http:\/\/\S+/.exec(output)![0];
    await rename(node, `${node}-away`);
    process.kill(childrenOf(first.pid!).at(-1)!, 'SIGKILL');
    await eventually(() => output.includes('cannot be started: spawn'), 'the attempt to start another');
    expect((await fetch(`${url}/health/live`)).status).toBe(200);
    await rename(`${node}-away`, node);
    await eventually(() => output.includes('a process that answers requests works again'), 'the whole group');
    // No process has ended there; the line must not name one that ended before.
    expect(output.split('\n').find((line) => line.includes('while it started'))).not.toContain('"ended"');
    first.kill('SIGTERM');
    expect(await once(first, 'exit')).toEqual([0, null]);
  } finally {
    first.kill('SIGKILL');
  }
});

test('what keeps a process from starting is said once, and ends all', async () => {
  const first = await Server.start({ data });
  const port = new URL(first.url).port;
  const env = { ...ENV, CREDENCE_DATA: data, CREDENCE_PORT: port, CREDENCE_LOG_LEVEL: 'info' };
  const { code, stdout, stderr } = await ended(spawnServer(env));
  expect([code, stdout, stderr]).toEqual([
    1,
    '',
    `credence: Port ${port} of 127.0.0.1 is in use: stop what listens there, or set CREDENCE_PORT.\n`,
  ]);
  await first.stop();
});

test('a process that only does projections and jobs cannot be several', async () => {
  const { code, stderr } = await ended(spawnServer({ ...ENV, CREDENCE_DATA: data, CREDENCE_ROLES: 'worker' }));
  expect([code, stderr]).toEqual([
    2,
    'credence: CREDENCE_PROCESSES is the number of processes that answer requests: with CREDENCE_ROLES=worker it must be 1, not 2.\n',
  ]);
});
