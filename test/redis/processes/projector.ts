import { setTimeout as sleep } from 'node:timers/promises';
import { LmdbEventStore } from '../../../src/stores/lmdb/lmdb-event-store.js';
import { Logger } from '../../../src/kernel/logger.js';
import { PROJECTIONS } from '../../../src/read-side/all-projections.js';
import { Projector } from '../../../src/read-side/projector.js';
import { RedisReadModels } from '../../../src/stores/redis/redis-read-models.js';

/**
 * Applies the log in the folder to the read models in a Redis, telling each step; each takes a moment, so that a signal
 * can meet it there, and a longer one before a batch is sent if it is to be "slow". With a step to die at, it kills
 * itself when it gets there with that many batches applied.
 */
const [folder, url, dieAt, batches] = process.argv.slice(2);
const tell = (step: string, outcome?: string) => process.stdout.write(`${JSON.stringify([step, outcome])}\n`);

const store = await LmdbEventStore.open(folder!);
const models = await RedisReadModels.open({ url: url! });
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
