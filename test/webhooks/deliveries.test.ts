import { type Delivery, Deliveries, type Progress } from '../../src/features/webhooks/deliveries.js';
import { DeliveryCreator } from '../../src/features/webhooks/delivery-creator.js';
import type { Pump } from '../../src/features/webhooks/pump.js';
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
async function made(count: number, open: number[]): Promise<Progress> {
  await Promise.all(Array.from({ length: count }, (_, n) => deliveries.create(WEBHOOK, delivery(n), undefined)));
  const progress = { began: 0, position: count, next: count, open };
  await deliveries.replaceProgress(WEBHOOK, undefined, progress);
  return progress;
}

async function kept(count: number): Promise<number[]> {
  const found = await Promise.all(Array.from({ length: count }, (_, n) => deliveries.get(WEBHOOK, n)));
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
  expect(await deliveries.progressOf({ webhook_id: WEBHOOK })).toBeUndefined();
});

test('the log is not read further for an organization of whose webhooks 10,000 deliveries wait, and is for others', async () => {
  const pump = (owner: string | null, waiting: number) =>
    ({ isActive: true, webhook: { owner }, progress: { open: Array.from({ length: waiting }, (_, n) => n) } }) as Pump;
  const full = Array.from({ length: 11 }, () => pump('tris:lendco', 910));
  const others = [pump('tris:other', 999), ...Array.from({ length: 11 }, () => pump(null, 999))];
  let ready: readonly Pump[] = [];
  const consumers = { hand: async (pumps: readonly Pump[]) => ((ready = pumps), false) };
  const limits = { waiting_deliveries: 10_000 };
  const creator = new DeliveryCreator(...([null, null, null, consumers, null, null, { limits }] as unknown as Creator));
  await creator.read([...full, ...others], 1);
  expect(ready).toEqual(others);
  await creator.read([...full.slice(1), ...others], 1);
  expect(ready).toHaveLength(22);
});
type Creator = ConstructorParameters<typeof DeliveryCreator>;
