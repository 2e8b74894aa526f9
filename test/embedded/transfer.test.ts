import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { decorated } from '../../src/kernel/decorated.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { TransferError, appendsIn, checkExport, exportLines, importEvents } from '../../src/stores/transfer.js';
import { newStream, sampleEvents } from '../contracts/sample-events.js';
import { temporaryFolder } from './temporary-folder.js';

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let store: LmdbEventStore;
beforeEach(async () => {
  folder = await temporaryFolder();
  store = await LmdbEventStore.open(join(folder.path, 'log'));
});
afterEach(async () => {
  await store.close();
  await folder.remove();
});

test('an export that lacks damaged events says which, and is imported on request only', async () => {
  for (const stream of ['a', 'b', 'c']) await store.append(stream, 'no-stream', sampleEvents(stream));
  const damaged = decorated<EventStore>(store, {
    async *readAll(after) {
      for await (const slice of store.readAll(after)) {
        yield slice.map((event) =>
          event.stream === 'b' ? { ...event, damage: { reason: 'it is gone', tris_id: null } } : event,
        );
      }
    },
  });
  const lacking: string[] = [];
  let lines = '';
  for await (const text of exportLines(damaged, undefined, { onDamage: ({ stream }) => void lacking.push(stream) })) {
    lines += text;
  }
  expect(lacking).toEqual(['b']);
  const file = join(folder.path, 'export.ndjson');
  writeFileSync(file, lines);
  await expect(checkExport(file)).rejects.toThrow('lacks 1 events that were damaged in their log');
  const imported: RecordedEvent[] = [];
  for await (const append of appendsIn(file)) imported.push(...append);
  expect(imported.map(({ stream }) => stream)).toEqual(['a', 'c']);
});

test.each<[string, (events: RecordedEvent[]) => void]>([
  ['another stream', ([, second]) => (second!.stream = '../../etc/x')],
  ['another revision', ([, second]) => (second!.revision = 7)],
  ['another place', ([, second]) => (second!.metadata = { ...second!.metadata, index: 0 })],
  ['another size', ([, second]) => (second!.metadata = { ...second!.metadata, size: 2 })],
  ['no id of an event', ([, second]) => (second!.id = '../../etc/x')],
  ['the end of another append', (events) => void events.splice(1, 2)],
])('an event of an append with %s is not imported', async (_what, change) => {
  for (const stream of ['a', 'b']) await store.append(stream, 'no-stream', sampleEvents(stream, 3));
  const events: RecordedEvent[] = [];
  for await (const slice of store.readAll(0)) events.push(...structuredClone(slice));
  change(events);
  const file = join(folder.path, 'export.ndjson');
  writeFileSync(file, events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  const other = await LmdbEventStore.open(join(folder.path, 'other'));
  await expect(importEvents(appendsIn(file), other)).rejects.toThrow(/^Line 2 is not /);
  expect(await other.head()).toBe(0);
  await other.close();
});

test('an import stops where the log does not keep the order of the events', async () => {
  const positions = [1, 3, 2];
  const unordered = decorated<EventStore>(store, {
    append: async () => ({ position: positions.shift()!, revision: 0 }),
  });
  async function* appends() {
    for (let position = 1; position <= 3; position++) {
      const stream = newStream();
      yield sampleEvents(stream).map((event) => ({ ...event, stream, revision: 0, position }));
    }
  }
  await expect(importEvents(appends(), unordered)).rejects.toThrow(TransferError);
});
