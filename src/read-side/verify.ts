import type { Projection } from '../../projections/projection.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { canonicalJson } from '../kernel/hash.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { Json } from '../kernel/json.js';
import { memoryLimit } from '../kernel/memory.js';
import type { Checkpoint, Generation, ReadModels, RowKey } from '../stores/ports/read-models.js';
import { addressOf } from '../stores/ports/row-key.js';
import { FreshFold, type FreshFoldOptions } from './fresh-fold.js';
import { RowDigests, partOf } from './row-digests.js';
import { OWN_VERSIONS, projectionsOf } from './own-views.js';

/**
 * Verification: the log is folded again from its start, and every row of every serving generation is compared with the
 * result.
 *
 * Beside a live projector, rows change while they are compared. So a page of rows is read together with the checkpoint
 * it reflects, in one snapshot, and the fresh fold advances to exactly that position before the comparison. Later pages
 * reflect later positions, so the fold only moves forward.
 *
 * Memory: the fresh fold keeps a digest of each row, and the content of rows that folds may read again. A log that is too
 * long for that is verified in several passes, each for a part of the identities (see `Projection.share`).
 */

/**
 * Events per pass. A million take about 0.3 GB of memory (measured: at most 0.54 GB for 1.6 million events of 160,000
 * identities), and the process without them takes a quarter of a small limit.
 */
const EVENTS_PER_PASS = Math.min(2_000_000, memoryLimit() / 1_024);
/** Rows read at once: few enough to keep the pauses of the event loop short. */
const PAGE = 500;
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
  passes: number;
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
}

/** Whether everything was compared, and no difference was found. */
export function isIdentical({ difference, damaged, generations }: VerifyResult): boolean {
  return difference === null && damaged.length === 0 && !generations.some(({ is_building }) => is_building);
}

export interface VerifyProgress {
  generation: string;
  phase: 'folding' | 'comparing';
  /** From 1. */
  pass: number;
  passes: number;
  /** Events folded or rows compared in this pass. */
  done: number;
  total: number;
}

export interface VerifyOptions {
  onProgress?: (progress: VerifyProgress) => void;
  eventsPerPass?: number;
  /** Ends it, with its reason. */
  signal?: AbortSignal;
}

/** The generation was dropped while it was read. */
class GenerationGone extends Error {}

/** @throws Error if a generation was built by other folds than this build's, or keeps being replaced */
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
  const serving = new Set(Object.values((await readModels.manifest())?.views ?? {}));
  const verification: VerifyResult = { events: 0, rows: 0, generations: [], difference: null, damaged: [] };
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
  verification.damaged = [...damaged.values()].sort((a, b) => a.position - b.position);
  return verification;
}

function damagedGeneration({ id, damage = 'it has lost rows' }: Generation): StoreUnavailable {
  return new StoreUnavailable(`${id} is damaged (${damage}) and is built again while a worker runs`, {
    code: 'read_models_damaged',
  });
}

async function countBetween(from: Position, to: Position, store: EventStore): Promise<number> {
  return (await store.countAfter(from)) - (await store.countAfter(to));
}

