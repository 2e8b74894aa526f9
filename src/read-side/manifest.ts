import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Projection } from '../../projections/projection.js';
import { NewerSchema } from '../kernel/event-definition.js';
import { Problem } from '../kernel/problems.js';
import type { EventStore } from '../stores/ports/event-store.js';
import { decodeEvent } from '../../projections/events.js';
import { PLATFORM_LENS_STREAM } from '../features/lenses/domain/lens-stream.js';
import type { Checkpoint, Generation, Manifest, ReadModels } from '../stores/ports/read-models.js';
import { MODEL_LENS } from '../scoring/lens.js';
import { modelByHash } from '../scoring/models/all.js';
import { disc1 } from '../scoring/models/disc-1.js';
import { StartError } from '../kernel/start-error.js';
import { PROJECTIONS } from './all-projections.js';
import { OWN_VERSIONS, viewsOf } from './own-views.js';

/**
 * Ensures that a generation that can be applied serves every projection, and returns the manifest that names these
 * generations.
 *
 * A projection without one gets a new one, to be built from the start of the log. Until it is built, reads of it are
 * refused. A generation of another build, whose folds have other versions, is left where it serves: see
 * `ofOtherBuild`. Safe to run in several processes at once.
 * @throws StartError where what serves was folded from another log
 */
export async function ensureManifest(projections: readonly Projection[], store: EventStore, readModels: ReadModels) {
  let created: string | undefined;
  for (;;) {
    const manifest = await readModels.manifest();
    const generations = await readModels.generations();
    refuseOtherLog(manifest, generations, store.logId);
    const whole = new Map<string, Generation>();
    for (const generation of generations) if (await isWhole(generation, store)) whole.set(generation.id, generation);
    // Read after the manifest: the stream in its log is then at least as long as it was for the manifest.
    const { lens, lens_revision, model_hash } = (await platformLens(store)) ?? manifest ?? BEFORE_PROMOTIONS;
    const views = Object.fromEntries(
      Object.entries(manifest?.views ?? {}).filter(([view, id]) => view in (whole.get(id)?.views ?? {})),
    );
    const unserved = projections.filter(({ name }) => !(name in views));
    const seesRight = manifest?.lens_revision === lens_revision && manifest.lens.content_hash === lens.content_hash;
    const versions = versionsOf(views, generations);
    const isCurrent = seesRight && manifest.model_hash === model_hash && isDeepStrictEqual(manifest.versions, versions);
    if (manifest && unserved.length === 0 && isCurrent) {
      await dropUseless(manifest, generations, created, store, readModels);
      return manifest;
    }

    if (unserved.length > 0) {
      const own = viewsOf(unserved);
      created = await createGeneration(own, store, readModels);
      for (const { name } of unserved) views[name] = created;
      Object.assign(versions, own);
    }
    await readModels.swapManifest({
      revision: (manifest?.revision ?? 0) + 1,
      lens,
      model_hash,
      lens_revision,
      views,
      versions,
      // A rollback must find what served before the last swap, unless something else serves since.
      previous_views: manifest && isDeepStrictEqual(views, { ...manifest.views }) ? manifest.previous_views : null,
      log: store.logId,
      incarnation: manifest?.incarnation ?? randomUUID(),
      ...(manifest?.dropping && { dropping: manifest.dropping }),
    });
    // Swapped, or beaten to it by another process: either way, look again.
  }
}

/**
 * Drops generations that are ahead of this log or have lost rows, and one that was created here while another process was
 * faster. One of another log may serve other processes.
 * @param created here; undefined: none
 */
async function dropUseless(
  manifest: Manifest,
  generations: readonly Generation[],
  created: string | undefined,
  store: EventStore,
  readModels: ReadModels,
): Promise<void> {
  const serving = new Set(Object.values(manifest.views));
  for (const { id, status, checkpoint, lease } of generations) {
    const isOwn = status !== 'dropped' && checkpoint.log === store.logId;
    const isUnused = id === created && !serving.has(id) && status === 'building' && lease === null;
    if (isOwn && (status === 'damaged' || isUnused || !(await isInLog(checkpoint, store)))) {
      await readModels.dropGeneration(id);
    }
  }
}

