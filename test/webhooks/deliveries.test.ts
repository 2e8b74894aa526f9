import { type Delivery, Deliveries, type Progress } from '../../src/features/webhooks/deliveries.js';
import { DeliveryCreator } from '../../src/features/webhooks/delivery-creator.js';
import { Pump } from '../../src/features/webhooks/pump.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

/** What is kept of a webhook's deliveries, and how many of one owner may wait. */

const WEBHOOK = 'wh_1';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let keyValue: LmdbKeyValue;
let deliveries: Deliveries;
beforeEach(async () => {
  folder = await temporaryFolder();
  keyValue = await LmdbKeyValue.open(folder.path, { clock: Date.now });
  deliveries = new Deliveries(keyValue);
});
afterEach(async () => {
  await keyValue.close();
  await folder.remove();
});

const delivery = (n: number): Delivery => ({
  n,
  message_id: `m${n}`,
  event: 'rating.changed',
  tris_id: 'tris:bob',
  position: n + 1,
  body: '{}',
  created_at: 0,
  status: 'delivered',
  attempts: 1,
  next_at: null,
  last: null,
});

/** Stores deliveries from 0 on, of which some wait. */
async function made(count: number, open: number[], webhook = WEBHOOK): Promise<Progress> {
  await Promise.all(Array.from({ length: count }, (_, n) => deliveries.create(webhook, delivery(n), undefined)));
  const sizes = Array.from({ length: Math.min(count, 1_000) }, () => 2);
  const progress = { began: 0, position: count, next: count, open, sizes, bytes: 2 * sizes.length };
  await deliveries.replaceProgress(webhook, undefined, progress);
  return progress;
}

async function kept(count: number, webhook = WEBHOOK): Promise<number[]> {
  const found = await Promise.all(Array.from({ length: count }, (_, n) => deliveries.get(webhook, n)));
  return found.flatMap((each) => (each ? [each.n] : []));
}

test('the newest 1,000 deliveries of a webhook are kept, and those that wait', async () => {
  const progress = await made(1_203, [0, 150]);
  await deliveries.trim(WEBHOOK, 1_000, progress);
  const left = await kept(1_203);
  expect(left).toHaveLength(1_002);
  expect(left.slice(0, 3)).toEqual([0, 150, 203]);
});

test('nothing is left of a webhook that was deleted', async () => {
  const progress = await made(1_100, [3]);
  await deliveries.trim(WEBHOOK, 1_000, progress);
  // Two that were stored, but not their progress.
  for (const n of [1_100, 1_101]) await deliveries.create(WEBHOOK, delivery(n), undefined);
  await deliveries.forget(WEBHOOK, { ...progress, next: 1_102 });
  expect(await kept(1_102)).toEqual([]);
  expect(await deliveries.progressOf(WEBHOOK)).toBeUndefined();
});

test('the log is not read further for an organization of whose webhooks 10,000 deliveries wait, and is for others', async () => {
  const waiting = (owner: string | null, count: number) =>
    pump(owner, {
      began: 0,
      position: 0,
      next: count,
      open: Array.from({ length: count }, (_, n) => n),
      sizes: [],
      bytes: 0,
    });
  const full = Array.from({ length: 11 }, () => waiting('tris:lendco', 910));
  const others = [waiting('tris:other', 999), ...Array.from({ length: 11 }, () => waiting(null, 999))];
  const readyOf = creator({ waiting_deliveries: 10_000, delivery_bytes: Infinity });
  expect(await readyOf([...full, ...others])).toEqual(others);
  expect(await readyOf([...full.slice(1), ...others])).toHaveLength(22);
});

test('the oldest deliveries go that have ended, where those of an organization have too many bytes, an equal share to each webhook', async () => {
  // 2,000 bytes each.
  const [busy, other, quiet] = [await made(1_000, [0, 1]), await made(1_000, [], 'wh_2'), await made(3, [], 'wh_3')];
  const pumps = [pump('tris:lendco', busy), pump('tris:lendco', other, 'wh_2'), pump('tris:other', quiet, 'wh_3')];
  const readyOf = creator({ waiting_deliveries: 10_000, delivery_bytes: 2_400 });
  expect(await readyOf(pumps)).toEqual(pumps);
  // Two of the first wait.
  expect(await kept(1_000)).toEqual([0, 1, ...Array.from({ length: 598 }, (_, n) => 402 + n)]);
  expect(await kept(1_000, 'wh_2')).toEqual(Array.from({ length: 600 }, (_, n) => 400 + n));
  expect(await kept(3, 'wh_3')).toEqual([0, 1, 2]);
  expect(pumps.map(({ progress, isUnsaved }) => [progress.bytes, isUnsaved])).toEqual([
    [1_200, true],
    [1_200, true],
    [6, false],
  ]);
});

test('the log is not read further for an organization of whose webhooks too many bytes wait, and is for others', async () => {
  const progress = await made(
    600,
    Array.from({ length: 500 }, (_, n) => n),
  );
  const pumps = [pump('tris:lendco', progress), pump('tris:other', await made(600, [], 'wh_2'), 'wh_2')];
  const readyOf = creator({ waiting_deliveries: 10_000, delivery_bytes: 900 });
  expect(await readyOf(pumps)).toEqual(pumps.slice(1));
  expect(progress.bytes).toBe(1_000);
  progress.open = [];
  expect(await readyOf(pumps)).toEqual(pumps);
  expect(await kept(600)).toHaveLength(450);
});

function pump(owner: string | null, progress: Progress, id = WEBHOOK): Pump {
  return Object.assign(Object.create(Pump.prototype), {
    isStopped: false,
    isUnsaved: false,
    url: 'https://receiver.example',
    webhook: { webhook_id: id, owner, disabled: null },
    progress,
  });
}

/** @returns a function with the pumps that are read on for */
function creator(limits: { waiting_deliveries: number; delivery_bytes: number }) {
  let ready: readonly Pump[] = [];
  const consumers = { hand: async (pumps: readonly Pump[]) => ((ready = pumps), false) };
  const parts = [null, deliveries, null, consumers, null, null, { limits }] as unknown;
  const made = new DeliveryCreator(...(parts as ConstructorParameters<typeof DeliveryCreator>));
  return async (pumps: Pump[]) => {
    await made.read(pumps, 1);
    return ready;
  };
}
