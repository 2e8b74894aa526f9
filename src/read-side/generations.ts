import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { LOG_TREE, type LogTreeState } from '../../projections/log-tree.js';
import type { Clock } from '../kernel/clock.js';
import type { Position } from '../kernel/event.js';
import { Problem, type ProblemCode } from '../kernel/problems.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Generation, Manifest, ReadModels } from '../stores/ports/read-models.js';
import { PROJECTIONS } from './all-projections.js';
import { type Ended, Follower } from './follower.js';
import { logTreeIn } from './log-tree.js';
import {
  createGeneration,
  isInLog,
  isOf,
  isOfThisBuild,
  isSound,
  platformLens,
  refuseOtherLog,
  versionsOf,
} from './manifest.js';
import { viewsOf } from './own-views.js';

/** Operations on generations: build one beside the serving one, swap, roll back, drop. */

/** An operation that the state of the generations does not allow. The message says what to do. */
export class GenerationError extends Problem {
  constructor(message: string, code: ProblemCode = 'generation_conflict') {
    super(code, message);
    this.name = 'GenerationError';
  }
}

/** Why nothing can be swapped on a log that no service has used yet. */
export const NOTHING_SERVES = 'No generation serves yet: start the service once.';
/** How long a swap waits for a generation that is being followed, ms. */
const CATCH_UP_MS = 5_000;
const POLL_MS = 100;

/** A generation that was not dropped. */
export interface PresentGeneration extends Generation {
  /** Views that the manifest serves from it. */
  serves: string[];
}

/** A generation compared with the log. */
export interface Compared {
  /** Whether it was folded from this log. */
  isOwn: boolean;
  /** Whether the log contains the last event that was applied. It does not after an older copy has replaced the log. */
  isInLog: boolean;
  /** Age of the oldest event it has not applied, in seconds; null at the head. */
  behind: number | null;
}

export type GenerationState = PresentGeneration & Compared;

/** Every generation that was not dropped, with the views it serves and the age of its lag. Counts no events. */
export async function generationStates(store: EventStore, readModels: ReadModels, clock: Clock) {
  const { generations } = await presentGenerations(readModels);
  return Promise.all(generations.map(async (each) => ({ ...each, ...(await compareWithLog(each, store, clock)) })));
}

/** The manifest, and every generation that was not dropped with the views it serves. */
export async function presentGenerations(readModels: ReadModels) {
  const [manifest, generations] = await Promise.all([readModels.manifest(), present(readModels)]);
  const servedBy = ({ id, views }: Generation) => Object.keys(views).filter((view) => manifest?.views[view] === id);
  return { manifest, generations: generations.map((each) => ({ ...each, serves: servedBy(each) })) };
}

export async function compareWithLog(generation: Generation, store: EventStore, clock: Clock): Promise<Compared> {
  const [inLog, lag] = await Promise.all([
    isInLog(generation.checkpoint, store),
    behind(store, appliedBy(generation, store), clock),
  ]);
  return { isOwn: generation.checkpoint.log === store.logId, isInLog: inLog, behind: lag };
}

/** The applied position of this log: 0 if it was folded from another log. */
function appliedBy({ checkpoint }: Generation, store: EventStore): Position {
  return checkpoint.log === store.logId ? checkpoint.position : 0;
}

async function behind(store: EventStore, position: Position, clock: Clock): Promise<number | null> {
  for await (const [oldest] of store.readAll(position, { sliceSize: 1 })) {
    return Math.max(0, (clock() - Date.parse(oldest!.metadata.recorded_at)) / 1000);
  }
  return null;
}

/** The number of events of the log, and the states of the generations with the events that they lack and have applied. */
export async function generationProgress(store: EventStore, readModels: ReadModels, clock: Clock) {
  const { total, after } = await counted(store, readModels);
  const generations = await Promise.all(
    (await generationStates(store, readModels, clock)).map(async (generation) => {
      const lag = generation.behind === null ? 0 : await after(appliedBy(generation, store));
      return { ...generation, lag, applied: Math.max(0, total - lag) };
    }),
  );
  return { events: total, generations };
}
export type GenerationProgress = Awaited<ReturnType<typeof generationProgress>>['generations'][number];

