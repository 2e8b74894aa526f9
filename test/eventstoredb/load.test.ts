import { setTimeout as sleep } from 'node:timers/promises';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { AppendPipe } from '../../src/stores/eventstoredb/append-pipe.js';
import { Connection } from '../../src/stores/eventstoredb/connection.js';
import { readServerStream, type ServerStream } from '../../src/stores/eventstoredb/server-stream.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { describeWithEventStored, type EventStored, startEventStored } from '../servers/eventstored.js';
import { Proxy } from '../servers/proxy.js';

/** ms; a time limit for a busy machine. */
const LONG = 180_000;

describeWithEventStored('one call among others on the connection to EventStoreDB', () => {
  let server: EventStored;
  let proxy: Proxy;
  let url: string;

  beforeAll(async () => void (server = await startEventStored()), LONG);
  afterAll(() => server?.stop());
  beforeEach(async () => {
    proxy = await Proxy.to(server.port);
    url = `esdb://127.0.0.1:${proxy.port}?tls=false`;
  });
  afterEach(() => proxy.close());

  /** Never yields anything. */
  const silence: ServerStream = {
    on: () => silence,
    pause: () => silence,
    resume: () => silence,
    cancel: () => undefined,
  };
  async function unanswered(connection: Connection): Promise<Error> {
    const read = connection.persist(async (link) => {
      const reading = readServerStream(link, async () => silence, { take: () => undefined, rest: () => undefined });
      for await (const _ of reading) return;
    });
    return read.then(
      () => new Error('it was answered'),
      (error: Error) => error,
    );
  }

  test.each(['beside appends', 'alone'])(
    'a call that the server does not answer, %s, fails alone',
    async (how) => {
      const connection = new Connection(url, { answerMs: 3_000, callMs: 6_000, patienceMs: 6_000 }, () => undefined);
      const pipe = new AppendPipe(connection);
      const append = async () => {
        const stream = newStream();
        await pipe.append(stream, 'no-stream', sampleEvents(stream, 1));
      };
      try {
        await append();
        const { link } = connection;
        const { accepted } = proxy;
        let over = false;
        const failure = unanswered(connection).finally(() => (over = true));
        while (!over) await (how === 'alone' ? sleep(50) : append());
        expect(await failure).toBeInstanceOf(StoreUnavailable);
        expect((await failure).message).toContain('though the server answers other calls');
        expect(connection.link).toBe(link);
        await append();
        expect(proxy.accepted).toBe(accepted);
      } finally {
        connection.close();
      }
    },
    LONG,
  );
});