/** The versions of the folds that made the rows of these views. */
export function versionsOf(views: Record<string, string>, generations: readonly Generation[]): Record<string, number> {
  const serving = generations.flatMap(({ id, views: versions }) =>
    Object.entries(versions).filter(([view]) => views[view] === id),
  );
  return Object.fromEntries(serving);
}

/** The generations that serve these projections for another build of Credence; undefined if there are none. */
export function ofOtherBuild(
  projections: readonly Projection[],
  manifest: Manifest | null,
  generations: readonly Generation[],
) {
  const others = generations.filter(
    (generation) => generation.status !== 'dropped' && generation.status !== 'damaged' && !isOfThisBuild(generation),
  );
  const ids = new Set(others.map(({ id }) => id));
  const served = projections.filter(({ name }) => ids.has(manifest?.views[name] ?? ''));
  if (served.length === 0) return undefined;
  const serving = new Set(served.map(({ name }) => manifest!.views[name]));
  const replaced = others.filter(({ id }) => serving.has(id));
  const folds = replaced.flatMap(({ views }) => Object.entries(views));
  return {
    /** The serving generations that this build cannot read or apply as a whole. */
    generations: replaced,
    /** What this build needs instead: the views that these serve, in its own versions. */
    views: viewsOf(served),
    /** Whether none of its folds is newer than this build's. */
    isOlder: folds.every(([view, version]) => version <= (OWN_VERSIONS.get(view) ?? 0)),
  };
}
export type OtherBuild = NonNullable<ReturnType<typeof ofOtherBuild>>;

/**
 * The generation that this build serves these views from once another build no longer does: a ready one, else an
 * unfinished one, else a new one.
 */
export async function ownBeside(
  { views }: OtherBuild,
  manifest: Manifest | null,
  store: EventStore,
  readModels: ReadModels,
): Promise<string> {
  const fitting: Generation[] = [];
  for (const generation of await readModels.generations()) {
    const isGoing = manifest?.dropping?.includes(generation.id);
    if (!isGoing && isOf(generation, views) && (await isSound(generation, store))) fitting.push(generation);
  }
  const found = fitting.find(({ status }) => status === 'ready') ?? fitting[0];
  return found?.id ?? createGeneration(views, store, readModels);
}

/**
 * Read models of another log mean that the process was configured with the wrong address of one of the two stores. It
 * must neither use these read models nor replace them: other processes may be serving from them.
 * @throws StartError naming both logs, and how to discard the read models of a log that no longer exists
 */
export function refuseOtherLog(manifest: Manifest | null, generations: readonly Generation[], logId: string): void {
  const other = otherLog(manifest, generations, logId);
  if (!other) return;
  throw new StartError(
    `The read models that serve (${other.ids}) are of the log ${other.log}, but the log here is ${logId}: ` +
      'set EVENTSTORE_URL and CREDENCE_DATABASE_URL (or CREDENCE_DATA) to what belongs together, or, if this log has replaced that ' +
      'one for good, run "credence rebuild all --swap --new-log".',
  );
}

/** The other log that the serving generations were folded from, and their ids; undefined if they belong to this log. */
export function otherLog(manifest: Manifest | null, generations: readonly Generation[], logId: string) {
  const serving = new Set(PROJECTIONS.map(({ name }) => manifest?.views[name]));
  const other = generations.find(
    ({ id, status, checkpoint }) => serving.has(id) && status !== 'dropped' && checkpoint.log !== logId,
  );
  if (other) return { log: other.checkpoint.log, ids: other.id };
  if (manifest?.log === undefined || manifest.log === logId) return undefined;
  // The manifest points to generations that are lost. Only a process of the manifest's log may build them
  // again.
  return { log: manifest.log, ids: [...new Set(Object.values(manifest.views))].join(', ') };
}

/** @returns the id of a new generation of these views, which another process has not taken for others */
export async function createGeneration(views: Record<string, number>, store: EventStore, readModels: ReadModels) {
  for (;;) {
    const numbers = (await readModels.generations()).map(({ id }) => Number(id.slice(1)));
    const id = `g${Math.max(0, ...numbers) + 1}`;
    await readModels.createGeneration(id, views, store.logId);
    const made = await findGeneration(id, readModels);
    if (made?.status === 'building' && made.checkpoint.log === store.logId && isOf(made, views)) return id;
  }
}