/** Counts events by the tree of the log as far as it reaches: what a store says of many events may be an estimate. */
async function counted(store: EventStore, readModels: ReadModels) {
  const { generations } = await presentGenerations(readModels);
  const id = generations.find((each) => each.serves.includes('log_tree') && isOfThisBuild(each))?.id;
  const read = id === undefined ? undefined : await readModels.read(id, [{ get: LOG_TREE }]);
  const state = read?.results[0] as LogTreeState | undefined;
  const isWhole = read?.status === 'ready' && read.checkpoint.log === store.logId && state?.incomplete === undefined;
  if (!isWhole || !state) {
    return { total: await store.countAfter(0), after: (position: Position) => store.countAfter(position) };
  }
  const { position: end } = read.checkpoint;
  const total = state.size + (await store.countAfter(end));
  const tree = logTreeIn(id!, readModels, state);
  const after = async (position: Position) =>
    position > end ? store.countAfter(position) : total - (await tree.sizeAt(position));
  return { total, after };
}

/**
 * Builds a generation of these views from the start of the log, beside the one that serves; ends when it has caught up
 * and is `ready`. An interrupted build starts again, in the same generation.
 * @param wanted names of projections, or `all`
 * @param onProgress told how many events were applied, again from 0 if the build starts again, of about how many
 * @throws GenerationError for an unknown view, while another process builds it, or if it was interrupted
 */
export async function rebuild(
  wanted: string | readonly string[],
  store: EventStore,
  readModels: ReadModels,
  signal: AbortSignal,
  onProgress?: (events: number, total: number) => void,
): Promise<Generation> {
  const projections = PROJECTIONS.filter(({ name }) => wanted === 'all' || [wanted].flat().includes(name));
  const unknown = [wanted].flat().find((view) => view !== 'all' && !projections.some(({ name }) => name === view));
  if (unknown !== undefined || projections.length === 0) {
    const what = unknown === undefined ? 'No view is named' : `There is no view ${unknown}`;
    throw new GenerationError(`${what}; the views are ${PROJECTIONS.map(({ name }) => name).join(', ')}, or all.`);
  }
  const views = viewsOf(projections);
  const id = (await unfinishedBuild(views, store, readModels)) ?? (await createGeneration(views, store, readModels));
  const { lease, checkpoint } = await find(id, readModels);
  if (lease) throw beingBuilt(id);
  // Of many events it may be an estimate.
  const total = onProgress ? await store.countAfter(checkpoint.position) : 0;
  let applied = 0;
  const onApplied = (events: number) => {
    applied = events;
    onProgress?.(events, Math.max(total, events));
  };
  const follower = new Follower(store, readModels);
  let ended: Ended;
  // The lease has expired, as it does where this process waits too long for the processor. Without another holder, it
  // follows again: a build that has not ended starts from the beginning.
  do ended = await follower.follow(id, { signal, toHead: true, onApplied });
  while (ended === 'lease_lost');
  if (ended === 'lease_taken') throw beingBuilt(id);
  const failures: Partial<Record<Ended, string>> = {
    unsound: `${id} has lost rows, or no longer matches the log; run the command again to start from the beginning.`,
    gone: `${id} was dropped while it was being built.`,
    aborted: `The build of ${id} was interrupted; run the command again, and it starts from the beginning.`,
  };
  const failure = failures[ended];
  if (failure !== undefined) throw new GenerationError(failure);
  onProgress?.(applied, applied);
  return find(id, readModels);
}

function beingBuilt(id: string): GenerationError {
  return new GenerationError(`${id} is being built already.`, 'operation_open');
}

/** The id of an unfinished generation of exactly these views that does not serve and matches the log, if any. */
async function unfinishedBuild(views: Record<string, number>, store: EventStore, readModels: ReadModels) {
  const serving = new Set(Object.values((await readModels.manifest())?.views ?? {}));
  for (const generation of await readModels.generations()) {
    const open = generation.status === 'building' && !serving.has(generation.id);
    if (isOf(generation, views) && open && (await isSound(generation, store))) return generation.id;
  }
  return undefined;
}

