import type { Worker } from 'node:worker_threads';
import { Registry } from 'prom-client';
import { Logger } from '../../src/kernel/logger.js';
import { ProofVerifier } from '../../src/features/verifications/verifier.js';
import { type Proven, keyOf, prove } from './proofs.fixture.js';

/** The threads behind it: what happens when there is too much to do, and when one dies. */

const key = keyOf('kyh');
let proven: Proven;
let verifier: ProofVerifier;
let errors: string[];
beforeAll(async () => {
  const members = [{ secret: '11', expires_at: '1900000000' }];
  [proven] = (await prove([{ circuit: 'kyh', members, holder: 0, scope: '5', subject: '7' }])) as [Proven];
});
beforeEach(() => {
  errors = [];
  verifier = new ProofVerifier(new Registry(), new Logger('error', (line) => void errors.push(line)));
});
afterEach(() => verifier.onModuleDestroy());

const ask = (_?: unknown, n = 0) =>
  verifier.verify({ hash: 'kyh', key, proof: proven.proof, signals: proven.public_signals }, `caller ${n % 10}`);
const threads = () => [...(verifier as unknown as { threads: Set<{ worker: Worker }> }).threads];
const outcomes = async (asked: Promise<unknown>[]) =>
  (await Promise.allSettled(asked)).map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code));

test('the event loop goes on while proofs are verified', async () => {
  let turns = 0;
  let verifying = true;
  const turn = () => {
    turns++;
    if (verifying) setImmediate(turn);
  };
  turn();
  expect(await outcomes(Array.from({ length: 5 }, ask))).toEqual(Array(5).fill(true));
  verifying = false;
  // Verified here, five proofs would leave five turns.
  expect(turns).toBeGreaterThan(100);
});

test('beyond a bounded queue proofs are refused, and say when to come back', async () => {
  const asked = Array.from({ length: 100 }, ask);
  const busy = threads().length;
  const refused = asked.slice(64 + busy);
  expect(await outcomes(refused)).toEqual(Array(36 - busy).fill('verifier_unavailable'));
  const reason: unknown = await refused[0]!.catch((error) => error);
  expect(reason).toMatchObject({ status: 503, extra: { headers: { 'retry-after': '2' } } });
  expect(await outcomes(asked.slice(0, busy + 1))).toEqual(Array(busy + 1).fill(true));
  // There is room again: this one waits instead of being refused at once.
  const waits = Symbol('waits');
  const later = ask().catch(() => 'refused');
  expect(await Promise.race([later, new Promise((resolve) => setImmediate(resolve, waits))])).toBe(waits);
  await Promise.allSettled([verifier.onModuleDestroy(), ...asked]);
});

test('one caller’s proofs do not keep another’s waiting, nor take all the room', async () => {
  const order: string[] = [];
  const asking = (n: number) => ask(undefined, n).then(() => void order.push(`caller ${n}`));
  const many = Array.from({ length: 30 }, () => asking(1));
  const busy = threads().length;
  expect(await outcomes(many.slice(16 + busy))).toEqual(Array(14 - busy).fill('verifier_unavailable'));
  await asking(2);
  // Those that were being verified, and one more at each thread.
  expect(order.indexOf('caller 2')).toBeLessThanOrEqual(2 * busy);
  await Promise.allSettled(many);
  expect(order).toHaveLength(17 + busy);
});

test('a thread that dies is replaced, and its proof verified by another', async () => {
  expect(await ask()).toBe(true);
  const [before] = threads();
  const asked = [ask(), ask()];
  await before!.worker.terminate();
  expect(await outcomes(asked)).toEqual([true, true]);
  expect(threads()).not.toContain(before);
  expect(await ask()).toBe(true);
});

test('a request that ends two threads is given up, and the next one is answered', async () => {
  // What no client can send: a key without points makes the thread throw.
  const deadly = verifier.verify({ hash: 'none', key: {} as never, proof: proven.proof, signals: [] }, 'caller');
  expect(await outcomes([deadly, ask()])).toEqual(['verifier_unavailable', true]);
  expect(errors).toHaveLength(2);
});

test('after closing it accepts no request and leaves no thread', async () => {
  const asked = [ask(), ask(), ask()];
  await verifier.onModuleDestroy();
  expect(await outcomes([...asked, ask()])).toEqual(Array(4).fill('verifier_unavailable'));
  await new Promise(setImmediate);
  expect(threads()).toEqual([]);
});
