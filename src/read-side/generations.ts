import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../kernel/clock.js';
import type { Position } from '../kernel/event.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Generation, Manifest, ReadModels } from '../stores/ports/read-models.js';
import { PROJECTIONS } from './all-projections.js';
import { Follower } from './follower.js';
import { createGeneration, isInLog, isOf, isSound, platformLens, refuseOtherLog } from './manifest.js';

/** Operations on generations: build one beside the serving one, swap, roll back, drop. */

/** An operation that the state of the generations does not allow. The message says what to do. */
export class GenerationError extends Error {
  override readonly name = 'GenerationError';
}

/** For how long a swap waits for a generation that is being followed. */
const CATCH_UP_MS = 5_000;
const POLL_MS = 100;

export interface GenerationState extends Generation {
  /** Views the manifest serves from it. */
  serves: string[];
  /** Whether it was folded from this log. */
  isOwn: boolean;
  /** Does the log have the event up to which it was applied? Not where an older copy has taken its place. */
  isInLog: boolean;
  /** Age of the oldest event it has not applied, in seconds; null at the head. */
  behind: number | null;
}

/** How far one generation is, in events. */
export interface GenerationProgress extends GenerationState {
  lag: { events: number; seconds: number };
  /** Events applied. */
  applied: number;
}

/** Every generation that was not dropped, with what it serves and how old its lag behind the log is. Counts nothing. */
export async function generationStates(
  store: EventStore,
  readModels: ReadModels,
  clock: Clock,
): Promise<GenerationState[]> {
  const manifest = await readModels.manifest();
  return Promise.all(
    (await present(readModels)).map(async (generation) => {
      const serves = Object.keys(generation.views).filter((view) => manifest?.views[view] === generation.id);
      const isOwn = generation.checkpoint.log === store.logId;
      const inLog = await isInLog(generation.checkpoint, store);
      return {
        ...generation,
        serves,
        isOwn,
        isInLog: inLog,
        behind: await behind(store, appliedBy(generation, store), clock),
      };
    }),
  );
}

/** Up to where of this log: nothing, if it was folded from another. */
function appliedBy({ checkpoint }: Generation, store: EventStore): Position {
  return checkpoint.log === store.logId ? checkpoint.position : 0;
}

async function behind(store: EventStore, position: Position, clock: Clock): Promise<number | null> {
  for await (const [oldest] of store.readAll(position, { sliceSize: 1 })) {
    return Math.max(0, (clock() - Date.parse(oldest!.metadata.recorded_at)) / 1000);
  }
  return null;
}

/** As `generationStates`, counted in events, which may take as long as reading the whole log. */
export async function generationProgress(
  store: EventStore,
  readModels: ReadModels,
  clock: Clock,
): Promise<GenerationProgress[]> {
  // First, so that what is told of the generations is of now however long this takes.
  const total = await store.countAfter(0);
  return Promise.all(
    (await generationStates(store, readModels, clock)).map(async (generation) => {
      const events = generation.behind === null ? 0 : await store.countAfter(appliedBy(generation, store));
      const lag = { events, seconds: generation.behind ?? 0 };
      return { ...generation, lag, applied: Math.max(0, total - events) };
    }),
  );
}

export interface RebuildProgress {
  generation: string;
  /** Events applied by this run. */
  events: number;
  /** Those there were to apply when it began. */
  total: number;
}

/**
 * Builds a generation of these views from the start of the log, beside the one that serves; ends when it has caught up
 * and is `ready`. A build that was interrupted is taken up where it stopped.
 * @param view name of a projection, or `all`
 * @throws GenerationError for an unknown view, or while another process builds it
 */
export async function rebuild(
  view: string,
  store: EventStore,
  readModels: ReadModels,
  signal: AbortSignal,
  onProgress?: (progress: RebuildProgress) => void,
): Promise<Generation> {
  const projections = PROJECTIONS.filter(({ name }) => view === 'all' || view === name);
  if (projections.length === 0) {
    throw new GenerationError(
      `There is no view ${view}; there are all, ${PROJECTIONS.map(({ name }) => name).join(', ')}.`,
    );
  }
  const views = Object.fromEntries(projections.map(({ name, version }) => [name, version]));
  const id = (await unfinishedBuild(views, store, readModels)) ?? (await create(views, store, readModels));
  let events = 0;
  // Counting may mean reading the log, so it is done for a progress display only.
  const total = onProgress ? await store.countAfter((await find(id, readModels)).checkpoint.position) : 0;
  const follower = new Follower(store, readModels);
  const follow = () =>
    follower.follow(id, {
      signal,
      toHead: true,
      onApplied: (_, applied) => {
        events += applied;
        onProgress?.({ generation: id, events, total: Math.max(total, events) });
      },
    });
  let ended = await follow();
  // Lost to nobody by a process that had to wait for the processor too long: it may go on.
  while (ended === 'lease_lost') ended = await follow();
  if (ended === 'lease_taken') throw new GenerationError(`${id} is being built by another process.`);
  if (ended === 'unsound') {
    throw new GenerationError(
      `${id} has lost rows, or does not fit the log any more; run it again to start from the beginning.`,
    );
  }
  if (ended === 'gone') throw new GenerationError(`${id} was dropped while it was being built.`);
  if (ended === 'aborted') throw new GenerationError(`The build of ${id} was interrupted; run it again to go on.`);
  return find(id, readModels);
}

async function create(views: Record<string, number>, store: EventStore, readModels: ReadModels): Promise<string> {
  for (;;) {
    const id = await createGeneration(views, store, readModels);
    if (id !== undefined) return id;
  }
}

