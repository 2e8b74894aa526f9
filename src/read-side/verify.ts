import { setTimeout as sleep } from 'node:timers/promises';
import { type DomainEvent, decodeEvent, decodeFolded } from '../../projections/events.js';
import type { Projection, Rows } from '../../projections/projection.js';
import type { Checkpoint as SignedCheckpoint } from '../credentials/log-key.js';
import { backoff } from '../kernel/backoff.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { canonicalJson, digest64 } from '../kernel/hash.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { Json } from '../kernel/json.js';
import { memoryLimit } from '../kernel/memory.js';
import { EncodedRows, type PlacedRows } from '../stores/ports/encoded-rows.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Checkpoint, Generation, ReadModels, RowKey, ScannedPage } from '../stores/ports/read-models.js';
import { addressOf, keyOf } from '../stores/ports/row-key.js';
import { type BuildSizes, build } from './build.js';
import { FreshRows } from './build-fold.js';
import { OWN_VERSIONS, projectionsOf } from './own-views.js';
import { type TreeCheck, checkTree } from './verify-tree.js';

/**
 * Verification: the log is folded again from its start, as for a build, up to the position that a serving generation has
 * applied by then. Its rows are compared with those of the generation while both are read in the same order.
 *
 * Beside a live projector, rows change while they are compared. So a row that differs is read again together with the
 * checkpoint it reflects. It is wrong unless events up to there belong to its share. The shares of all such events are
 * folded once more, in memory, and the rows that these events have changed are compared at exactly the position that
 * they are read with.
 */

/** Rows read at once: few enough to keep the pauses of the event loop short. */
const PAGE = 500;
/** Events read at once: likewise. */
const SLICE = 1_000;
/** Events of shares that are folded once more at the same time, about: so many take up to 150 MB. */
const MOST_MOVED = Math.min(500_000, memoryLimit() / 4_096);
/** How often verification starts again because a generation was dropped meanwhile. */
const ATTEMPTS = 3;
/** How often the log is read to its end where a checkpoint is newer than the end that was seen. */
const READS = 5;

export interface Difference {
  generation: string;
  /** `checkpoint` if what the generation says it has applied is not in the log. */
  view: string;
  key: string;
  sort: string | null;
  /** The row according to the log, at the position; null: no such row. */
  expected: Json;
  /** The row in the read model; null: no such row. */
  found: Json;
  /** Applied position at which both were compared. */
  position: Position;
}

export interface VerifiedGeneration {
  id: string;
  views: string[];
  /** Position up to which it was followed. */
  position: Position;
  /** Whether it has not caught up with the log yet, so that only a part of its final rows was compared. */
  is_building: boolean;
  /** Events that were in the log when the comparison began, and that it has not applied. */
  not_applied: number;
  rows: number;
  /** The number of parts that were folded one after the other. */
  passes: number;
  /** Bytes of the temporary files. */
  disk_bytes: number;
}

export interface VerifyResult {
  /** Events of the log up to the furthest position compared. */
  events: number;
  rows: number;
  generations: VerifiedGeneration[];
  /** The first difference found; null if all compared rows are correct. */
  difference: Difference | null;
  /** Events of the log that cannot be read, so that no fold contains them. */
  damaged: RecordedEvent[];
  /** As of `EventStore.hiddenStreams`: no fold contains what is gone of them. Absent if there is none. */
  hidden_streams?: string[];
  /** Of the events of the log, whether the read models are right or not. */
  tree: TreeCheck | null;
}

/** Whether everything was compared, and no difference was found. */
export function isIdentical({ difference, damaged, hidden_streams, generations, tree }: VerifyResult): boolean {
  const isWhole = !tree?.change && damaged.length === 0 && hidden_streams === undefined;
  return difference === null && isWhole && !generations.some(({ is_building }) => is_building);
}

export interface VerifyProgress {
  generation: string;
  /** Events that the work done so far corresponds to. */
  done: number;
  total: number;
}

export interface VerifyOptions {
  onProgress?: (progress: VerifyProgress) => void;
  /** Tests use others. */
  sizes?: Partial<BuildSizes>;
  /** The last checkpoint that was signed. */
  signed?: SignedCheckpoint | undefined;
  /** Ends it, with its reason. */
  signal?: AbortSignal;
}

/** The generation was dropped while it was read. */
class GenerationGone extends Error {}

