import type { Projection } from '../../projections/projection.js';
import type { EventStore } from '../event-store/event-store.js';
import type { Checkpoint, Generation, Manifest, ReadModels } from '../read-models/read-models.js';
import { MODEL_LENS } from '../scoring/lens.js';
import { MODEL_HASH } from '../scoring/model.js';

/**
 * Makes sure that every projection is served by a sound generation, and answers the manifest that says by which.
 *
 * A projection gets a new generation, to be built from the start of the log, if it has none, if its fold's version
 * changed, or if its generation's checkpoint is not in this log (a log restored from another place or time). Until that
 * is built, reads of it are refused rather than wrong. Safe to run in several processes at once.
 */
export async function ensureManifest(
  projections: readonly Projection[],
  store: EventStore,
  readModels: ReadModels,
): Promise<Manifest> {
  for (;;) {
    const manifest = await readModels.manifest();
    const generations = await readModels.generations();
    const byId = new Map(generations.map((generation) => [generation.id, generation]));
    const unserved: Projection[] = [];
    for (const projection of projections) {
      const generation = byId.get(manifest?.views[projection.name] ?? '');
      if (!(await isSound(generation, projection, store))) unserved.push(projection);
    }
    if (manifest && unserved.length === 0 && manifest.model_hash === MODEL_HASH) return manifest;

    const views = { ...manifest?.views };
    const created = unserved.length > 0 ? nextId(generations) : null;
    if (created) {
      const versions = Object.fromEntries(unserved.map(({ name, version }) => [name, version]));
      await readModels.createGeneration(created, versions, store.logId);
      for (const { name } of unserved) views[name] = created;
    }
    const swapped = await readModels.swapManifest({
      revision: (manifest?.revision ?? 0) + 1,
      lens: manifest?.lens ?? { policy_id: MODEL_LENS.policy_id, content_hash: MODEL_LENS.content_hash },
      model_hash: MODEL_HASH,
      lens_revision: manifest?.lens_revision ?? -1,
      views,
    });
    const served = new Set(Object.values(views));
    for (const { id } of swapped ? generations : []) if (!served.has(id)) await readModels.dropGeneration(id);
    // Swapped or beaten to it by another process: either way, look again.
  }
}

async function isSound(
  generation: Generation | undefined,
  projection: Projection,
  store: EventStore,
): Promise<boolean> {
  if (!generation || generation.status === 'dropped') return false;
  return generation.views[projection.name] === projection.version && (await isInLog(generation.checkpoint, store));
}

/** Is the event that a checkpoint names really in this log, at its position? */
async function isInLog({ log, position, event_id }: Checkpoint, store: EventStore): Promise<boolean> {
  if (log !== store.logId) return false;
  return position === 0 || (await store.readAt(position))?.id === event_id;
}

function nextId(generations: readonly Generation[]): string {
  return `g${Math.max(0, ...generations.map(({ id }) => Number(id.slice(1)))) + 1}`;
}
