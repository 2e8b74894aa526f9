import { crc32 } from 'node:zlib';
import { type DomainEvent, decodeEvent, decodeFolded } from '../../projections/events.js';
import type { Projection } from '../../projections/projection.js';
import type { Checkpoint as SignedCheckpoint } from '../credentials/log-key.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { canonicalJson } from '../kernel/hash.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { Json } from '../kernel/json.js';
import { memoryLimit } from '../kernel/memory.js';
import { EncodedRows, type PlacedRows } from '../stores/ports/encoded-rows.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Generation, ReadModels, RowKey, ScannedPage } from '../stores/ports/read-models.js';
import { addressOf, keyOf } from '../stores/ports/row-key.js';
import { type BuildSizes, build } from './build.js';
import { FreshRows } from './build-fold.js';
import { type TreeCheck, checkTree } from './log-tree.js';
import { OWN_VERSIONS, projectionsOf } from './own-views.js';

/**
 * Verification: the log is folded again from its start, as for a build, and the rows are compared with those of a serving
 * generation while both are read in the same order. docs/builds.md says how, beside a projector that changes the rows.
 */

/** Rows read at once: few enough to keep the pauses of the event loop short. */
const PAGE = 500;
/** Events read at once: likewise. */
const SLICE = 1_000;
/** Events of shares that are folded once more at the same time, about: so many take up to 150 MB. */
const MOST_MOVED = Math.min(500_000, memoryLimit() / 4_096);
/** How often verification starts again because a generation was dropped meanwhile. */
const ATTEMPTS = 3;

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

