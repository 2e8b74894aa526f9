import { setTimeout as sleep } from 'node:timers/promises';
import { RowPages } from '../../src/features/disc/row-pages.js';
import { isDue } from '../../src/kernel/turn.js';

test('a read that has just begun does not wait behind long work of its turn, one that goes on does', async () => {
  let isRead = false;
  const views = {
    readSince: async () => ((isRead = true), { manifest: {} as never, generation: 'g', position: 1, results: [] }),
  };
  const earlier = new RowPages(views, 1);
  await sleep(10);
  while (!isDue());
  await Promise.race([new RowPages(views, 1).read([]), Promise.resolve().then(() => undefined)]);
  expect(isRead).toBe(true);
  isRead = false;
  const read = earlier.read([]);
  await Promise.resolve();
  expect(isRead).toBe(false);
  await read;
  expect(isRead).toBe(true);
});
