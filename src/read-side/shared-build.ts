import { randomUUID } from 'node:crypto';
import type { DomainEvent } from '../../projections/events.js';
import type { Projection } from '../../projections/projection.js';
import { IS_MEMORY_SHORT, memoryLimit } from '../kernel/memory.js';
import { isDue, pause, yieldIfDue } from '../kernel/turn.js';
import { EncodedRows } from '../stores/ports/encoded-rows.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Jobs } from '../stores/ports/jobs.js';
import type { Checkpoint, ReadModels } from '../stores/ports/read-models.js';
import type { BuildPlan, BuildState, PartName, PartState, SharedBuild, Spill } from '../stores/ports/shared-build.js';
import { Divider, PartitionFold, SortedRows, divided } from './bulk-fold.js';
import { ClaimedPart, PartLost } from './claimed-part.js';
import { decodeSlice } from './fold.js';
import { findGeneration, isOfThisBuild } from './manifest.js';
import { foldLog } from './memory-build.js';
import { PackedEvents, eventsOf, packed } from './packed-events.js';
import { projectionsOf } from './own-views.js';

/**
 * Builds a generation from the start of the log by several processes. The process that follows the generation decides on
 * the parts and invites the workers by jobs; each of them, and it itself, does one part after the other. First the ranges
 * of the log are read, and their events are divided into partitions of identities; then each partition is folded in
 * memory and its rows are written. A log that fits in memory is not divided: its only range is folded as it is read.
 */

/** The kind of the jobs by which workers are invited. */
export const BUILD_JOB = 'build-help';
/** More workers than this are not invited. */
const INVITATIONS = 16;

/** Tests use others. */
export interface SharedBuildSizes {
  /** Shorter logs are folded by the ordinary follower. */
  from: number;
  /** Shorter logs are not divided: one process folds them with less work than several together. */
  divideFrom: number;
  /** About the number of events of a part. A process that ends may cost two: one in work, and one being stored. */
  eventsPerPart: number;
  /**
   * The most that the events of a partition may take, or the rows of an undivided log. Its fold takes up to three times
   * as much memory, beside the rows of the partition before, which are being stored.
   */
  partitionBytes: number;
  /** Lifetime of a claim, ms; it is renewed after a third of it. */
  claimMs: number;
}
const PARTITION_BYTES = Math.max(48 * 2 ** 20, memoryLimit() / 8);
/** The rows of an event take about so many bytes. */
const BYTES_OF_EVENT = 400;
const SIZES: SharedBuildSizes = {
  from: 10_000,
  divideFrom: IS_MEMORY_SHORT ? 0 : Math.min(250_000, Math.floor(PARTITION_BYTES / BYTES_OF_EVENT)),
  eventsPerPart: 25_000,
  partitionBytes: PARTITION_BYTES,
  claimMs: 3_000,
};
/** More parts of a kind would be more work for the store than they save. Their size grows instead. */
const MAX_PARTS = 256;
/** Marks in a part: how exactly the parts have the same size. */
const MARKS_PER_PART = 5;
const SLICE = 1_000;
/** Rows written at once: about two milliseconds of the store. */
const ROWS_PER_BATCH = 480;
const BATCHES_IN_FLIGHT = 8;
const POLL_MS = 100;
const PROGRESS_MS = 500;
/** A worker ends its help once nobody has followed the generation for this long, ms. */
const LEFT_MS = 5_000;
/** The shares of the two steps in the progress. */
const [DIVIDE, FOLD] = [0.5, 0.5];
/** The share of folding an undivided log; the rest is writing its rows. */
const FOLD_UNDIVIDED = 0.8;

/** Ids of the builds that this process works on, each by one worker at a time. */
const working = new Set<string>();

export interface SharedBuildOptions {
  signal: AbortSignal;
  /** Called with the number of events that the work of all processes corresponds to. */
  onProgress?: (done: number) => void;
  /** To invite workers. */
  jobs?: Jobs | undefined;
  sizes?: Partial<SharedBuildSizes>;
}