/** @throws NoSpaceToBuild; Error if a generation was built by other folds than this build's, or keeps being replaced */
export async function verify(
  store: EventStore,
  readModels: ReadModels,
  options: VerifyOptions = {},
): Promise<VerifyResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await verifyServing(store, readModels, options);
    } catch (error) {
      if (!(error instanceof GenerationGone)) throw error;
      if (attempt < ATTEMPTS) continue;
      throw new Error('The generations keep being replaced; run verify again later.', { cause: error });
    }
  }
}

async function verifyServing(store: EventStore, readModels: ReadModels, options: VerifyOptions): Promise<VerifyResult> {
  const views = (await readModels.manifest())?.views ?? {};
  const serving = new Set(Object.values(views));
  const nothing = { events: 0, rows: 0, generations: [], difference: null, damaged: [] };
  const verification: VerifyResult = { ...nothing, tree: null };
  const damaged = new Map<Position, RecordedEvent>();
  const head = await store.head();
  for (const generation of await readModels.generations()) {
    if (!serving.has(generation.id)) continue;
    if (generation.status === 'damaged') throw damagedGeneration(generation);
    const verifier = new GenerationVerifier(generation, store, readModels, damaged, options);
    verification.difference = await verifier.run();
    const { result } = verifier;
    if (result.position < head) result.not_applied = await countBetween(result.position, head, store);
    else result.is_building = false; // The generation has caught up meanwhile.
    verification.generations.push(result);
    verification.rows += result.rows;
    verification.events = Math.max(verification.events, await countBetween(0, result.position, store));
    if (verification.difference) break;
  }
  const { signed, signal } = options;
  const treeIn = views['log_tree'];
  if (treeIn !== undefined) verification.tree = await checkTree(store, readModels, treeIn, signed, signal);
  verification.damaged = [...damaged.values()].sort((a, b) => a.position - b.position);
  const hidden = await store.hiddenStreams?.();
  return hidden?.length ? { ...verification, hidden_streams: hidden } : verification;
}

function damagedGeneration({ id, damage = 'it has lost rows' }: Generation): StoreUnavailable {
  return new StoreUnavailable(`${id} is damaged (${damage}) and is built again while a worker runs`, {
    code: 'read_models_damaged',
  });
}

async function countBetween(from: Position, to: Position, store: EventStore): Promise<number> {
  // The counts of a log that grows may be of different moments, and about right only.
  return Math.max(0, (await store.countAfter(from)) - (await store.countAfter(to)));
}

class GenerationVerifier {
  readonly result: VerifiedGeneration;
  private readonly projections: readonly Projection[];
  private readonly byView = new Map<string, Projection>();
  private readonly onDamage: (event: RecordedEvent) => void;
  private readonly moved: MovedShares;
  /** Rows that differ, in shares that have moved, by address. */
  private readonly doubtful = new Map<string, Difference>();

  constructor(
    private readonly generation: Generation,
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    /** The unreadable events found so far, by position. */
    damaged: Map<Position, RecordedEvent>,
    private readonly options: VerifyOptions,
  ) {
    const { id, views, checkpoint, status } = generation;
    this.projections = projectionsOf(views);
    const other = Object.keys(views).find((name) => OWN_VERSIONS.get(name) !== views[name]);
    if (other !== undefined) {
      throw new Error(`${id} holds version ${views[other]} of ${other}, which this build does not fold.`);
    }
    for (const projection of this.projections) for (const view of projection.views) this.byView.set(view, projection);
    const { position } = checkpoint;
    this.onDamage = (event) => void damaged.set(event.position, event);
    this.moved = new MovedShares(this.projections, store, this.onDamage, options.signal);
    const is_building = status === 'building';
    this.result = {
      id,
      views: Object.keys(views),
      position,
      is_building,
      not_applied: 0,
      rows: 0,
      passes: 1,
      disk_bytes: 0,
    };
  }