class GenerationVerifier {
  readonly result: VerifiedGeneration;
  private readonly projections: readonly Projection[];
  /** Up to the checkpoint. */
  private events = 0;

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
    this.result = {
      id,
      views: Object.keys(views),
      position: checkpoint.position,
      is_building: status === 'building',
      not_applied: 0,
      rows: 0,
      passes: 1,
    };
  }

  async run(): Promise<Difference | null> {
    const wrong = await this.checkpointDifference(this.generation.checkpoint);
    if (wrong) return wrong;
    const { position } = this.result;
    // Not the position itself: in EventStoreDB that is an offset in its files.
    this.events = await countBetween(0, position, this.store);
    this.result.passes = Math.ceil(this.events / (this.options.eventsPerPass ?? EVENTS_PER_PASS)) || 1;
    for (let part = 0; part < this.result.passes; part++) {
      const difference = await new Pass(this, part).run();
      if (difference) return difference;
    }
    return null;
  }

  /**
   * A fresh fold of one part of the identities. What has no share belongs to the first part. The others fold only what
   * their own rows may depend on, and do not report it.
   */
  fold(part: number, onChange: FreshFoldOptions['onChange']): FreshFold {
    return new FreshFold(this.store, {
      projections: part === 0 ? this.projections : this.projections.filter(({ share }) => share),
      takes: ({ share }, event) => this.isOf(part, share?.ofEvent(event), true),
      reports: ({ share }, event) => this.isOf(part, share?.ofEvent(event), false),
      onChange,
      onDamage: (event) => void this.damaged.set(event.position, event),
    });
  }

  /** @param shared whether what has no share belongs to every part, rather than to the first */
  isOf(part: number, share: string | undefined, shared: boolean): boolean {
    if (share === undefined) return shared || part === 0;
    return this.result.passes === 1 || partOf(share, this.result.passes) === part;
  }

  /** @throws GenerationGone */
  async read(rows: readonly RowKey[]): Promise<{ checkpoint: Checkpoint; found: (Json | undefined)[] }> {
    const read = await this.readModels.read(
      this.generation.id,
      rows.map((row) => ({ get: row })),
    );
    if (!read) throw new GenerationGone();
    if (read.status === 'damaged') throw damagedGeneration(this.generation);
    return { checkpoint: read.checkpoint, found: read.results as (Json | undefined)[] };
  }

  /** Rows of a view in pages, with the part of each. @throws GenerationGone */
  async *pages(projection: Projection, view: string, part: number): AsyncGenerator<RowKey[]> {
    for (let cursor: string | null = null; ;) {
      const page = await this.readModels.scan(this.generation.id, view, cursor, PAGE);
      const own = page.rows.filter(({ row, value }) => this.isOf(part, projection.share?.ofRow(row, value), false));
      await yieldIfDue();
      yield own.map(({ row }) => row);
      if (page.cursor === null) return;
      cursor = page.cursor;
    }
  }

  get views(): { projection: Projection; view: string }[] {
    return this.projections.flatMap((projection) => projection.views.map((view) => ({ projection, view })));
  }

  async checkpointDifference(checkpoint: Checkpoint): Promise<Difference | null> {
    const { log, position, event_id } = checkpoint;
    const event = position === 0 ? undefined : await this.store.readAt(position);
    const expected = { log: this.store.logId, event_id: event?.id ?? null };
    if (log === expected.log && event_id === expected.event_id && (event || position === 0)) return null;
    return this.difference({ view: 'checkpoint', key: this.generation.id }, expected, { log, event_id }, position);
  }

  difference(row: RowKey, expected: Json | undefined, found: Json | undefined, position: Position): Difference {
    const { view, key, sort = null } = row;
    const { id } = this.generation;
    return { generation: id, view, key, sort, expected: expected ?? null, found: found ?? null, position };
  }

  /** Tells how far a fold up to `goal` is: about how many events precede its position. */
  tellFolded(part: number, position: Position, goal: Position): void {
    this.tell('folding', part, Math.round((this.events * position) / goal), this.events);
  }

  tell(phase: VerifyProgress['phase'], part: number, done: number, total: number): void {
    const { id, passes } = this.result;
    this.options.signal?.throwIfAborted();
    this.options.onProgress?.({ generation: id, phase, pass: part + 1, passes, done, total: Math.max(done, total) });
  }
}

/** One pass: folds a part again, compares its stored rows, and looks for missing rows. */
class Pass {
  private readonly digests = new RowDigests();
  private readonly fresh: FreshFold;
  /** Rows changed since the comparison began, which are compared at the end: the scan may have passed them already. */
  private readonly recent = new Map<string, RowKey>();
  private comparing = false;
  private compared = 0;

  constructor(
    private readonly verifier: GenerationVerifier,
    private readonly part: number,
  ) {
    this.fresh = verifier.fold(part, (row, address, content) => {
      if (content === undefined) this.digests.delete(address);
      else this.digests.set(address, content, this.comparing);
      if (this.comparing) this.recent.set(address, row);
    });
  }

