import { EventStoreDbEventStore } from '../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { becomes, eventually, recovery } from '../contracts/harness.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { describeWithEventStored } from '../servers/eventstored.js';
import { ThreeNodes } from '../servers/three-nodes.js';

const LONG = 300_000;

describeWithEventStored('three nodes of EventStoreDB with TLS and users', () => {
  let cluster: ThreeNodes;
  let store: EventStoreDbEventStore | undefined;
  beforeAll(async () => void (cluster = await ThreeNodes.start()), LONG);
  afterAll(async () => {
    await store?.close();
    await cluster.stop();
  }, LONG);

  test(
    'the leader is killed under appends: another takes over, nothing acknowledged is lost, nothing is there twice',
    async () => {
      const said: string[] = [];
      const open = () =>
        EventStoreDbEventStore.open({ url: cluster.url, onWarning: (message) => void said.push(message) });
      await eventually(async () => (store = await open().catch(() => undefined)) !== undefined, 'the store is open');
      const log = store!;
      const start = await log.head();
      const acknowledged: string[] = [];
      let ended = false;
      const writers = Array.from({ length: 8 }, async () => {
        while (!ended) {
          const stream = newStream('leader');
          const events = sampleEvents(stream, 2);
          // Repeated until there is an answer, as clients do.
          for (let done = false; !done && !ended;) {
            done = await log.append(stream, 'no-stream', events).then(
              () => true,
              () => false,
            );
            if (done) acknowledged.push(stream);
          }
        }
      });
      await eventually(() => acknowledged.length > 50, 'appends');
      const lost = (await becomes(
        () => cluster.leader(),
        (node) => node !== undefined,
      ))!;
      await lost.kill();
      const before = acknowledged.length;
      try {
        const next = eventually(() => acknowledged.length > before + 50, 'appends to the next leader');
        await recovery('EventStoreDB lost its leader', cluster.withRestarts(lost, next));
      } finally {
        ended = true;
        await Promise.all(writers);
      }
      await cluster.withRestarts(
        lost,
        eventually(cluster.hasNext(lost), 'the next leader, by the gossip of the first node'),
      );
      const streams: string[] = [];
      for await (const slice of log.readAll(start)) {
        streams.push(...slice.filter(({ revision }) => revision === 0).map(({ stream }) => stream));
      }
      expect(streams.filter((stream, n) => streams.indexOf(stream) !== n)).toEqual([]);
      expect(acknowledged.filter((stream) => !streams.includes(stream))).toEqual([]);
      expect(said.filter((line) => line.startsWith('log_replaced'))).toEqual([]);
      expect(said.join()).not.toContain('changeit');
    },
    LONG,
  );

  test(
    'the leader hangs: appends go to the next one long before it answers again',
    async () => {
      await cluster.complete();
      const log = await EventStoreDbEventStore.open({ url: cluster.url });
      const isAppended = () => {
        const stream = newStream('hanging');
        return log.append(stream, 'no-stream', sampleEvents(stream, 1)).then(
          () => true,
          () => false,
        );
      };
      await eventually(isAppended, 'an append');
      const lost = (await becomes(
        () => cluster.leader(),
        (node) => node !== undefined,
      ))!;
      const proxy = cluster.proxies[cluster.nodes.indexOf(lost)]!;
      const { accepted } = proxy;
      proxy.mode = 'hanging';
      try {
        const next = eventually(isAppended, 'an append to the next leader');
        await eventually(() => proxy.accepted > accepted, 'a new connection to the leader that hangs');
        // Killed, so that the other nodes agree at once that it is gone. Its clients see it hang.
        await lost.kill();
        await cluster.withRestarts(lost, eventually(cluster.hasNext(lost), 'the next leader'));
        const elected = performance.now();
        await recovery('EventStoreDB has a leader that hangs', cluster.withRestarts(lost, next));
        // A connection attempt that nobody gives up takes a minute.
        expect(performance.now() - elected).toBeLessThan(40_000);
      } finally {
        proxy.mode = 'open';
        await log.close();
      }
    },
    LONG,
  );

  test('a wrong password is refused', async () => {
    await expect(EventStoreDbEventStore.open({ url: cluster.url.replace('changeit', 'wrong') })).rejects.toThrow(
      /refuses the credentials/,
    );
  });
});