  async run(): Promise<Difference | null> {
    const { store, readModels, projections, result, options, moved, onDamage } = this;
    const { checkpoint } = await this.read([]);
    const goal = (moved.position = result.position = checkpoint.position);
    const wrong = await this.checkpointDifference(checkpoint);
    // A build under way shows no row.
    if (wrong || (result.is_building && goal === 0)) return wrong;
    // Not the position itself: in EventStoreDB that is an offset in its files.
    const events = await countBetween(0, goal, store);
    const onProgress = (done: number) => {
      options.signal?.throwIfAborted();
      options.onProgress?.({ generation: result.id, done, total: events });
    };
    const signal = options.signal ?? new AbortController().signal;
    const folder = readModels.buildFolder;
    // However many events one identity has: nothing else can fold them here.
    const sizes = { partitionBytes: Infinity, ...options.sizes };
    const ofBuild = { projections, events, goal, folder, signal, onProgress, onDamage, sizes };
    const comparison = new Comparison(this);
    const built = await build(store, ofBuild, async (rows) => (await comparison.take(rows)) === null);
    options.signal?.throwIfAborted();
    if (typeof built === 'string') return comparison.difference;
    if (built.stop) throw built.stop;
    if (built.checkpoint.position < goal) throw tooShort(built.checkpoint.position, goal);
    [result.passes, result.disk_bytes] = [built.partitions, built.disk];
    return (await comparison.finish()) ?? this.compareMoved(goal);
  }

  /** Reads rows together with the checkpoint that they reflect. @throws GenerationGone */
  async read(rows: readonly RowKey[]): Promise<{ checkpoint: Checkpoint; found: (Json | undefined)[] }> {
    this.options.signal?.throwIfAborted();
    const { id } = this.generation;
    const read = await this.readModels.read(
      id,
      rows.map((row) => ({ get: row })),
    );
    if (!read) throw new GenerationGone();
    if (read.status === 'damaged') throw damagedGeneration(this.generation);
    const { checkpoint, results } = read;
    if (checkpoint.position < this.result.position) {
      throw new Error(`The generation went back from position ${this.result.position} to ${checkpoint.position}.`);
    }
    return { checkpoint, found: results as (Json | undefined)[] };
  }

  /** All rows in the order of their addresses, in pages. */
  async *pages(): AsyncGenerator<ScannedPage['rows']> {
    for (const view of [...this.byView.keys()].sort()) {
      for (let cursor: string | null = null; ;) {
        const page: ScannedPage = await this.readModels.scan(this.generation.id, view, cursor, PAGE);
        this.options.signal?.throwIfAborted();
        yield page.rows;
        if (page.cursor === null) break;
        cursor = page.cursor;
      }
    }
  }

  /** The first of some rows that is wrong. Those that may have moved are compared later. */
  async settle(rows: readonly ExpectedRow[]): Promise<Difference | null> {
    if (rows.length === 0) return null;
    const { checkpoint, found } = await this.read(rows.map(({ row }) => row));
    const wrong = await this.checkpointDifference(checkpoint);
    if (wrong) return wrong;
    await this.moved.advance(checkpoint.position);
    for (const [i, { row, content }] of rows.entries()) {
      if (isDue()) await yieldIfDue();
      const expected = content === undefined ? undefined : (JSON.parse(content) as Json);
      if (isSame(expected, found[i])) continue;
      const difference = this.difference(row, expected, found[i], checkpoint.position);
      if (!this.moved.has(this.shareOf(row, expected ?? found[i]))) return difference;
      this.doubtful.set(addressOf(row), difference);
    }
    return null;
  }

  /** The share of a row, whose content may be anything. */
  private shareOf(row: RowKey, value: Json | undefined): string | undefined {
    try {
      return this.byView.get(row.view)!.share?.ofRow(row, value!);
    } catch {
      return undefined;
    }
  }

  /** Compares the rows that were changed since the log was folded up to a position. */
  private async compareMoved(since: Position): Promise<Difference | null> {
    const { checkpoint } = await this.read([]);
    const { position } = checkpoint;
    const wrong = await this.checkpointDifference(checkpoint);
    if (wrong || position === since) return wrong;
    await this.moved.advance(position);
    let groups = 1;
    for (let group = 0; group < groups; group++) {
      const part = { group, groups };
      const fold = new MovedFold(this.projections, this.store, this.moved, since, part, this.options.signal);
      const share = await fold.advance(position, groups === 1 ? MOST_MOVED : Infinity);
      if (share < 1) {
        // As many at a time as fit into memory.
        groups = Math.ceil(1 / share) + 1;
        group = -1;
        continue;
      }
      const difference = await this.compareChanged(fold);
      if (difference) return difference;
    }
    // No event has changed these since they were found.
    for (const [, difference] of this.doubtful) return difference;
    return null;
  }

