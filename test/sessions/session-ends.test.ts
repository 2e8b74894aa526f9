import { sessionsEnded } from '../../src/features/accounts/domain/wallets.events.js';
import { SessionEnds } from '../../src/features/accounts/session-ends.js';
import { Logger } from '../../src/kernel/logger.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';

test('while the log cannot be read, says so once, and then notices what ended meanwhile', async () => {
  const stop = new AbortController();
  const lines: string[] = [];
  const from: number[] = [];
  let failures = 3;
  const store = {
    head: async () => 7,
    async *subscribe(position: number) {
      from.push(position);
      if (failures-- > 0) throw new Error('away');
      yield [{ position: 8, type: sessionsEnded.type, data: { wallet: '0xabc' } }];
    },
  } as unknown as EventStore;
  const ends = new SessionEnds(store, new Logger('warn', (line) => lines.push(line)));
  const ended = await new Promise((resolve) => void ends.watch(resolve, stop.signal));
  stop.abort();
  expect(ended).toBe('0xabc');
  expect(from).toEqual([7, 7, 7, 7]);
  expect(lines).toEqual([expect.stringContaining('the log cannot be read')]);
});
