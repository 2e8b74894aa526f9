import { jest } from '@jest/globals';
import { RowPages } from '../../src/features/disc/row-pages.js';
import { endOfTurn, isDue } from '../../src/kernel/turn.js';

test('a read that has just begun yields later in a turn than one that goes on, so that a short one waits for no long one', async () => {
  let now = 1_000;
  let isRead = false;
  const clock = jest.spyOn(performance, 'now').mockImplementation(() => now);
  const views = {
    readSince: async () => ((isRead = true), { manifest: {} as never, generation: 'g', position: 1, results: [] }),
  };
  const yields = async (ms: number, begun?: RowPages) => {
    await endOfTurn();
    isDue();
    now += ms;
    isRead = false;
    const read = (begun ?? new RowPages(views, 1)).read([]);
    await Promise.resolve();
    const hasYielded = !isRead;
    await read;
    return hasYielded;
  };
  try {
    const earlier = new RowPages(views, 1);
    now += 10;
    expect([await yields(1, earlier), await yields(2.5, earlier)]).toEqual([false, true]);
    expect([await yields(2.5), await yields(5)]).toEqual([false, true]);
  } finally {
    clock.mockRestore();
  }
});
