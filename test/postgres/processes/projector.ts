import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { decorated } from '../../../src/kernel/decorated.js';
import type { RecordedEvent } from '../../../src/kernel/event.js';
import { LmdbEventStore } from '../../../src/stores/lmdb/lmdb-event-store.js';
import { Logger } from '../../../src/kernel/logger.js';
import { PROJECTIONS } from '../../../src/read-side/all-projections.js';
import { Projector } from '../../../src/read-side/projector.js';
import type { EventStore } from '../../../src/stores/ports/event-store.js';
import { PostgresReadModels } from '../../../src/stores/postgres/postgres-read-models.js';

/**
 * Applies a log to the read models in a PostgreSQL. Input: the position of the log's head, then its events in slices, which are
 * copied into a log in the folder. Tells each step; each takes a moment, so that a signal
 * can meet it there, and a longer one before a batch is sent if it is to be "slow". With a step to die at, it kills
 * itself when it gets there with that many batches applied.
 */
const [folder, logId, url, dieAt, batches] = process.argv.slice(2);
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

async function reach(step: string): Promise<void> {
  if (step === dieAt && applied >= Number(batches)) process.kill(process.pid, 'SIGKILL');
  tell(step);
  await sleep(10);
}

const { read, apply } = models;
models.read = async (...args) => {
  await reach('read');
  return read.apply(models, args);
};
models.apply = async (...args) => {
  await reach('apply');
  if (dieAt === 'slow') await sleep(1_000);
  if (dieAt === 'sent' && applied >= Number(batches)) {
    // Killed with the batch on its way: applied or not, nobody will tell.
    void apply.apply(models, args);
    await new Promise(setImmediate);
    process.kill(process.pid, 'SIGKILL');
  }
  const outcome = await apply.apply(models, args);
  applied++;
  tell('applied', outcome);
  await reach('checkpoint');
  return outcome;
};

await new Projector(PROJECTIONS, store, models, new Logger('error')).start();
tell('started');