/** A generation that was not dropped. */
export async function findGeneration(id: string, readModels: ReadModels): Promise<Generation | undefined> {
  return (await readModels.generations()).find((each) => each.id === id && each.status !== 'dropped');
}

/** Whether a generation has exactly these views, in these versions. */
export function isOf(generation: Generation, views: Record<string, number>): boolean {
  return isDeepStrictEqual({ ...generation.views }, views);
}

/**
 * Updates the manifest to the platform's current lens. A follower does this before it applies the promotion's event, so
 * that reads at or beyond its position use the new lens; the revision only ever grows. Does nothing while the serving
 * generations belong to another log, since the manifest has that log's lens.
 */
export async function reflectPlatformLens(store: EventStore, readModels: ReadModels): Promise<void> {
  for (;;) {
    const manifest = await readModels.manifest();
    const platform = await platformLens(store);
    if (!manifest || !platform || platform.lens_revision <= manifest.lens_revision) return;
    if (otherLog(manifest, await readModels.generations(), store.logId)) return;
    if (await readModels.swapManifest({ ...manifest, revision: manifest.revision + 1, ...platform })) return;
  }
}

export type PlatformLens = Pick<Manifest, 'lens' | 'lens_revision' | 'model_hash'>;

const BEFORE_PROMOTIONS: PlatformLens = {
  lens: { policy_id: MODEL_LENS.policy_id, content_hash: MODEL_LENS.content_hash },
  lens_revision: -1,
  model_hash: disc1.hash,
};

/** The latest lens and model of the `lens-platform` stream; undefined if this build cannot read it. */
export async function platformLens(store: EventStore): Promise<PlatformLens | undefined> {
  const platform = { ...BEFORE_PROMOTIONS };
  try {
    for (const recorded of await store.readStream(PLATFORM_LENS_STREAM)) {
      const event = decodeEvent(recorded);
      if (event.type === 'LensActivated') {
        const { policy_id, content_hash } = event.data;
        platform.lens =
          policy_id === null || content_hash === null ? BEFORE_PROMOTIONS.lens : { policy_id, content_hash };
      } else if (event.type === 'ModelActivated') platform.model_hash = event.data.model.hash;
      else return undefined;
      platform.lens_revision = recorded.revision;
    }
    // A version that this build does not know would be computed by the wrong formulas.
    return modelByHash(platform.model_hash) ? platform : undefined;
  } catch (error) {
    if (error instanceof NewerSchema) return undefined; // The follower halts there and says so.
    if (error instanceof Problem && error.code === 'history_unreadable') return undefined; // An undecodable event is a dead letter.
    throw error;
  }
}

/**
 * Whether this build can apply this log to the generation. All its views must have this build's versions, since they
 * share a checkpoint, and the event that its checkpoint names must be in the log (which may have been restored from
 * elsewhere).
 */
export async function isSound(generation: Generation, store: EventStore): Promise<boolean> {
  return isOfThisBuild(generation) && isWhole(generation, store);
}

export function isOfThisBuild({ views }: Generation): boolean {
  return Object.entries(views).every(([name, version]) => OWN_VERSIONS.get(name) === version);
}

/** Whether a generation has its rows, and the log has what it applied. */
async function isWhole({ status, checkpoint }: Generation, store: EventStore): Promise<boolean> {
  if (status === 'dropped' || status === 'damaged') return false;
  return isInLog(checkpoint, store);
}

/** Whether this build can read the rows of a view: its own fold made them. */
export function isReadable({ versions }: Manifest, view: string): boolean {
  const version = versions?.[view];
  return version === undefined || version === OWN_VERSIONS.get(view);
}

/** Whether the event that a checkpoint names is at its position: an older copy may have replaced the log. */
export async function isInLog({ log, position, event_id }: Checkpoint, store: EventStore): Promise<boolean> {
  if (log !== store.logId) return false;
  return position === 0 ? event_id === null : (await store.readAt(position))?.id === event_id;
}
