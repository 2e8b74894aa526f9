import { Logger } from '../../src/kernel/logger.js';
import { ClockComparison } from '../../src/stores/postgres/clock-comparison.js';

test('a difference above 2 s is logged once, and once more when it is gone; the time of the question does not count', async () => {
  const lines: string[] = [];
  let [own, server, travel] = [10_000_000, 10_000_000, 0];
  const serverTime = async () => {
    own += travel;
    if (Number.isNaN(server)) throw new Error('away');
    return server;
  };
  const comparison = new ClockComparison(serverTime, () => own, new Logger('warn', (line) => void lines.push(line)));
  const skewWith = async (next: { server: number; travel?: number }) => {
    travel = next.travel ?? 0;
    server = own + next.server;
    await comparison.compare();
    return comparison.skew;
  };
  try {
    expect(await skewWith({ server: -2_000 })).toBe(2_000);
    // The question took 5 s, and the server answered somewhere within them.
    expect(await skewWith({ server: 1_000, travel: 5_000 })).toBe(0);
    expect(lines).toEqual([]);
    expect(await skewWith({ server: -7_200 })).toBe(7_200);
    expect(await skewWith({ server: -7_300 })).toBe(7_300);
    expect(await skewWith({ server: NaN })).toBe(7_300);
    expect(await skewWith({ server: 3_000 })).toBe(-3_000);
    expect(lines).toEqual([expect.stringContaining('the clock of this process is 7.2 s ahead of that of PostgreSQL')]);
    expect(await skewWith({ server: 0 })).toBe(0);
    expect(lines.slice(1)).toEqual([expect.stringContaining('agree again')]);
  } finally {
    comparison.stop();
  }
});
