import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ledger, WRITERS, expectVerified } from './ledger.js';
import { Server, environmentOf } from './server.js';

/** Whatever ends the process, and whenever: an acknowledged action is there, once, and a retry of any other succeeds. */

let data: string;
beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-crash-'))));
afterEach(() => rm(data, { recursive: true, force: true }));

test('kill -9 in the middle of writes loses nothing acknowledged and doubles nothing', async () => {
  const ledger = new Ledger();
  for (const lifetime of [60, 250, 500]) {
    const victim = await Server.start({ data });
    const before = ledger.acknowledged;
    const writers = Array.from({ length: WRITERS }, () => ledger.write(victim));
    // By progress first, so that a slow machine is not killed before it has begun.
    while (ledger.acknowledged < before + 20) await sleep(5);
    await sleep(lifetime);
    await victim.kill();
    await Promise.all(writers);
    expect(ledger.acknowledged).toBeGreaterThan(before);

    const server = await Server.start({ data });
    await ledger.expectHistories(server, await ledger.retryAll(server));
    await expectVerified(await environmentOf(data));
    await server.stop();
  }
}, 120_000);

test('SIGTERM in the middle of writes ends with 0 in time, and every acknowledged action is there', async () => {
  const ledger = new Ledger();
  const server = await Server.start({ data });
  const writers = Array.from({ length: WRITERS }, () => ledger.write(server));
  while (ledger.acknowledged < 200) await sleep(5);
  const begun = Date.now();
  expect(await server.stop()).toBe(0);
  expect(Date.now() - begun).toBeLessThan(10_000);
  await Promise.all(writers);

  const again = await Server.start({ data });
  await ledger.expectHistories(again, await ledger.retryAll(again));
  await again.stop();
  expect(again.errors.join('')).not.toContain('"level":"error"');
}, 120_000);