/**
 * @param holder of the generation's lease
 * @param finishing called before the rows become visible
 * @returns the checkpoint that was stored; `refused` if the lease was lost or the generation is gone; `aborted`;
 * undefined if the log is short, or if the generation cannot be built in this way: nothing is left
 */
export async function buildShared(
  id: string,
  holder: string,
  store: EventStore,
  readModels: ReadModels,
  finishing: () => Promise<void>,
  options: SharedBuildOptions,
): Promise<Checkpoint | 'refused' | 'aborted' | undefined> {
  const { signal, jobs, onProgress } = options;
  const sizes = { ...SIZES, ...options.sizes };
  const build = await begun(id, holder, store, readModels, sizes);
  if (!build || build === 'refused') return build;
  const { plan } = build;
  if (jobs && !isUndivided(plan)) {
    const call = randomUUID().slice(0, 8);
    const count = Math.min(INVITATIONS, Math.max(plan.ranges.length, plan.partitions));
    for (let n = 0; n < count; n++) {
      await jobs.enqueue(BUILD_JOB, `${plan.id}-${call}-${n}`, { generation: id, build: plan.id });
    }
  }
  const worker = new BuildWorker(id, build, store, readModels, sizes, signal);
  const ended = await worker.run((state) => onProgress?.(workOf(plan, state)));
  if (ended === 'aborted') return 'aborted';
  if (ended === 'gone') return 'refused';
  if (ended === 'failed') {
    await build.discard();
    // Its parts may fit in memory.
    if (isUndivided(plan) && sizes.divideFrom > 0) {
      const divided = { ...options, sizes: { ...sizes, divideFrom: 0 } };
      return buildShared(id, holder, store, readModels, finishing, divided);
    }
    return undefined;
  }
  await finishing();
  const next = { log: store.logId, position: plan.ranges.at(-1)!, event_id: plan.event_id };
  return (await build.finish(holder, next)) ? next : 'refused';
}

/** The build under way, or a new one. Undefined: the log is short. */
async function begun(
  id: string,
  holder: string,
  store: EventStore,
  readModels: ReadModels,
  sizes: SharedBuildSizes,
): Promise<SharedBuild | 'refused' | undefined> {
  for (;;) {
    const plan = (await readModels.sharedBuild!(id))?.plan ?? (await planOf(store, sizes));
    if (!plan) return undefined;
    const build = await readModels.beginBuild!(id, holder, store.logId, plan);
    if (!build) return 'refused';
    const { event_id, ranges } = build.plan;
    const isOfLog = (await store.readAt(ranges.at(-1)!))?.id === event_id;
    if (isOfLog && (await build.state())?.failure === undefined) return build;
    await build.discard();
  }
}

/** Whether the only range of a log is folded as it is read. */
function isUndivided({ partitions }: BuildPlan): boolean {
  return partitions === 1;
}

/** Undefined: the log is short. */
async function planOf(store: EventStore, sizes: SharedBuildSizes): Promise<BuildPlan | undefined> {
  const { from, divideFrom, eventsPerPart } = sizes;
  const goal = await store.head();
  if (goal === 0) return undefined;
  const every = Math.max(1, Math.floor(eventsPerPart / MARKS_PER_PART));
  const marks = (await store.marks!(0, every)).filter((position) => position < goal);
  const events = (marks.length + 1) * every;
  if (events < from) return undefined;
  const parts = events < divideFrom ? 1 : Math.min(MAX_PARTS, Math.ceil((marks.length + 1) / MARKS_PER_PART));
  const ends = Array.from({ length: parts - 1 }, (_, n) => marks[Math.floor(((n + 1) * marks.length) / parts)]!);
  const event_id = (await store.readAt(goal))!.id;
  return { id: randomUUID(), ranges: [...new Set(ends), goal], event_id, partitions: parts };
}

/**
 * Helps with a build until it ends, or until nobody follows the generation any more.
 * @throws Error if the build has rows that this process would fold in another way
 */
