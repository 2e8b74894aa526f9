import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { takeLease } from '../../src/read-side/lease.js';
import type { ReadModels } from '../../src/stores/ports/read-models.js';

/** When the holder of a lease gives up its work. */

/** A lease that is taken, and renewed with these results, the last of which repeats. */
async function leaseWith(...renewals: (boolean | Error)[]) {
  const results = [true, ...renewals];
  const acquireLease = async () => {
    const result = results.length > 1 ? results.shift()! : results[0]!;
    if (result instanceof Error) throw result;
    return result;
  };
  const readModels = { acquireLease, releaseLease: async () => undefined } as unknown as ReadModels;
  return (await takeLease('g1', 'me', readModels, 'log'))!;
}

const noAnswer = new Error('no answer');
const RENEWED_TWICE_MS = 1_600;

test('a renewal without an answer does not end the work while the lease lasts', async () => {
  const lease = await leaseWith(noAnswer, true);
  await sleep(RENEWED_TWICE_MS);
  expect(lease.lost.aborted).toBe(false);
  await lease.release();
});

test('the work ends when the lease is over without an answer, and at once when another has it', async () => {
  for (const [renewal, leastMs] of [
    [noAnswer, RENEWED_TWICE_MS],
    [false, 0],
  ] as const) {
    const lease = await leaseWith(renewal);
    const began = performance.now();
    await once(lease.lost, 'abort');
    expect(performance.now() - began).toBeGreaterThan(leastMs);
    if (renewal === false) expect(performance.now() - began).toBeLessThan(RENEWED_TWICE_MS);
    await lease.release();
  }
});
