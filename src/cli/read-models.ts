import { setTimeout as sleep } from 'node:timers/promises';
import { projectionsFor } from '../app.module.js';
import type { Config } from '../config.js';
import type { Log } from '../ops/log.js';
import { PROJECTIONS } from '../projector/all-projections.js';
import { Projector } from '../projector/projector.js';
import type { Stores } from '../stores.js';
import { CommandFailed } from './cli.js';

const LOOK_MS = 50;

/**
 * Waits until every serving read model has applied the log up to its present head. This process applies it, or stands by
 * while a running server does.
 * @param onProgress events applied, of those that were missing
 * @throws CommandFailed if the projector had to halt
 */
export async function applyAll(
  { eventStore, readModels }: Stores,
  config: Pick<Config, 'modules'>,
  log: Log,
  onProgress: (done: number, total: number) => void = () => undefined,
): Promise<void> {
  const head = await eventStore.head();
  const wanted = projectionsFor(config.modules);
  const projections = PROJECTIONS.filter(({ name }) => wanted.has(name));
  const projector = new Projector(projections, eventStore, readModels, log);
  await projector.start();
  try {
    let missing: number | undefined;
    for (;;) {
      const views = (await readModels.manifest())?.views ?? {};
      const serving = new Set(projections.map(({ name }) => views[name]));
      const generations = (await readModels.generations()).filter(({ id }) => serving.has(id));
      const applied = Math.min(...generations.map(({ checkpoint }) => checkpoint.position));
      const left = Math.max(0, head - applied);
      missing ??= left;
      onProgress(missing - left, missing);
      if (left === 0 && generations.every(({ status }) => status === 'ready')) return;
      if (projector.halted !== null) throw new CommandFailed(`The read models stopped: ${projector.halted}.`);
      await sleep(LOOK_MS);
    }
  } finally {
    await projector.stop();
  }
}