export async function helpBuild(
  id: string,
  buildId: string,
  store: EventStore,
  readModels: ReadModels,
  options: Pick<SharedBuildOptions, 'signal' | 'sizes'>,
): Promise<void> {
  const build = await readModels.sharedBuild?.(id);
  if (build?.plan.id !== buildId) return;
  const generation = await findGeneration(id, readModels);
  // Another worker is invited too.
  if (!generation || generation.checkpoint.log !== store.logId || !isOfThisBuild(generation)) return;
  await new BuildWorker(id, build, store, readModels, { ...SIZES, ...options.sizes }, options.signal, true).run();
}

type Outcome = 'done' | 'gone' | 'failed' | 'aborted';

/** Stores what a part has become, and completes the part. */
type StorePart = () => Promise<void>;

/** What one process does for a build: it reads and folds one part after the other, and stores each meanwhile. */
class BuildWorker {
  /** The storing of the part before; `stored` awaits it and throws its failure. */
  private storing: Promise<void> | undefined;

  constructor(
    private readonly id: string,
    private readonly build: SharedBuild,
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly sizes: SharedBuildSizes,
    private readonly signal: AbortSignal,
    private readonly isHelper = false,
  ) {}

  async run(onState: (state: BuildState) => void = () => undefined): Promise<Outcome> {
    const { build, signal } = this;
    const { id } = build.plan;
    const watch = setInterval(() => {
      build.state().then(
        (state) => state && onState(state),
        () => undefined,
      );
    }, PROGRESS_MS);
    const isFirst = !working.has(id);
    working.add(id);
    try {
      const projections = projectionsOf((await findGeneration(this.id, this.readModels))?.views ?? {});
      let followedAt = performance.now();
      for (;;) {
        if (signal.aborted) return 'aborted';
        const state = await build.state();
        if (!state) return 'gone';
        onState(state);
        if (state.failure !== undefined) return 'failed';
        const open = this.open(state);
        if (open === undefined) return 'done';
        // One worker at a time in a process.
        const worked = (isFirst || !this.isHelper) && (await this.workOnOneOf(open, projections));
        if (worked) followedAt = performance.now();
        else if (this.storing) await this.stored();
        else if (!(await this.isLeft(followedAt))) await pause(POLL_MS, signal);
        else return 'gone';
      }
    } finally {
      await this.stored().catch(() => undefined); // the outcome is decided
      clearInterval(watch);
      if (isFirst) working.delete(id);
    }
  }

  /** Waits until the part before is stored. */
  private async stored(): Promise<void> {
    const { storing } = this;
    this.storing = undefined;
    await storing;
  }

  /** Whether nobody will finish the build soon. */
  private async isLeft(followedAt: number): Promise<boolean> {
    if (!this.isHelper || performance.now() - followedAt < LEFT_MS) return false;
    const generation = await findGeneration(this.id, this.readModels);
    return !generation || generation.lease === null;
  }

  /** The parts that can be worked on now; undefined: all are done. */
  private open({ parts }: BuildState): PartName[] | undefined {
    const { ranges, partitions } = this.build.plan;
    const undone = (names: PartName[]) => names.filter((name) => !parts.get(name)?.isDone);
    let left = undone(ranges.map((_, n): PartName => `range:${n}`));
    // What a partition depends on may be in any range.
    if (left.length === 0 && !isUndivided(this.build.plan)) {
      left = undone(['rest', ...Array.from({ length: partitions }, (_, n): PartName => `partition:${n}`)]);
    }
    return left.length === 0 ? undefined : left.filter((name) => !parts.get(name)?.isClaimed);
  }

  private async workOnOneOf(names: readonly PartName[], projections: readonly Projection[]): Promise<boolean> {
    for (const name of names) {
      const part = await ClaimedPart.claim(name, this.build, this.sizes.claimMs, this.signal);
      if (!part) continue;
      try {
        const store = await this.prepare(part, projections);
        await this.stored();
        this.storing = this.storeAndEnd(part, store);
        this.storing.catch(() => undefined); // thrown by `stored`
      } catch (error) {
        part.end();
        if (!(error instanceof PartLost)) throw error;
      }
      return true;
    }
    return false;
  }