  private async compareChanged(fold: MovedFold): Promise<Difference | null> {
    const rows = [...fold.changed.values()];
    for (let from = 0; from < rows.length; from += PAGE) {
      const page = rows.slice(from, from + PAGE);
      const { checkpoint, found } = await this.read(page);
      const wrong = await this.checkpointDifference(checkpoint);
      if (wrong) return wrong;
      const { position } = checkpoint;
      await fold.advance(position);
      for (const [i, row] of page.entries()) {
        if (isDue()) await yieldIfDue();
        this.doubtful.delete(addressOf(row));
        const expected = fold.get<Json>(row);
        if (!isSame(expected, found[i])) return this.difference(row, expected, found[i], position);
      }
    }
    return null;
  }

  /** Also notes that this position was compared. */
  private async checkpointDifference(checkpoint: Checkpoint): Promise<Difference | null> {
    const { log, position, event_id } = checkpoint;
    this.result.position = position;
    const event = position === 0 ? undefined : await this.store.readAt(position);
    const expected = { log: this.store.logId, event_id: event?.id ?? null };
    if (log === expected.log && event_id === expected.event_id && (event || position === 0)) return null;
    return this.difference({ view: 'checkpoint', key: this.generation.id }, expected, { log, event_id }, position);
  }

  private difference(row: RowKey, expected: Json | undefined, found: Json | undefined, position: Position): Difference {
    const { view, key, sort = null } = row;
    const { id } = this.generation;
    return { generation: id, view, key, sort, expected: expected ?? null, found: found ?? null, position };
  }
}

/** Whether both are absent or the same: the order of the members of an object does not count. */
function isSame(expected: Json | undefined, found: Json | undefined): boolean {
  if (expected === undefined || found === undefined) return expected === found;
  return JSON.stringify(expected) === JSON.stringify(found) || canonicalJson(expected) === canonicalJson(found);
}

function tooShort(end: Position, wanted: Position): Error {
  return new Error(`The log ends at position ${end}, before ${wanted}.`);
}

/** A row with its content as JSON; undefined: there should be no such row. */
interface ExpectedRow {
  row: RowKey;
  content: string | undefined;
}

/** Compares sorted rows with those of a generation. */
class Comparison {
  difference: Difference | null = null;
  private readonly pages: AsyncGenerator<ScannedPage['rows']>;
  private page: ScannedPage['rows'] = [];
  private place = 0;
  private isAtEnd = false;
  /** Rows that differ, but may have moved. */
  private differing: ExpectedRow[] = [];

  constructor(private readonly verifier: GenerationVerifier) {
    this.pages = verifier.pages();
  }

  /** Compares the next rows. @returns the first difference */
  async take(rows: PlacedRows): Promise<Difference | null> {
    const expected: [address: string, content: string][] = [];
    rows.forEach((chunk, start, middle, end) => {
      expected.push([chunk.toString('utf8', start, middle), chunk.toString('utf8', middle, end)]);
    });
    for (const [address, content] of expected) {
      await this.passBefore(address);
      const found = this.page[this.place];
      if (!found || addressOf(found.row) !== address) this.differing.push({ row: keyOf(address), content });
      else {
        if (JSON.stringify(found.value) !== content) this.differing.push({ row: found.row, content });
        this.place++;
        this.verifier.result.rows++;
      }
      if (isDue()) await yieldIfDue();
      if (this.differing.length >= PAGE && (await this.settle())) break;
    }
    return this.difference ?? this.settle();
  }

  /** Passes the rows that are left, which are too many. @returns the first difference */
  async finish(): Promise<Difference | null> {
    await this.passBefore(undefined);
    return this.difference ?? this.settle();
  }

  /** Passes rows that are too many: those before an address, or all. */
  private async passBefore(address: string | undefined): Promise<void> {
    while (!this.difference) {
      if (this.place >= this.page.length && !(await this.turnPage())) return;
      const { row } = this.page[this.place]!;
      if (address !== undefined && !isBefore(addressOf(row), address)) return;
      this.differing.push({ row, content: undefined });
      this.place++;
      this.verifier.result.rows++;
      if (this.differing.length >= PAGE) await this.settle();
    }
  }

  /** @returns false at the end */
  private async turnPage(): Promise<boolean> {
    while (!this.isAtEnd) {
      const { value, done } = await this.pages.next();
      if (done) this.isAtEnd = true;
      else if (value.length > 0) {
        [this.page, this.place] = [value, 0];
        return true;
      }
    }
    return false;
  }

  private async settle(): Promise<Difference | null> {
    const rows = this.differing;
    this.differing = [];
    return (this.difference ??= await this.verifier.settle(rows));
  }
}

