import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../kernel/config.js';
import { projectionsFor } from '../read-side/all-projections.js';
import { Follower } from '../read-side/follower.js';
import { swap } from '../read-side/generations.js';
import { ensureManifest, type OtherBuild, ofOtherBuild, ownBeside } from '../read-side/manifest.js';
import { StartError } from '../kernel/start-error.js';
import type { Stores } from '../stores/open.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import type { ReadModels } from '../stores/ports/read-models.js';
import type { Context } from './cli.js';
import { CommandFailed } from './exit.js';

const STANDBY_MS = 100;
/** Checks for the holder of a lease: a running process is without its lease only for a moment. */
const LEASE_CHECKS = 10;

/**
 * Brings every serving read model up to the log's current head: applies the missing events in large batches, or
 * waits while a running server does.
 * @param onProgress events applied, of those that were missing
 * @throws NewerSchema for an event that this build cannot read
 * @throws StartError while another build of Credence, with other folds, serves
 */
export async function applyAll(
  { eventStore, readModels }: Pick<Stores, 'eventStore' | 'readModels'>,
  { modules }: Pick<Config, 'modules'>,
  onProgress?: (done: number, total: number) => void,
): Promise<void> {
  const head = await eventStore.head();
  const projections = projectionsFor(modules);
  const follower = new Follower(eventStore, readModels);
  const { signal } = new AbortController();

  let missing = 0;
  for (;;) {
    // Read each time: another generation may serve by now.
    const manifest = await ensureManifest(projections, eventStore, readModels);
    const other = ofOtherBuild(projections, manifest, await readModels.generations());
    if (other) await refuseRunning(other, readModels);
    const own = other && (await ownBeside(other, manifest, eventStore, readModels));
    const serving = new Set(own === undefined ? projections.map(({ name }) => manifest.views[name]!) : [own]);
    const generations = (await readModels.generations()).filter(({ id }) => serving.has(id));
    const behind = generations.find(({ checkpoint, status }) => checkpoint.position < head || status === 'building');
    if (!behind && own === undefined) return;
    if (!behind) {
      await swap(own!, eventStore, readModels);
      continue;
    }
    const left = onProgress ? await eventStore.countAfter(behind.checkpoint.position) : 0;
    missing = Math.max(missing, left);
    const onApplied = (events: number) => onProgress?.(missing - Math.max(0, left - events), missing);
    onApplied(0);
    const ended = await follower.follow(behind.id, { signal, toHead: true, onApplied });
    if (ended === 'lease_taken') await sleep(STANDBY_MS);
  }
}

/**
 * Does the same after an import, and shows the progress.
 * @throws CommandFailed, which says that all is recorded, if a store is unavailable
 */
export async function applyImported({ stores, config, progress }: Context & { stores: Stores }): Promise<void> {
  try {
    await progress('Updating the read models', 'events', (update) => applyAll(stores, config, update));
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    throw new CommandFailed(`Everything is recorded, but the read models are behind: ${error.explanation}.`);
  }
}

/** @throws StartError while a process applies the log to these generations: it serves from them */
async function refuseRunning({ generations }: OtherBuild, readModels: ReadModels): Promise<void> {
  const ids = new Set(generations.map(({ id }) => id));
  for (let looks = 0; looks < LEASE_CHECKS; looks++) {
    const running = (await readModels.generations()).find(({ id, lease }) => ids.has(id) && lease !== null);
    if (running) {
      throw new StartError(
        `${running.id} serves for a running process of another build of Credence: use the command of that build, or stop it.`,
      );
    }
    await sleep(STANDBY_MS);
  }
}