/**
 * Serves the views of a generation, at once for every reader. The previous generation stays ready for `rollback`.
 * @param newLog proceed even if the serving generation was folded from another log, which this one has replaced
 * @throws GenerationError unless it is ready and has caught up with the one it replaces; if another swap was first
 * @throws StartError if the serving generation was folded from another log
 */
export async function swap(id: string, store: EventStore, readModels: ReadModels, newLog = false): Promise<Manifest> {
  const generation = await find(id, readModels);
  const flaw = await flawOf(generation, store);
  if (flaw) throw new GenerationError(`${id} ${flaw}.`);
  await caughtUp(generation, store, readModels);
  const manifest = await manifestOf(readModels);
  if (!newLog) refuseOtherLog(manifest, await present(readModels), store.logId);
  const taken = Object.fromEntries(Object.keys(generation.views).map((view) => [view, id]));
  if (Object.keys(taken).every((view) => manifest.views[view] === id))
    throw new GenerationError(`${id} already serves.`);
  return point(manifest, { ...manifest.views, ...taken }, store, readModels);
}

/** Why this build cannot serve from a generation, as a clause. */
async function flawOf(generation: Generation, store: EventStore): Promise<string | undefined> {
  const { status, checkpoint } = generation;
  if (status !== 'ready') return `is ${status}, not ready`;
  if (!isOfThisBuild(generation)) return 'was made by another build of Credence';
  if (checkpoint.log !== store.logId) return 'was made from another log';
  return (await isInLog(checkpoint, store)) ? undefined : 'has applied events that this log does not contain';
}

/** Applies what a generation lacks, unless another process does. @returns whether it has reached the head */
async function catchUp(id: string, store: EventStore, readModels: ReadModels): Promise<boolean> {
  const { signal } = new AbortController();
  const ended = await new Follower(store, readModels).follow(id, { signal, toHead: true });
  return ended === 'at_head';
}

/**
 * Waits until a generation has applied what the serving generations of its views have applied by now, so that no read
 * goes back in time. Applies it itself, unless a worker does.
 * @throws GenerationError if the worker takes too long
 */
async function caughtUp({ id, views }: Generation, store: EventStore, readModels: ReadModels): Promise<void> {
  const deadline = performance.now() + CATCH_UP_MS;
  const manifest = await manifestOf(readModels);
  const serving = new Set(Object.keys(views).map((view) => manifest.views[view]));
  const replaced = (await present(readModels)).filter(({ id, status }) => status === 'ready' && serving.has(id));
  const read = Math.max(0, ...replaced.map((generation) => appliedBy(generation, store)));
  // A generation that is ahead of the log, because an older copy was restored, does not count.
  const goal = Math.min(read, await store.head());
  while (appliedBy(await find(id, readModels), store) < goal) {
    if (await catchUp(id, store, readModels)) return;
    if (performance.now() >= deadline) {
      throw new GenerationError(
        `${id} is behind the serving generation, so reads would go back in time, and the process that applies events ` +
          'to it has not caught up yet: try again (credence status shows its lag).',
      );
    }
    await sleep(POLL_MS);
  }
}

/** A swap: the generations that serve since then, and those that served before, by view. */
export interface Swapped {
  from: Record<string, string>;
  to: Record<string, string>;
}

/** What a rollback would change now. @throws GenerationError if there was no swap */
export function rollbackOf(manifest: Manifest | null): Swapped {
  if (!manifest?.previous_views) throw new GenerationError('There was no swap that could be rolled back.');
  return { from: manifest.views, to: manifest.previous_views };
}

/**
 * Undoes the last swap: every view is served as before it. Applies first what the generations lack, unless a worker keeps
 * them up to date.
 * @param requested what it would have changed when it was requested. Nothing is changed if that is done already.
 * @throws GenerationError if there was no swap; if there was another one since it was requested
 */
