import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { longCases } from '../faults/faults.js';
import { Ledger, WRITERS, expectVerified } from './ledger.js';
import { ACTION, Server, environmentOf } from './server.js';

/** Whatever ends the process, and whenever: an acknowledged action is there, once, and a retry of any other succeeds. */

let data: string;
beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-crash-'))));
afterEach(() => rm(data, { recursive: true, force: true }));

test('kill -9 during writes loses no acknowledged write and duplicates none', async () => {
  const ledger = new Ledger();
  for (const writes of longCases([20, 300], [1_000])) {
    const victim = await Server.start({ data });
    const before = ledger.acknowledged;
    const writers = Array.from({ length: WRITERS }, () => ledger.write(victim));
    await ledger.acknowledges(writes);
    await victim.kill();
    await Promise.all(writers);
    expect(ledger.acknowledged).toBeGreaterThan(before);

    const server = await Server.start({ data });
    await ledger.expectHistories(server, await ledger.retryAll(server));
    await expectVerified(await environmentOf(data));
    await server.stop();
  }
});

test('SIGTERM in the middle of writes ends with 0 in time, and every acknowledged action is there', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data });
  const writers = Array.from({ length: WRITERS }, () => ledger.write(server));
  await ledger.acknowledges(200);
  // It ends with 1 where the end takes too long.
  expect(await server.stop()).toBe(0);
  await Promise.all(writers);

  const again = await Server.start({ data });
  await ledger.expectHistories(again, await ledger.retryAll(again));
  await again.stop();
  expect(again.errors.join('')).not.toContain('"level":"error"');
});

test('SIGTERM lets a request that is under way end', async () => {
  const server = await Server.start({ data });
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
  server.child.kill('SIGTERM');
  await eventually(() => server.errors.join('').includes('"stopping"'), 'the process stops');
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  expect(answer.statusCode).toBe(202);
  answer.resume();
  expect(await server.exit).toBe(0);
});

test('whoever reads its log may end: the service goes on', async () => {
  const server = await Server.start({ data, env: { CREDENCE_LOG_LEVEL: 'debug' } });
  server.child.stdout!.destroy();
  server.child.stderr!.destroy();
  // Each is a line in the log.
  for (let n = 0; n < 5; n++) expect((await server.relay()).status).toBe(202);
  expect(await server.stop()).toBe(0);
});