export interface VerifyOptions {
  /** Told how many events, of how many, the work done so far on a generation corresponds to. */
  onProgress?: (progress: { generation: string; done: number; total: number }) => void;
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
export async function verify(store: EventStore, readModels: ReadModels, options: VerifyOptions = {}) {
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
  const verification: VerifyResult = { events: 0, rows: 0, generations: [], difference: null, damaged: [], tree: null };
  const damaged = new Map<Position, RecordedEvent>();
  const head = await store.head();
  for (const generation of await readModels.generations()) {
    if (!serving.has(generation.id)) continue;
    if (generation.status === 'damaged') throw damagedGeneration(generation);
    const verifier = new GenerationVerifier(generation, store, readModels, damaged, options);
    await verifier.compare().catch((error: unknown) => {
      if (!(error instanceof Different)) throw error;
      verification.difference = error.difference;
    });
    const { result } = verifier;
    if (result.position < head) result.not_applied = await countBetween(result.position, head, store);
    else result.is_building = false; // The generation has caught up meanwhile.
    verification.generations.push(result);
    verification.rows += result.rows;
    verification.events = Math.max(verification.events, await verifier.events());
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

/** About: of many events the store may give an estimate, and the log may grow meanwhile. */
async function countBetween(from: Position, to: Position, store: EventStore): Promise<number> {
  return Math.max(0, (await store.countAfter(from)) - (await store.countAfter(to)));
}

/** The first difference, which ends the comparison. */
class Different extends Error {
  constructor(readonly difference: Difference) {
    super();
  }
}

class GenerationVerifier {
  readonly result: VerifiedGeneration;
  private readonly projections: readonly Projection[];
  /** The position up to which the log is folded for the comparison, and the events up to there once it is. */
  private goal: Position = 0;
  private folded: number | undefined;
  private readonly pages: AsyncGenerator<ScannedPage['rows']>;
  /** The rows that were read last, and the place of the next one. */
  private page: ScannedPage['rows'] = [];
  private place = 0;
  /** Rows that differ, with their right content as JSON; undefined: there should be no such row. */
  private differing: { row: RowKey; content: string | undefined }[] = [];
  /** Rows that still differ, but that events may have changed since the log was folded, by address. */
  private readonly doubtful = new Map<string, Difference>();

  constructor(
    private readonly generation: Generation,
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    /** The unreadable events found so far, by position. */
    private readonly damaged: Map<Position, RecordedEvent>,
    private readonly options: VerifyOptions,
  ) {
    const { id, views, checkpoint, status } = generation;
    this.projections = projectionsOf(views);
    const other = Object.keys(views).find((name) => OWN_VERSIONS.get(name) !== views[name]);
    if (other !== undefined) {
      throw new Error(`${id} holds version ${views[other]} of ${other}, which this build does not fold.`);
    }
    this.pages = this.scan();
    const { position } = checkpoint;
    const nothing = { not_applied: 0, rows: 0, passes: 1, disk_bytes: 0 };
    this.result = { id, views: Object.keys(views), position, is_building: status === 'building', ...nothing };
  }

  /** The number of events up to the position of the result. */
  async events(): Promise<number> {
    const { goal, result, store } = this;
    const folded = this.folded ?? (await countBetween(0, goal, store));
    return folded + (await countBetween(goal, result.position, store));
  }

  /** @throws Different */
  async compare(): Promise<void> {
    const { store, readModels, projections, result, options } = this;
    const { position: goal } = await this.read([]);
    this.goal = goal;
    // A build under way shows no row.
    if (result.is_building && goal === 0) return;
    // Not the position itself: in EventStoreDB that is an offset in its files.
    const events = await countBetween(0, goal, store);
    const show = (done: number, total: number) => options.onProgress?.({ generation: result.id, done, total });
    const onProgress = (done: number) => show(done, Math.max(done, events));
    const onDamage = (event: RecordedEvent) => void this.damaged.set(event.position, event);
    const signal = options.signal ?? new AbortController().signal;
    const folder = readModels.buildFolder;
    // However many events one identity has: nothing else can fold them here.
    const sizes = { partitionBytes: Infinity, ...options.sizes };
    const ofBuild = { projections, events, goal, folder, signal, onProgress, onDamage, sizes };
    const built = await build(store, ofBuild, (rows) => this.take(rows));
    signal.throwIfAborted();
    if (typeof built === 'string') throw new Error(`The fold of the log ended: ${built}.`);
    if (built.stop) throw built.stop;
    if (built.checkpoint.position < goal) throw tooShort(built.checkpoint.position, goal);
    [this.folded, result.passes, result.disk_bytes] = [built.events, built.partitions, built.disk];
    show(built.events, built.events);
    await this.passTo(undefined);
    await this.settle();
    await this.compareMoved();
  }

  /**
   * Reads rows together with the position that they reflect, which is noted as compared.
   * @throws GenerationGone; Different if the log does not have what the generation says it has applied
   */
  private async read(rows: readonly RowKey[]): Promise<{ position: Position; found: (Json | undefined)[] }> {
    this.options.signal?.throwIfAborted();
    const { id } = this.generation;
    const queries = rows.map((row) => ({ get: row }));
    const read = await this.readModels.read(id, queries);
    if (!read) throw new GenerationGone();
    if (read.status === 'damaged') throw damagedGeneration(this.generation);
    const { log, position, event_id } = read.checkpoint;
    if (position < this.result.position) {
      throw new Error(`The generation went back from position ${this.result.position} to ${position}.`);
    }
    this.result.position = position;
    const event = position === 0 ? undefined : await this.store.readAt(position);
    const expected = { log: this.store.logId, event_id: event?.id ?? null };
    if (log !== expected.log || event_id !== expected.event_id || (!event && position > 0)) {
      throw new Different(this.difference({ view: 'checkpoint', key: id }, expected, { log, event_id }));
    }
    return { position, found: read.results as (Json | undefined)[] };
  }

  /** All rows of the generation in the order of their addresses, in pages. */
  private async *scan(): AsyncGenerator<ScannedPage['rows']> {
    for (const view of this.projections.flatMap(({ views }) => views).sort()) {
      for (let cursor: string | null = null; ;) {
        const page: ScannedPage = await this.readModels.scan(this.generation.id, view, cursor, PAGE);
        this.options.signal?.throwIfAborted();
        if (page.rows.length > 0) yield page.rows;
        if (page.cursor === null) break;
        cursor = page.cursor;
      }
    }
  }

  /** Compares the next rows. */
  private async take(rows: PlacedRows): Promise<true> {
    const expected: [address: string, content: string][] = [];
    rows.forEach((chunk, start, middle, end) => {
      expected.push([chunk.toString('utf8', start, middle), chunk.toString('utf8', middle, end)]);
    });
    for (const [address, content] of expected) {
      const found = await this.passTo(address);
      if (!found || JSON.stringify(found.value) !== content) this.differing.push({ row: keyOf(address), content });
      if (isDue()) await yieldIfDue();
      if (this.differing.length >= PAGE) await this.settle();
    }
    await this.settle();
    return true;
  }

  /** Passes rows that are too many: those before an address, or all. @returns the row at the address, passed as well */
  private async passTo(address: string | undefined): Promise<ScannedPage['rows'][number] | undefined> {
    for (;;) {
      if (this.place >= this.page.length) {
        const { value, done } = await this.pages.next();
        if (done) return undefined;
        [this.page, this.place] = [value, 0];
      }
      const next = this.page[this.place]!;
      const own = addressOf(next.row);
      const isAt = own === address;
      if (!isAt && address !== undefined && Buffer.compare(Buffer.from(own), Buffer.from(address)) > 0)
        return undefined;
      this.place++;
      this.result.rows++;
      if (isAt) return next;
      this.differing.push({ row: next.row, content: undefined });
      if (this.differing.length >= PAGE) await this.settle();
    }
  }

  /** Reads the rows that differ again. Events since the fold may have changed them: then they are compared later. */
  private async settle(): Promise<void> {
    const rows = this.differing;
    if (rows.length === 0) return;
    this.differing = [];
    const { position, found } = await this.read(rows.map(({ row }) => row));
    for (const [i, { row, content }] of rows.entries()) {
      if (isDue()) await yieldIfDue();
      const expected = content === undefined ? undefined : (JSON.parse(content) as Json);
      if (isSame(expected, found[i])) continue;
      const difference = this.difference(row, expected, found[i]);
      if (position === this.goal) throw new Different(difference);
      this.doubtful.set(addressOf(row), difference);
    }
    if (this.doubtful.size > MOST_MOVED) await this.compareMoved();
  }

  /** Compares the rows that were changed by events after the fold. */
  private async compareMoved(): Promise<void> {
    const { position } = await this.read([]);
    if (position === this.goal) return;
    const moved = new Set<string>();
    for await (const events of this.eventsBetween(this.goal, position)) {
      for (const event of events) {
        const decoded = decodeEvent(event);
        for (const { share } of this.projections) {
          const own = share?.(decoded);
          if (own !== undefined) moved.add(own);
        }
        if (isDue()) await yieldIfDue();
      }
    }
    let groups = 1;
    for (let group = 0; group < groups; group++) {
      const isWanted = (share: string) => moved.has(share) && crc32(share) % groups === group;
      const fold = new MovedFold(this.projections, this.goal, isWanted, group === 0);
      const folded = await this.advance(fold, position, groups === 1 ? MOST_MOVED : Infinity);
      if (folded) await this.compareChanged(fold);
      else {
        // As many at a time as fit into memory.
        groups = Math.ceil(position / fold.position) + 1;
        group = -1;
      }
    }
    // No event has changed these since they were found.
    for (const [, difference] of this.doubtful) throw new Different(difference);
  }

  /** @returns false if it has ended early, beyond so many events of the shares */
  private async advance(fold: MovedFold, to: Position, most = Infinity): Promise<boolean> {
    for await (const events of this.eventsBetween(fold.position, to)) {
      for (const event of events) {
        fold.apply(decodeFolded(event));
        if (isDue()) await yieldIfDue();
      }
      for (const _ of fold.saveMemory()) await yieldIfDue();
      if (fold.events > most && fold.position < to) return false;
    }
    return true;
  }

  private async compareChanged(fold: MovedFold): Promise<void> {
    const rows = [...fold.changed.values()];
    for (let from = 0; from < rows.length; from += PAGE) {
      const page = rows.slice(from, from + PAGE);
      const { position, found } = await this.read(page);
      await this.advance(fold, position);
      for (const [i, row] of page.entries()) {
        if (isDue()) await yieldIfDue();
        this.doubtful.delete(addressOf(row));
        const expected = fold.get<Json>(row);
        if (!isSame(expected, found[i])) throw new Different(this.difference(row, expected, found[i]));
      }
    }
  }

  /** Events after a position, up to another one. @throws Error if the log ends before; the reason of the signal */
  private async *eventsBetween(from: Position, to: Position): AsyncGenerator<RecordedEvent[]> {
    if (from >= to) return;
    let at = from;
    for await (const slice of this.store.readAll(from, { sliceSize: Math.min(SLICE, to - from) })) {
      const events = slice.filter(({ position }) => position <= to);
      for (const event of events) if (event.damage) this.damaged.set(event.position, event);
      at = events.at(-1)?.position ?? at;
      this.options.signal?.throwIfAborted();
      yield events;
      if (at >= to) return;
    }
    throw tooShort(at, to);
  }

  /** At the position that was read last. */
  private difference({ view, key, sort }: RowKey, expected: Json = null, found: Json = null): Difference {
    const { position } = this.result;
    return { generation: this.generation.id, view, key, sort: sort ?? null, expected, found, position };
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

/** Folds shares from the start of the log, in memory, and notes the rows that were changed after a position. */
class MovedFold extends FreshRows {
  position: Position = 0;
  /** The number of events of these shares. */
  events = 0;
  /** By address. */
  readonly changed = new Map<string, RowKey>();
  private isNoted = false;

  constructor(
    private readonly projections: readonly Projection[],
    private readonly since: Position,
    private readonly isWanted: (share: string) => boolean,
    /** Whether rows without a share are noted, too. */
    private readonly notesShared: boolean,
  ) {
    super(new EncodedRows());
  }

  apply(event: DomainEvent): void {
    const isLater = event.position > this.since;
    let isCounted = false;
    for (const projection of this.projections) {
      const share = projection.share?.(event);
      // The rows of every share may depend on those without one.
      if (share !== undefined && !this.isWanted(share)) continue;
      isCounted ||= share !== undefined;
      this.isNoted = isLater && (share !== undefined || this.notesShared);
      projection.apply(event, this);
    }
    if (isCounted) this.events++;
    this.position = event.position;
  }

  /** No fold reads the row again, but the fold may change the value. */
  override insert(row: RowKey, value: unknown): void {
    if (this.isNoted) this.put(row, structuredClone(value));
  }

  protected override note(row: RowKey): void {
    if (this.isNoted) this.changed.set(addressOf(row), row);
  }
}
