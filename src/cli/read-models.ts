import { setTimeout as sleep } from 'node:timers/promises';
import { projectionsFor } from '../app/app.module.js';
import type { Config } from '../kernel/config.js';
import { PROJECTIONS } from '../read-side/all-projections.js';
import { Follower } from '../read-side/follower.js';
import { ensureManifest } from '../read-side/manifest.js';
import type { Stores } from '../stores/open.js';

const STANDBY_MS = 100;

/**
 * Brings every serving read model up to the log's current head: applies the missing events in large batches, or
 * waits while a running server does.
 * @param onProgress events applied, of those that were missing
 * @throws NewerSchema for an event that this build cannot read
 */
export async function applyAll(
  { eventStore, readModels }: Pick<Stores, 'eventStore' | 'readModels'>,
  { modules }: Pick<Config, 'modules'>,
  onProgress?: (done: number, total: number) => void,
): Promise<void> {
  const head = await eventStore.head();
  const wanted = projectionsFor(modules);
  const projections = PROJECTIONS.filter(({ name }) => wanted.has(name));
  const follower = new Follower(eventStore, readModels);
  const { signal } = new AbortController();

  let missing = 0;
  for (;;) {
    // Read each time: another generation may serve by now.
    const { views } = await ensureManifest(projections, eventStore, readModels);
    const serving = new Set(projections.map(({ name }) => views[name]!));
    const generations = (await readModels.generations()).filter(({ id }) => serving.has(id));
    const behind = generations.find(({ checkpoint, status }) => checkpoint.position < head || status === 'building');
    if (!behind) return;
    // Counting may mean reading the log, so it is done for a progress display only.
    let left = onProgress ? await eventStore.countAfter(behind.checkpoint.position) : 0;
    missing = Math.max(missing, left);
    const applied = (events: number) => {
      left = Math.max(0, left - events);
      onProgress?.(missing - left, missing);
    };
    applied(0);
    const ended = await follower.follow(behind.id, {
      signal,
      toHead: true,
      onApplied: (_, events) => applied(events),
    });
    if (ended === 'lease_taken') await sleep(STANDBY_MS);
  }
}