/** A generation of exactly these views that was begun, is not in service, and fits the log. */
async function unfinishedBuild(
  views: Record<string, number>,
  store: EventStore,
  readModels: ReadModels,
): Promise<string | undefined> {
  const serving = new Set(Object.values((await readModels.manifest())?.views ?? {}));
  for (const generation of await readModels.generations()) {
    const open = generation.status === 'building' && !serving.has(generation.id);
    if (isOf(generation, views) && open && (await isSound(generation, store))) return generation.id;
  }
  return undefined;
}

/**
 * Serves a generation's views from it, at once for every reader. What served before stays ready for `rollback`.
 * @param newLog also where what serves was folded from another log, which this one has replaced
 * @throws GenerationError unless it is ready and as far as what it replaces; when another swap was faster
 * @throws StartError where what serves was folded from another log
 */
export async function swap(id: string, store: EventStore, readModels: ReadModels, newLog = false): Promise<Manifest> {
  const generation = await find(id, readModels);
  if (generation.status !== 'ready') throw new GenerationError(`${id} is ${generation.status}, not ready.`);
  if (!(await isSound(generation, store)))
    throw new GenerationError(`${id} was not built from this log by this build.`);
  await caughtUp(generation, store, readModels);
  const manifest = await manifestOf(readModels);
  if (!newLog) refuseOtherLog(manifest, await present(readModels), store.logId);
  const taken = Object.fromEntries(Object.keys(generation.views).map((view) => [view, id]));
  if (Object.keys(taken).every((view) => manifest.views[view] === id))
    throw new GenerationError(`${id} serves already.`);
  return point(manifest, { ...manifest.views, ...taken }, store, readModels);
}

/**
 * Waits until a generation has applied what those that serve its views have by now: what was read of them must not be
 * taken back.
 * @throws GenerationError if it does not get there soon
 */
async function caughtUp({ id, views }: Generation, store: EventStore, readModels: ReadModels): Promise<void> {
  const deadline = performance.now() + CATCH_UP_MS;
  const manifest = await manifestOf(readModels);
  const serving = new Set(Object.keys(views).map((view) => manifest.views[view]));
  const replaced = (await present(readModels)).filter(({ id, status }) => status === 'ready' && serving.has(id));
  const read = Math.max(0, ...replaced.map((generation) => appliedBy(generation, store)));
  // One that has seen more of the log than there is, since an older copy was restored, is no measure.
  const goal = Math.min(read, await store.head());
  while (appliedBy(await find(id, readModels), store) < goal) {
    if (performance.now() >= deadline) {
      throw new GenerationError(
        `${id} is behind what serves, so reads would go back in time: let a worker of this build bring it up ` +
          '(credence status shows its lag), or build another with credence rebuild.',
      );
    }
    await sleep(POLL_MS);
  }
}

/** Undoes the last swap: every view is served as before it. @throws GenerationError if there is nothing to go back to */
export async function rollback(store: EventStore, readModels: ReadModels): Promise<Manifest> {
  const manifest = await manifestOf(readModels);
  if (!manifest.previous_views) throw new GenerationError('Nothing was swapped: there is nothing to go back to.');
  for (const id of new Set(Object.values(manifest.previous_views))) {
    const generation = await find(id, readModels);
    const sound = generation.status === 'ready' && (await isSound(generation, store));
    if (!sound) throw new GenerationError(`${id}, which served before, is ${generation.status} or not of this log.`);
  }
  return point(manifest, manifest.previous_views, store, readModels);
}

/** With the lens of this log, since the manifest's may be that of another. */
async function point(
  manifest: Manifest,
  views: Record<string, string>,
  store: EventStore,
  readModels: ReadModels,
): Promise<Manifest> {
  const going = Object.values(views).find((id) => manifest.dropping?.includes(id));
  if (going !== undefined) throw new GenerationError(`${going} is being dropped.`);
  const moved = { revision: manifest.revision + 1, views, previous_views: manifest.views, log: store.logId };
  const next = { ...manifest, ...(await platformLens(store)), ...moved };
  if (!(await readModels.swapManifest(next))) throw new GenerationError('Another swap was faster; look at the status.');
  return next;
}

/** Frees a generation's space. @throws GenerationError while it serves */
export async function drop(id: string, readModels: ReadModels): Promise<void> {
  await find(id, readModels);
  // Recorded in the manifest first, so that a concurrent swap to it fails, or the drop does.
  while (!(await giveUp(id, readModels)));
  await readModels.dropGeneration(id);
}

/** @returns false: the manifest has changed meanwhile @throws GenerationError while the generation serves */
async function giveUp(id: string, readModels: ReadModels): Promise<boolean> {
  const manifest = await readModels.manifest();
  if (!manifest) return true;
  const serves = Object.keys(manifest.views).filter((view) => manifest.views[view] === id);
  if (serves.length > 0) throw new GenerationError(`${id} serves ${serves.join(', ')}: swap or roll back first.`);
  const there = (await present(readModels)).map((generation) => generation.id);
  const dropping = there.filter((other) => other === id || manifest.dropping?.includes(other));
  return readModels.swapManifest({ ...manifest, revision: manifest.revision + 1, dropping });
}

async function present(readModels: ReadModels): Promise<Generation[]> {
  return (await readModels.generations()).filter(({ status }) => status !== 'dropped');
}

async function find(id: string, readModels: ReadModels): Promise<Generation> {
  const generations = await present(readModels);
  const found = generations.find((generation) => generation.id === id);
  if (!found)
    throw new GenerationError(`There is no generation ${id}; there are ${generations.map((g) => g.id).join(', ')}.`);
  return found;
}

async function manifestOf(readModels: ReadModels): Promise<Manifest> {
  const manifest = await readModels.manifest();
  if (!manifest) throw new GenerationError('No generation serves yet: start the service once.');
  return manifest;
}
