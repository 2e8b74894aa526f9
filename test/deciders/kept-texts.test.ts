import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deleteText, keepText, keptText, withTexts } from '../../src/commands/kept-texts.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { Problem } from '../../src/kernel/problems.js';
import { closeStores, openStores } from '../../src/stores/open.js';

/** A text is there while an event names its hash, however the requests that sent it end. */

const TEXT = 'https://forum.example/1';
let folder: string;
let stores: Awaited<ReturnType<typeof openStores>>;
const keep = () => keepText(stores.keyValue, TEXT);
const kept = () => keptText(stores.keyValue, sha256Hex(TEXT));
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credence-texts-'));
  stores = await openStores(folder, Date.now);
});
afterEach(async () => {
  await closeStores(stores);
  await rm(folder, { recursive: true, force: true });
});

test('a refused request takes its text away', async () => {
  const takeAway = await keep();
  expect(await kept()).toBe(TEXT);
  await takeAway();
  expect(await kept()).toBeNull();
});

test('a refused request leaves a text that another one has sent since, or had sent before', async () => {
  const [first, second] = [await keep(), await keep()];
  await first();
  expect(await kept()).toBe(TEXT);
  await second();
  expect(await kept()).toBe(TEXT);
});

test('a text that was taken away or deleted can be sent again', async () => {
  await (
    await keep()
  )();
  await keep();
  expect(await kept()).toBe(TEXT);
  expect(await deleteText(stores.keyValue, sha256Hex(TEXT))).toBe(true);
  expect(await kept()).toBeNull();
  await keep();
  expect(await kept()).toBe(TEXT);
});

test('a text stays if its event may have been recorded: only a refusal takes it away', async () => {
  const failing = (error: Error) =>
    withTexts(stores.keyValue, [TEXT], async () => {
      throw error;
    });
  await expect(failing(new Problem('record_conflict', 'refused'))).rejects.toThrow('refused');
  expect(await kept()).toBeNull();
  await expect(failing(new Error('no answer'))).rejects.toThrow('no answer');
  expect(await kept()).toBe(TEXT);
});
