import type { JobHandler } from '../../src/stores/ports/jobs.js';
import type { Logger } from '../../src/kernel/logger.js';
import { Consumers } from '../../src/read-side/consumers.js';
import type { Views } from '../../src/read-side/views.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { Dispatcher } from '../../src/features/webhooks/dispatcher.js';

test('no event is reported that one of the webhooks may not have known', async () => {
  const rows = Array.from({ length: 1_001 }, (_, n) => {
    return { sort: `${n}`, value: { webhook_id: `whk_${n}`, owner: null, changed: 1 } };
  });
  let applied = 5;
  const rowsAt9 = async () => {
    applied = 9;
    return rows;
  };
  const stop = new AbortController();
  const asked: number[] = [];
  let run: JobHandler | undefined;
  const parts = {
    views: { rows: rowsAt9, applied: async () => applied },
    webhooks: { read: async () => undefined },
    consumers: new Consumers({} as EventStore, {} as Views, {} as Logger),
    creator: { read: async (_pumps: unknown, known: number) => void stop.abort(asked.push(known)), clear() {} },
    sender: {},
    deliveries: {},
    config: {},
    logger: {},
    store: {},
    jobs: { handle: (_kind: string, handler: JobHandler) => (run = handler) },
  };
  const dispatcher = new Dispatcher(...(Object.values(parts) as unknown as ConstructorParameters<typeof Dispatcher>));
  dispatcher.onModuleInit();
  await expect(run!({ signal: stop.signal } as never)).rejects.toBeDefined();
  expect([asked, applied]).toEqual([[5], 9]);
});