  /** Does all but storing. Undefined: the build has failed. */
  private prepare(part: ClaimedPart, projections: readonly Projection[]): Promise<StorePart | undefined> {
    if (isUndivided(this.build.plan)) return this.foldUndivided(part, projections);
    const [kind, n] = part.name.split(':');
    if (kind === 'range') return this.divide(part, Number(n), projections);
    return this.fold(part, kind === 'rest' ? undefined : Number(n), projections);
  }

  private async foldUndivided(part: ClaimedPart, projections: readonly Projection[]): Promise<StorePart | undefined> {
    const end = this.build.plan.ranges[0]!;
    const rows = new SortedRows();
    const folded = await foldLog(this.store, end, rows, {
      projections,
      signal: part.signal,
      sliceSize: SLICE,
      memoryBytes: this.sizes.partitionBytes,
      onFolded: (events) => (part.progress = FOLD_UNDIVIDED * events),
    });
    part.check();
    if (!folded) return this.fail('the rows take too much memory');
    const { events, checkpoint, stop } = folded;
    if (stop) return this.fail(stop.message);
    if (checkpoint.position < end) return this.fail(`the log ends at ${checkpoint.position}, before ${end}`);
    return async () => {
      await this.write(part, rows, [FOLD_UNDIVIDED * events, events]);
      await part.complete();
    };
  }

  private async fail(reason: string): Promise<undefined> {
    await this.build.fail(reason);
    return undefined;
  }

  private async storeAndEnd(part: ClaimedPart, store: StorePart | undefined): Promise<void> {
    try {
      await store?.();
    } catch (error) {
      if (!(error instanceof PartLost)) throw error;
    } finally {
      part.end();
    }
  }

  private async divide(
    part: ClaimedPart,
    range: number,
    projections: readonly Projection[],
  ): Promise<StorePart | undefined> {
    const { ranges, partitions } = this.build.plan;
    const [after, end] = [ranges[range - 1] ?? 0, ranges[range]!];
    const own = Array.from({ length: partitions }, () => new PackedEvents());
    const shared = new PackedEvents();
    let read = after;
    let bytes = 0;
    for await (const slice of this.store.readAll(after, { sliceSize: SLICE, signal: part.signal })) {
      const recorded = slice.filter(({ position }) => position <= end);
      const { events, stop } = await decodeSlice(recorded);
      // The ordinary follower continues up to this event, and halts.
      if (stop) return this.fail(stop.message);
      for (const event of events) {
        const { parts, isShared } = divided(event, projections, partitions);
        if (parts.length === 0 && !isShared) continue;
        const text = packed(event);
        bytes += text.length;
        if (isShared) shared.add(text);
        for (const partition of parts) own[partition]!.add(text);
        if (isDue()) await yieldIfDue();
      }
      if (bytes > this.sizes.partitionBytes) return this.fail('a range of the log has too many events');
      part.progress += events.length;
      read = slice.at(-1)!.position;
      if (read >= end) break;
    }
    part.check();
    if (read < end) return this.fail(`the log ends at ${read}, before ${end}`);
    const spills: [Spill, PackedEvents][] = [['shared', shared], ...own.entries()];
    return async () => {
      for (const [spill, events] of spills) {
        part.keep(await this.build.spill(part.name, part.holder, spill, range, events.take()));
      }
      await part.complete();
    };
  }

