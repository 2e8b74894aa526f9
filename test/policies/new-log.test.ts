import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { beginLog } from '../../src/features/lenses/new-log.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { disc2 } from '../../src/scoring/models/disc-2.js';
import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { plantAction } from '../contracts/sample-events.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { describeWithEventStored, startEventStored } from '../servers/eventstored.js';

/** Which version of the model a new log begins with. */

const all = async (store: EventStore) => {
  const events = [];
  for await (const slice of store.readAll(0)) events.push(...slice);
  return events;
};

async function beginsOnce(store: EventStore): Promise<void> {
  await Promise.all(Array.from({ length: 8 }, (_, n) => beginLog(store, () => Date.now() + n)));
  await beginLog(store, Date.now);
  expect(await all(store)).toMatchObject([
    {
      stream: 'lens-platform',
      revision: 0,
      type: 'ModelActivated',
      data: {
        reason: 'promoted',
        model: { id: 'disc-2', hash: disc2.hash },
        previous: { id: 'disc-1', hash: disc1.hash },
        replay_id: null,
      },
    },
  ]);
}

describe('on LMDB', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  const open = () => LmdbEventStore.open(join(folder.path, randomUUID()));
  beforeAll(async () => void (folder = await temporaryFolder()));
  afterAll(() => folder.remove());

  test('a new log begins with the activation of disc-2, once, however many begin it at once', async () => {
    const store = await open();
    await beginsOnce(store);
    await store.close();
  });

  test('a log that has events is left as it is', async () => {
    const store = await open();
    await plantAction(store, { tris_id: 'tris:old' });
    await beginLog(store, Date.now);
    expect(await all(store)).toHaveLength(1);
    await store.close();
  });
});

describeWithEventStored('on EventStoreDB', () => {
  test('a new log begins with the activation of disc-2, once, however many begin it at once', async () => {
    const server = await startEventStored();
    const store = await EventStoreDbEventStore.open({ url: server.url });
    await beginsOnce(store);
    await store.close();
    await server.stop();
  }, 180_000);
});