function isBefore(address: string, other: string): boolean {
  return address !== other && Buffer.compare(Buffer.from(address), Buffer.from(other)) < 0;
}

/** Events after a position, up to another one. @throws Error if the log ends before; the reason of the signal */
async function* eventsBetween(
  store: EventStore,
  from: Position,
  to: Position,
  signal: AbortSignal | undefined,
): AsyncGenerator<RecordedEvent[]> {
  for (let attempt = 1, at = from; at < to; attempt++) {
    if (attempt > 1) await sleep(backoff(attempt));
    for await (const slice of store.readAll(at, { sliceSize: Math.min(SLICE, to - at) })) {
      const events = slice.filter(({ position }) => position <= to);
      at = events.at(-1)?.position ?? at;
      signal?.throwIfAborted();
      yield events;
      if (at >= to) return;
    }
    if (attempt === READS) throw tooShort(at, to);
  }
}

/** The shares whose rows events have changed since a position; undefined: rows without a share. */
class MovedShares {
  position: Position = 0;
  private readonly shares = new Set<string | undefined>();

  constructor(
    private readonly projections: readonly Projection[],
    private readonly store: EventStore,
    private readonly onDamage: (event: RecordedEvent) => void,
    private readonly signal: AbortSignal | undefined,
  ) {}

  has(share: string | undefined): boolean {
    return this.shares.has(share);
  }

  async advance(to: Position): Promise<void> {
    for await (const events of eventsBetween(this.store, this.position, to, this.signal)) {
      for (const recorded of events) {
        if (recorded.damage) this.onDamage(recorded);
        const event = decodeEvent(recorded);
        for (const { share } of this.projections) this.shares.add(share?.ofEvent(event));
        this.position = event.position;
        if (isDue()) await yieldIfDue();
      }
    }
  }
}

/** Folds moved shares from the start of the log, in memory, and notes the rows that were changed after a position. */
class MovedFold implements Rows {
  /** By address. */
  readonly changed = new Map<string, RowKey>();
  /** The number of events of these shares. */
  private events = 0;
  private position: Position = 0;
  private isNoted = false;
  private readonly rows = new FreshRows(new EncodedRows());

  constructor(
    private readonly projections: readonly Projection[],
    private readonly store: EventStore,
    private readonly moved: MovedShares,
    private readonly since: Position,
    /** Which of several groups of shares it folds. What has no share belongs to the first. */
    private readonly part: { group: number; groups: number },
    private readonly signal: AbortSignal | undefined,
  ) {}

  /** @returns the share of the log that it has folded: it ends early beyond so many events of these shares */
  async advance(to: Position, most = Infinity): Promise<number> {
    for await (const events of eventsBetween(this.store, this.position, to, this.signal)) {
      for (const event of events) {
        this.apply(decodeFolded(event));
        if (isDue()) await yieldIfDue();
      }
      for (const _ of this.rows.saveMemory()) await yieldIfDue();
      if (this.events > most) break;
    }
    return this.position / to;
  }

  get<T>(row: RowKey): T | undefined {
    return this.rows.get(row);
  }

  find<T>(row: RowKey): T | undefined {
    return this.rows.get(row);
  }

  put(row: RowKey, value: unknown): void {
    this.note(row);
    this.rows.put(row, value);
  }

  /** No fold reads the row again, but the fold may change the value. */
  insert(row: RowKey, value: unknown): void {
    if (this.isNoted) this.put(row, structuredClone(value));
  }

  delete(row: RowKey): void {
    this.note(row);
    this.rows.delete(row);
  }

  private note(row: RowKey): void {
    if (this.isNoted) this.changed.set(addressOf(row), row);
  }

  private apply(event: DomainEvent): void {
    const isLater = event.position > this.since;
    let isCounted = false;
    for (const projection of this.projections) {
      const share = projection.share?.ofEvent(event);
      // The rows of every share may depend on those without one.
      if (share !== undefined && !this.isOwn(share)) continue;
      isCounted ||= share !== undefined;
      this.isNoted = isLater && (share !== undefined || this.part.group === 0);
      projection.apply(event, this);
    }
    if (isCounted) this.events++;
    this.position = event.position;
  }

  private isOwn(share: string): boolean {
    const { group, groups } = this.part;
    return this.moved.has(share) && (groups === 1 || digest64(share)[0] % groups === group);
  }
}