  /** @param partition undefined: what has no share */
  private async fold(
    part: ClaimedPart,
    partition: number | undefined,
    projections: readonly Projection[],
  ): Promise<StorePart | undefined> {
    const { ranges, partitions } = this.build.plan;
    const rows = new SortedRows();
    const ends = partition === undefined ? new Divider(projections, 1, rows) : undefined;
    const fold = new PartitionFold(projections, partition ?? 0, partitions, rows);
    const eventsOfRange = (range: number) => {
      const own = partition === undefined ? NOTHING : this.build.spilled(partition, range);
      const events = Promise.all([this.build.spilled('shared', range), own]);
      events.catch(() => undefined); // thrown where it is awaited
      return events;
    };
    let bytes = 0;
    let next = eventsOfRange(0);
    for (let range = 0; range < ranges.length; range++) {
      const [shared, own] = await next;
      // Read while these are folded.
      if (range + 1 < ranges.length) next = eventsOfRange(range + 1);
      // A build that has ended meanwhile has no events any more.
      if (!shared || !own) {
        part.keep(await this.build.renew(part.name, part.holder, this.sizes.claimMs, part.progress));
        return this.fail('events were lost');
      }
      bytes += own.length;
      if (bytes > this.sizes.partitionBytes) return this.fail('an identity has too many events');
      for (const { event, isShared } of merged(eventsOf(shared), eventsOf(own))) {
        if (ends) ends.take(event);
        else if (isShared) fold.applyShared(event);
        else fold.apply(event);
        if (isDue()) await yieldIfDue();
      }
      part.progress = (0.5 * (range + 1)) / ranges.length;
      part.check();
    }
    for (const _ of (ends ?? fold).finish()) await yieldIfDue();
    return async () => {
      await this.write(part, rows, [0.5, 1]);
      await part.complete();
    };
  }

  /** @param progress of the part, before and after */
  private async write(
    part: ClaimedPart,
    rows: SortedRows,
    [before, after]: readonly [before: number, after: number],
  ): Promise<void> {
    const total = rows.size;
    let written = 0;
    let batch = new EncodedRows();
    const writing: Promise<boolean>[] = [];
    const put = async () => {
      part.check();
      const putting = this.build.put(part.name, part.holder, batch);
      putting.catch(() => undefined); // thrown where it is awaited
      writing.push(putting);
      written += batch.size;
      part.progress = before + ((after - before) * written) / total;
      batch = new EncodedRows();
      if (writing.length > BATCHES_IN_FLIGHT) part.keep(await writing.shift()!);
    };
    const visits = rows.inOrder((chunk, start, middle, end) => batch.copy(chunk, start, middle, end));
    for (const _ of visits) {
      await yieldIfDue();
      if (batch.size >= ROWS_PER_BATCH) await put();
    }
    if (batch.size > 0) await put();
    for (const outcome of await Promise.all(writing)) part.keep(outcome);
    part.progress = after;
  }
}

const NOTHING = Buffer.alloc(0);

/** Two series of events in the order of the log. An event of both is first the shared one. */
function* merged(
  shared: Iterator<DomainEvent>,
  own: Iterable<DomainEvent>,
): Generator<{ event: DomainEvent; isShared: boolean }> {
  let next = shared.next();
  for (const event of own) {
    for (; !next.done && next.value.position <= event.position; next = shared.next()) {
      yield { event: next.value, isShared: true };
    }
    yield { event, isShared: false };
  }
  for (; !next.done; next = shared.next()) yield { event: next.value, isShared: true };
}

/** The number of events that the work of all processes on a generation's shared build corresponds to; 0 without one. */
export async function workOnBuild(id: string, readModels: ReadModels): Promise<number> {
  const build = await readModels.sharedBuild?.(id);
  const state = await build?.state();
  return build && state ? workOf(build.plan, state) : 0;
}

function workOf(plan: BuildPlan, { parts }: BuildState): number {
  const { ranges, partitions } = plan;
  const of = (kind: string): PartState[] => [...parts].flatMap(([name, part]) => (name.startsWith(kind) ? [part] : []));
  const sum = (found: readonly PartState[]) => found.reduce((total, { progress }) => total + progress, 0);
  const read = sum(of('range'));
  if (isUndivided(plan)) return Math.floor(read + 1e-6);
  const isRead = of('range').filter(({ isDone }) => isDone).length === ranges.length;
  const folded = isRead ? (read * sum(of('partition'))) / partitions : 0;
  return Math.floor(DIVIDE * read + FOLD * folded + 1e-6);
}
