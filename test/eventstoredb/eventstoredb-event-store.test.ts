import { EventStoreDbEventStore } from '../../src/event-store/eventstoredb/eventstoredb-event-store.js';
import { describeEventStore } from '../contracts/event-store.contract.js';
import { describeWithEventStored, noEventStore, someEventStore } from '../servers/eventstored.js';

describeWithEventStored(
  'the cluster’s log',
  () => {
    let server: Awaited<ReturnType<typeof someEventStore>>;
    beforeAll(async () => void (server = await someEventStore()), 90_000);
    afterAll(() => server?.stop());

    describeEventStore('EventStoreDB', async () => ({
      open: () => EventStoreDbEventStore.open({ url: server.url }),
      destroy: async () => undefined,
    }));
  },
  noEventStore,
);
