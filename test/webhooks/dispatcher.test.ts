import type { JobHandler } from '../../src/stores/ports/jobs.js';
import type { Logger } from '../../src/kernel/logger.js';
import { Consumers } from '../../src/read-side/consumers.js';
import type { Views } from '../../src/read-side/views.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { Dispatcher } from '../../src/features/webhooks/dispatcher.js';

test('of several pages of webhooks, no event is reported that one of them may not have known', async () => {
  const row = (n: number) => ({ sort: `${n}`, value: { webhook_id: `whk_${n}`, owner: null, changed: 1 } });
  const pages = [
    { results: [Array.from({ length: 1_000 }, (_, n) => row(n))], position: 5 },
    { results: [[row(1_000)]], position: 9 },
  ];
  const stop = new AbortController();
  const asked: number[] = [];
  let run: JobHandler | undefined;
  const parts = {
    views: { read: async () => pages.shift(), applied: async () => 9 },
    consumers: new Consumers({} as EventStore, {} as Views, {} as Logger),
    creator: { read: async (_pumps: unknown, applied: number) => void stop.abort(asked.push(applied)), clear() {} },
    sender: {},
    deliveries: {},
    config: {},
    logger: {},
    store: { readStream: async () => [] },
    keyValue: {},
    jobs: { handle: (_kind: string, handler: JobHandler) => (run = handler) },
  };
  const dispatcher = new Dispatcher(...(Object.values(parts) as unknown as ConstructorParameters<typeof Dispatcher>));
  dispatcher.onModuleInit();
  await expect(run!({ signal: stop.signal } as never)).rejects.toBeDefined();
  expect([asked, pages]).toEqual([[5], []]);
});