export async function rollback(store: EventStore, readModels: ReadModels, requested?: Swapped): Promise<Manifest> {
  const manifest = await manifestOf(readModels);
  const { from, to } = requested ?? rollbackOf(manifest);
  if (requested && isSame(manifest.views, to)) return manifest;
  if (!isSame(manifest.views, from)) {
    throw new GenerationError('Other generations serve than when the rollback was requested; check the status.');
  }
  for (const id of new Set(Object.values(to))) {
    const flaw = await flawOf(await find(id, readModels), store);
    if (flaw) throw new GenerationError(`${id}, which served before, ${flaw}.`);
    await catchUp(id, store, readModels);
  }
  return point(manifest, to, store, readModels);
}

function isSame(views: Record<string, string> | null, others: Record<string, string> | null): boolean {
  return isDeepStrictEqual({ ...views }, { ...others });
}

/**
 * Serves from other generations than a manifest names. The next manifest has the lens of this log, since its own may be
 * that of another log.
 * @throws GenerationError if another swap was first, or one of the generations is being dropped
 */
async function point(
  manifest: Manifest,
  views: Record<string, string>,
  store: EventStore,
  readModels: ReadModels,
): Promise<Manifest> {
  const going = Object.values(views).find((id) => manifest.dropping?.includes(id));
  if (going !== undefined) throw new GenerationError(`${going} is being dropped.`);
  const versions = versionsOf(views, await readModels.generations());
  const moved = { revision: manifest.revision + 1, views, versions, previous_views: manifest.views, log: store.logId };
  const next = { ...manifest, ...(await platformLens(store)), ...moved };
  if (!(await readModels.swapManifest(next))) {
    const now = await manifestOf(readModels);
    if (isSwappedSince(manifest, now)) throw new GenerationError('Another swap was first; check credence status.');
    return point(now, views, store, readModels);
  }
  const begun = new Set(Object.values(views).filter((id) => !Object.values(manifest.views).includes(id)));
  // What was applied to those before meanwhile: reads wait for it, and a worker may take a second to begin.
  for (const id of begun) await catchUp(id, store, readModels).catch(() => undefined);
  return next;
}

/** Whether a manifest has changed in other ways than by a promotion, or by the drop of a generation. */
function isSwappedSince(manifest: Manifest, now: Manifest): boolean {
  const isLater = now.incarnation === manifest.incarnation && now.revision > manifest.revision;
  return !isLater || !isSame(now.views, manifest.views) || !isSame(now.previous_views, manifest.previous_views);
}

/** Frees a generation's space. @throws GenerationError while it serves */
export async function drop(id: string, readModels: ReadModels): Promise<void> {
  await find(id, readModels);
  // Recorded in the manifest first, so that a concurrent swap to it fails, or the drop does.
  for (let isRecorded = false; !isRecorded;) {
    const { manifest, generations } = await presentGenerations(readModels);
    if (!manifest) break;
    const serves = generations.find((generation) => generation.id === id)?.serves ?? [];
    if (serves.length > 0) throw new GenerationError(`${id} serves ${viewNames(serves)}: swap or roll back first.`);
    const there = generations.map((generation) => generation.id);
    const dropping = there.filter((other) => other === id || manifest.dropping?.includes(other));
    isRecorded = await readModels.swapManifest({ ...manifest, revision: manifest.revision + 1, dropping });
  }
  await readModels.dropGeneration(id);
}

async function present(readModels: ReadModels): Promise<Generation[]> {
  return (await readModels.generations()).filter(({ status }) => status !== 'dropped');
}

async function find(id: string, readModels: ReadModels): Promise<Generation> {
  const generations = await present(readModels);
  const found = generations.find((generation) => generation.id === id);
  if (!found) {
    const others = generations.length === 0 ? 'nor any other' : `only ${generations.map((g) => g.id).join(', ')}`;
    throw new GenerationError(`There is no generation ${id}, ${others}.`, 'generation_not_found');
  }
  return found;
}

async function manifestOf(readModels: ReadModels): Promise<Manifest> {
  const manifest = await readModels.manifest();
  if (!manifest) throw new GenerationError(NOTHING_SERVES);
  return manifest;
}

/** Names the views of a generation. There are so many that naming all of them would fill two lines. */
export function viewNames(views: readonly string[]): string {
  return PROJECTIONS.every(({ name }) => views.includes(name)) ? `all ${views.length} views` : views.join(', ');
}
