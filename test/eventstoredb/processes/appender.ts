import { randomUUID } from 'node:crypto';
import { EventStoreDBClient, jsonEvent, NO_STREAM } from '@eventstore/db-client';
import { EventStoreDbEventStore } from '../../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { sampleEvents } from '../../contracts/sample-events.js';

/**
 * Appends without end with 64 writers, with this adapter or with the client's own appendToStream: two events of `bytes`
 * bytes each. Prints `{appended, refused, rss, sockets}` ten times a second: counts so far, what was refused by error,
 * resident bytes, open sockets.
 */
const [url, by, bytes] = process.argv.slice(2) as [string, 'adapter' | 'client', string];
const body = { text: 'x'.repeat(Number(bytes)) };
let append: (stream: string) => Promise<unknown>;
if (by === 'adapter') {
  const store = await EventStoreDbEventStore.open({ url, answerMs: 500, patienceMs: 1_500 });
  append = (stream) => store.append(stream, 'no-stream', sampleEvents(stream, 2, body));
} else {
  const client = EventStoreDBClient.connectionString(url);
  append = (stream) => {
    const events = sampleEvents(stream, 2, body).map((event) =>
      jsonEvent({ ...event, metadata: { ...event.metadata } }),
    );
    return client.appendToStream(stream, events, { expectedRevision: NO_STREAM });
  };
}

let appended = 0;
const refused: Record<string, number> = {};
setInterval(() => {
  const sockets = process.getActiveResourcesInfo().filter((resource) => resource === 'TCPSocketWrap').length;
  process.stdout.write(`${JSON.stringify({ appended, refused, rss: process.memoryUsage.rss(), sockets })}\n`);
}, 100);
const writer = async () => {
  for (;;) {
    try {
      await append(`appended-${randomUUID()}`);
      appended++;
    } catch (error) {
      refused[(error as Error).name] = (refused[(error as Error).name] ?? 0) + 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
};
await Promise.all(Array.from({ length: 64 }, writer));
