import { sessionsEnded } from '../../src/features/accounts/domain/wallets.events.js';
import { SessionEnds } from '../../src/features/accounts/session-ends.js';
import { Logger } from '../../src/kernel/logger.js';
import { Consumers } from '../../src/read-side/consumers.js';
import type { Views } from '../../src/read-side/views.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';

test('while the log cannot be read, says so once, and then notices what ended meanwhile', async () => {
  const stop = new AbortController();
  const lines: string[] = [];
  const from: number[] = [];
  let failures = 3;
  const store = {
    head: async () => 7,
    async *readAll(position: number) {
      from.push(position);
      if (failures-- > 0) throw new Error('away');
      yield [{ position: 8, type: sessionsEnded.type, data: { wallet: '0xabc' } }];
    },
  } as unknown as EventStore;
  const views = { applied: async () => 8 } as unknown as Views;
  const consumers = new Consumers(store, views, new Logger('warn', (line) => lines.push(line)));
  const ends = new SessionEnds(consumers, store);
  const ended = await new Promise((resolve) => void ends.watch(resolve, stop.signal));
  stop.abort();
  expect(ended).toBe('0xabc');
  expect(from).toEqual([7, 7, 7, 7]);
  expect(lines).toEqual([expect.stringMatching(/ends of sessions.*away/)]);
});