  async run(): Promise<Difference | null> {
    const { checkpoint } = await this.verifier.read([]);
    const goal = checkpoint.position;
    await this.fresh.advance(goal, (position) => this.verifier.tellFolded(this.part, position, goal));
    this.comparing = true;

    for (const { projection, view } of this.verifier.views) {
      let waiting: RowKey[] = [];
      for await (const rows of this.verifier.pages(projection, view, this.part)) {
        waiting = waiting.concat(this.unchanged(rows));
        const difference = waiting.length < PAGE ? null : await this.compare(waiting.splice(0));
        if (difference) return difference;
        this.compared += rows.length;
        this.verifier.result.rows += rows.length;
        this.verifier.tell('comparing', this.part, this.compared, this.digests.size);
      }
      const difference = await this.compare(waiting);
      if (difference) return difference;
    }
    return (await this.compareAll([...this.recent.values()])) ?? (await this.findMissing());
  }

  /**
   * Without rows that were changed since the comparison began, or that are unknown: these are compared at the end.
   * Otherwise a log that grows as fast as its rows are compared would never be verified.
   */
  private unchanged(rows: readonly RowKey[]): RowKey[] {
    return rows.filter((row) => {
      const address = addressOf(row);
      if (this.digests.isUnseen(address)) return true;
      this.recent.set(address, row);
      return false;
    });
  }

  private async compareAll(rows: readonly RowKey[]): Promise<Difference | null> {
    for (let i = 0; i < rows.length; i += PAGE) {
      const difference = await this.compare(rows.slice(i, i + PAGE));
      if (difference) return difference;
    }
    return null;
  }

  private async compare(rows: readonly RowKey[]): Promise<Difference | null> {
    if (rows.length === 0) return null;
    const { checkpoint, found } = await this.verifier.read(rows);
    const { position } = checkpoint;
    if (position < this.fresh.position) {
      throw new Error(`The generation went back from position ${this.fresh.position} to ${position}.`);
    }
    const wrong = position > this.fresh.position ? await this.verifier.checkpointDifference(checkpoint) : null;
    if (wrong) return wrong;
    await this.fresh.advance(position);
    this.verifier.result.position = Math.max(this.verifier.result.position, position);
    for (const [i, row] of rows.entries()) {
      if (isDue()) await yieldIfDue();
      const content = found[i] === undefined ? undefined : JSON.stringify(found[i]);
      if (this.digests.matches(addressOf(row), content)) continue;
      const difference = await this.examine(row, found[i], position);
      if (difference) return difference;
    }
    return null;
  }

  /** Folds once more, to show the expected content of a row. Null if only the order of its members differs. */
  private async examine(row: RowKey, found: Json | undefined, position: Position): Promise<Difference | null> {
    const wanted = addressOf(row);
    let content: string | undefined;
    // This part first: a row that claims to belong to this part may belong to another one.
    const { passes } = this.verifier.result;
    for (let n = 0; n < passes && content === undefined; n++) {
      const part = (this.part + n) % passes;
      const fold = this.verifier.fold(part, (_row, address, next) => {
        if (address === wanted) content = next;
      });
      await fold.advance(position, (at) => this.verifier.tellFolded(part, at, position));
    }
    const expected = content === undefined ? undefined : (JSON.parse(content) as Json);
    const isSame = expected !== undefined && found !== undefined && canonicalJson(expected) === canonicalJson(found);
    return isSame ? null : this.verifier.difference(row, expected, found, position);
  }

  /** Rows that existed when the comparison began, were not changed since, and were not found. */
  private async findMissing(): Promise<Difference | null> {
    if (this.digests.unseenRows === 0) return null;
    const missing = new Map<string, RowKey>();
    const fold = this.verifier.fold(this.part, (row, address, content) => {
      if (content === undefined) missing.delete(address);
      else if (missing.size < PAGE && this.digests.isUnseen(address)) missing.set(address, row);
    });
    const goal = this.fresh.position;
    await fold.advance(goal, (at) => this.verifier.tellFolded(this.part, at, goal));
    return this.compareAll([...missing.values()]);
  }
}
