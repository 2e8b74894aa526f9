import { createInterface } from 'node:readline';
import { decorated } from '../../../src/kernel/decorated.js';
import type { RecordedEvent } from '../../../src/kernel/event.js';
import { LmdbEventStore } from '../../../src/stores/lmdb/lmdb-event-store.js';
import { Logger } from '../../../src/kernel/logger.js';
import { PROJECTIONS } from '../../../src/read-side/all-projections.js';
import { Projector } from '../../../src/read-side/projector.js';
import type { EventStore } from '../../../src/stores/ports/event-store.js';
import { PostgresReadModels } from '../../../src/stores/postgres/postgres-read-models.js';

/**
 * Applies a log to the read models in a PostgreSQL. Input: the position of the log's head, then its events in slices,
 * which are copied into a log in the folder. Tells each step. It dies or stops at one of them, "sent" being while a batch
 * is on its way, once that many batches are applied: by its own signal.
 */
const [folder, logId, url, signal, at, batches] = process.argv.slice(2);
const tell = (step: string, outcome?: string) => process.stdout.write(`${JSON.stringify([step, outcome])}\n`);

const copy = await LmdbEventStore.open(folder!);
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = async <T>() => JSON.parse((await input.next()).value as string) as T;
async function follow(until: number): Promise<void> {
  while ((await copy.head()) < until) {
    const slice = await nextLine<RecordedEvent[]>();
    while (slice.length > 0) {
      const append = slice.splice(0, slice[0]!.metadata.size);
      await copy.append(append[0]!.stream, 'any', append);
    }
  }
}
await follow(await nextLine<number>());
void follow(Infinity);
const store = decorated<EventStore>(copy, { logId });
const models = await PostgresReadModels.open({ url: url!, folder: `${folder!}-build` });
let applied = 0;
let isSignalled = false;

function reach(step: string): void {
  tell(step);
  if (step !== at || applied < Number(batches) || isSignalled) return;
  isSignalled = true;
  tell(signal!);
  process.kill(process.pid, signal);
}

const { read, apply } = models;
models.read = async (...args) => {
  reach('read');
  return read.apply(models, args);
};
models.apply = async (...args) => {
  reach('apply');
  const applying = apply.apply(models, args);
  // With the batch on its way: applied or not, nobody can tell.
  await new Promise(setImmediate);
  reach('sent');
  const outcome = await applying;
  applied++;
  tell('applied', outcome);
  reach('checkpoint');
  return outcome;
};

await new Projector(PROJECTIONS, store, models, new Logger('error')).start();
tell('started');
