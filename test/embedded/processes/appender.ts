import { createInterface } from 'node:readline';
import { LmdbEventStore } from '../../../src/stores/lmdb/lmdb-event-store.js';
import { sampleEvents } from '../../contracts/sample-events.js';

/**
 * Appends to the log in the folder given. Each line of input is `{stream, size, count, inFlight}`: appends of `size`
 * events to `<stream>-<n>`; prints `{stream, position}` for each one acknowledged, `{error}` for each refused. Or it is
 * `{read}`: prints `{head, events}`, the position of the head and the number of events of that stream.
 */
const store = await LmdbEventStore.open(process.argv[2]!);
const print = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`);
print({ logId: store.logId });

for await (const line of createInterface({ input: process.stdin })) {
  const { read, stream, size = 1, count = 1, inFlight = 1 } = JSON.parse(line) as Record<string, never>;
  if (read) {
    print({ head: await store.head(), events: (await store.readStream(read)).length });
    continue;
  }
  let next = 0;
  const writer = async () => {
    while (next < count) {
      const name = `${stream}-${next++}`;
      try {
        const { position } = await store.append(name, 'no-stream', sampleEvents(name, size));
        print({ stream: name, position });
      } catch (error) {
        print({ stream: name, error: (error as Error).name });
      }
    }
  };
  await Promise.all(Array.from({ length: inFlight }, writer));
}
await store.close();
