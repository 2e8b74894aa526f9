import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import type { Position } from '../kernel/event.js';
import { EVENT_STORE, type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { inTime, yieldIfDue } from '../kernel/turn.js';
import { unknownCursor } from '../kernel/cursor.js';
import type { PositionGate } from '../kernel/positions.js';
import { Problem, rebuilding } from '../kernel/problems.js';
import {
  type Checkpoint,
  type Manifest,
  type RowQuery,
  type RowRange,
  READ_MODELS,
  type RangeRow,
  type ReadModels,
  type ReadResult,
} from '../stores/ports/read-models.js';
import { type PlatformLens, isInLog, isReadable, platformLens } from './manifest.js';

export interface ViewRead {
  manifest: Manifest;
  /** The generation that serves the first query's view. */
  generation: string;
  /** Applied position that the rows reflect (the least, where several generations took part). */
  position: Position;
  /** In the order of the queries: the row or undefined for `get`, `RangeRow[]` for `range`. */
  results: unknown[];
}

type Progress = { progress?: { done: number; total: number } };

const RETRY_SOON = { headers: { 'retry-after': '1' } };
const DAMAGED = 'The read models are damaged, or have lost rows; a worker builds them again from the log.';
const WENT_BACK = 'The read models have gone back to an older state and have not caught up yet.';
const BEHIND = 'The read models that have begun to serve have not reached the position of those before them yet.';

/** Those who wait look again after this part of the time that they have waited, at least and at most so many ms later. */
const PART = 1 / 8;
const LEAST_MS = 3;
const MOST_MS = 100;
const LOG_MS = 1_000;
const COUNT_MS = 100;
const CATCH_UP_MS = 500;
const REQUIRE_MS = 2_000;
const IF_SERVED_MS = 200;
const TRIES = 5;
/** Rows of one read by `rows`. */
const PAGE = 1_000;
/** For this many ms the result of a check for commands counts. */
const CHECKED_MS = 250;
/** What refuses a command. Commands continue while the read models are unavailable or are being built. */
const REFUSES_COMMANDS: ReadonlySet<unknown> = new Set(['log_replaced', 'read_models_foreign', 'read_models_damaged']);

/** What was looked up last. It is looked up again for another key, and after a failure. */
class Latest<K, T> {
  private last: { key: K; answer: Promise<T> } | undefined;

  of(key: K, look: () => Promise<T>): Promise<T> {
    if (this.last?.key === key) return this.last.answer;
    const started = { key, answer: look() };
    this.last = started;
    started.answer.catch(() => this.last === started && (this.last = undefined));
    return started.answer;
  }
}

/**
 * Reads rows of the serving generations: one manifest, and one snapshot of each generation, per call. Says how far these
 * have applied the log, and waits until they have reached a position.
 */
@Injectable()
export class Views implements PositionGate {
  readonly logId: string;
  /**
   * By generation that was being built: the position that it must reach before it is read, since reads have waited only
   * for the others up to there.
   */
  private readonly notWaitedFor = new Map<string, Position>();
  private nextPoll: Promise<Position> | undefined;
  private lastManifest: Manifest | undefined;
  /** By generation: the position from which it may be read, as determined at a version of the stores. */
  private readonly fits = new Map<string, Latest<number, Position>>();
  /** The log's head, and the lens in it, at the first read after the read models' server was restarted. */
  private readonly heads = new Latest<number, Position>();
  private readonly platformLenses = new Latest<number, PlatformLens | undefined>();
  /** The number of restarts after which the manifest was found to have the last promotion. */
  private manifestFits = 0;
  /** For the last manifest that named other generations: the wait until these have applied as much as those before. */
  private readonly swapped = new Latest<Manifest, void>();
  private counting: Promise<Progress> | undefined;
  /** The last check for commands; `found` is undefined until it has ended. */
  private checked: { version: number; until: number; check: Promise<void>; found?: Error | null } | undefined;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {
    this.logId = store.logId;
  }

  /** @throws Problem projection_rebuilding while a requested view is being built */
  async read(queries: readonly RowQuery[]): Promise<ViewRead> {
    const read = await this.readServing(queries);
    if (!read) throw await this.notServed();
    if (!('status' in read)) return read;
    const known = await this.progress(read.checkpoint.position);
    const { done, total } = known.progress ?? {};
    throw rebuilding(done === undefined ? 'not all events yet' : `${done} of ${total} events`, known);
  }

  /** Reads rows for a caller that can do without them. @returns undefined if they cannot be read soon */
  async readIfServed(queries: readonly RowQuery[]): Promise<ViewRead | undefined> {
    try {
      const read = await inTime(this.readServing(queries), IF_SERVED_MS);
      return read && 'status' in read ? undefined : read;
    } catch {
      return undefined;
    }
  }

  /** Undefined if nothing serves; the generation's own result if it must not be read yet. */
  private async readServing(queries: readonly RowQuery[]): Promise<ViewRead | ReadResult | undefined> {
    if (this.store.refusal) throw this.store.refusal;
    for (let attempt = 0; attempt < TRIES; attempt++) {
      // Rows and manifest are read in one round trip, since the manifest seldom changes.
      const last = this.lastManifest;
      const guess = last && servingOf(last, queries);
      const early = guess && this.readFrom(guess, queries);
      const [manifest, guessed] = await Promise.all([this.readModels.manifest(), early]);
      if (!manifest) break;
      this.refuseForeign(manifest);
      await this.refuseOlder(manifest);
      // Concurrent reads share the wait.
      if (last && manifest !== last) await this.swapped.of(manifest, () => this.waitForSwapped(last, manifest));
      this.lastManifest = manifest;
      const isSame = guess !== undefined && manifest === last;
      const serving = isSame ? guess : queries.map((query) => generationOf(manifest, query));
      const read = isSame ? guessed : await this.readFrom(serving, queries);
      if (!read) continue; // A generation was dropped: read the manifest again.
      if (read.status === 'building') return read;
      return { manifest, generation: serving[0]!, position: read.checkpoint.position, results: read.results };
    }
    return undefined;
  }

  /**
   * A generation that begins to serve may be behind the one before it, which was applied to until then: waits until it
   * has applied as much, so that no read goes back in time.
   */
  private async waitForSwapped(last: Manifest, next: Manifest): Promise<void> {
    const replaced = Object.entries(last.views).flatMap(([view, id]) => (next.views[view] === id ? [] : [id]));
    if (replaced.length === 0) return;
    const reads = await Promise.all([...new Set(replaced)].map((id) => this.readModels.read(id, [])));
    const read = Math.max(
      0,
      ...reads.map((each) => (each?.status === 'ready' && this.isOwn(each) ? each.checkpoint.position : 0)),
    );
    // A generation that is ahead of the log, because an older copy was restored, does not count.
    const head = await this.store.head().catch(() => 0);
    await this.requirePosition(Math.min(read, head), BEHIND);
  }

  /**
   * Reads rows that reflect at least a given position: that of rows read before for the same answer. A generation that
   * began to serve in between may be behind it.
   * @throws Problem projection_rebuilding, projection_behind
   */
  async readSince(position: Position, queries: readonly RowQuery[]): Promise<ViewRead> {
    for (;;) {
      const read = await this.read(queries);
      if (read.position >= position) return read;
      await this.requirePosition(position, 'Not all read models have reached the position of this answer yet.');
    }
  }

  /** The serving generations and the platform's lens. @throws Problem projection_rebuilding before there are any */
  async manifest(): Promise<Manifest> {
    const manifest = await this.readModels.manifest();
    if (!manifest) throw await this.notServed();
    this.refuseForeign(manifest);
    await this.refuseOlder(manifest);
    return manifest;
  }

  private async notServed(): Promise<Problem> {
    return rebuilding('no generation serves this view yet', await this.progress(0));
  }

  /** One snapshot of each of these generations, one for each query. Undefined if one of them was dropped. */
  private async readFrom(serving: readonly string[], queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    const [first] = serving as [string];
    if (serving.every((id) => id === first)) return this.readOne(first, queries);
    const results: unknown[] = [];
    let least: ReadResult | undefined;
    for (const id of new Set(serving)) {
      const at = serving.flatMap((other, i) => (other === id ? [i] : []));
      const asked = at.map((i) => queries[i]!);
      const read = await this.readOne(id, asked);
      if (!read) return undefined;
      if (read.status === 'building') return read;
      at.forEach((i, n) => (results[i] = read.results[n]));
      if (!least || read.checkpoint.position < least.checkpoint.position) least = read;
    }
    return { ...least!, results };
  }

  /** A generation that must not be read is returned as `building`. */
  private async readOne(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    const read = await this.readModels.read(id, queries);
    if (!read) return read;
    this.refuseUnfit(read);
    if (read.status === 'building') return read;
    if (read.checkpoint.position < (await this.checkFit(id, read.checkpoint)))
      throw new Problem('projection_behind', WENT_BACK, RETRY_SOON);
    if (read.checkpoint.position >= (this.notWaitedFor.get(id) ?? 0)) return read;
    return { ...read, status: 'building' };
  }

  /** Increases whenever either store may have gone back, or may have been replaced, since the last check. */
  private version(): number {
    return (this.store.connections ?? 0) + (this.readModels.restarts ?? 0);
  }

  /**
   * Checks that the log contains the last event that a generation has applied, and returns the position from which the
   * generation may be read: once for each version of the stores.
   * @throws StoreUnavailable log_replaced if the log does not contain it
   */
  private checkFit(id: string, checkpoint: Checkpoint): Promise<Position> {
    let fit = this.fits.get(id);
    if (!fit) this.fits.set(id, (fit = new Latest()));
    return fit.of(this.version(), async () => {
      const { restarts = 0 } = this.readModels;
      if (this.store.connections === undefined && restarts === 0) return 0;
      if (!(await isInLog(checkpoint, this.store))) {
        throw new StoreUnavailable('the read models are ahead of the log', { code: 'log_replaced' });
      }
      if (restarts === 0) return 0;
      // No read may go back behind what any process returned before the restart.
      return this.heads.of(restarts, () => this.store.head());
    });
  }

  /** Refuses a manifest that went back behind a promotion. @throws Problem projection_behind */
  private async refuseOlder({ lens_revision }: Manifest): Promise<void> {
    const { restarts = 0 } = this.readModels;
    if (restarts === this.manifestFits) return;
    const platform = await this.platformLenses.of(restarts, () => platformLens(this.store));
    if (platform && lens_revision < platform.lens_revision) {
      throw new Problem('projection_behind', WENT_BACK, RETRY_SOON);
    }
    this.manifestFits = restarts;
  }

  /** All commands of a moment share one check. */
  refuseCommands(): Promise<void> | undefined {
    const version = this.version();
    const now = performance.now();
    let { checked } = this;
    if (checked?.version !== version || now >= checked.until) {
      const outcome = this.checkServing().then(
        () => null,
        (error: Error & { code?: unknown }) => (REFUSES_COMMANDS.has(error.code) ? error : null),
      );
      const earlier = checked?.version === version ? (checked.found ?? null) : null;
      // Without an answer in time, what refused commands before still does.
      const check = inTime(outcome, IF_SERVED_MS).catch(() => earlier);
      const started: NonNullable<typeof checked> = {
        version,
        until: now + CHECKED_MS,
        ...(earlier && { found: earlier }),
        check: check.then((found) => {
          started.found = found;
          if (found) throw found;
        }),
      };
      this.checked = checked = started;
    }
    return checked.found === null ? undefined : checked.check;
  }

  /** @throws Problem read_models_foreign, read_models_damaged */
  private async checkServing(): Promise<void> {
    const manifest = await this.readModels.manifest();
    if (!manifest) return;
    this.refuseForeign(manifest);
    const serving = [...new Set(Object.values(manifest.views))];
    for (const read of await Promise.all(serving.map((id) => this.readModels.read(id, [])))) {
      if (read) this.refuseUnfit(read);
    }
  }

  /** Data of another log must never be served, nor a generation that has lost rows. */
  private refuseUnfit(read: ReadResult): void {
    this.refuseForeign(read.checkpoint);
    if (read.status === 'damaged') throw new Problem('read_models_damaged', DAMAGED, RETRY_SOON);
  }

  /** Whether it was folded from this log. */
  private isOwn({ checkpoint }: ReadResult): boolean {
    return checkpoint.log === this.logId;
  }

  /** @throws Problem read_models_foreign for a manifest or a checkpoint of another log */
  private refuseForeign({ log = this.logId }: { log?: string }): void {
    if (log === this.logId) return;
    const detail = `The read models were folded from another log, ${log}.`;
    throw new Problem('read_models_foreign', detail, { headers: { 'retry-after': '5' } });
  }

  /** Events applied at a position, of all events; undefined if counting takes longer than a refusal should. */
  private async progress(position: Position): Promise<Progress> {
    // One count at a time, for all requests that are refused: EventStoreDB reads events for it.
    this.counting ??= this.count(position).finally(() => (this.counting = undefined));
    return inTime(this.counting, COUNT_MS).catch(() => ({}));
  }

  private async count(position: Position): Promise<Progress> {
    const total = await this.store.countAfter(0);
    const left = position === 0 ? total : await this.store.countAfter(position);
    return { progress: { done: Math.max(0, total - left), total } };
  }

  /** Reads continue while the log gives no answer: a position that the read models have reached was in it. */
  async has(position: Position): Promise<boolean> {
    if (position === 0) return true;
    const found = this.store.readAt(position).then((event) => event !== undefined);
    try {
      return await inTime(found, LOG_MS);
    } catch {
      return (await this.applied()) >= position || found;
    }
  }

  async waitForPosition(position: Position, timeoutMs: number): Promise<boolean> {
    const started = performance.now();
    let applied = await this.applied();
    while (applied < position) {
      const waited = performance.now() - started;
      if (waited >= timeoutMs) return false;
      applied = await this.nextLook(Math.min(MOST_MS, Math.max(LEAST_MS, waited * PART), timeoutMs - waited));
    }
    return true;
  }

  /** The applied position at the next poll. All waiting callers share one poll. */
  private nextLook(ms: number): Promise<Position> {
    this.nextPoll ??= sleep(ms)
      .then(() => this.applied())
      .finally(() => (this.nextPoll = undefined));
    return this.nextPoll;
  }

  /**
   * The least applied position among the serving generations. A generation that is being built does not count if there
   * are others: reads of it are refused until it has caught up.
   */
  async applied(): Promise<Position> {
    if (this.store.refusal) throw this.store.refusal;
    const manifest = await this.readModels.manifest();
    if (manifest) this.refuseForeign(manifest);
    const ids = [...new Set(Object.values(manifest?.views ?? {}))];
    const reads = await Promise.all(ids.map(async (id) => ({ id, read: await this.readModels.read(id, []) })));
    const building = reads.filter(({ read }) => read && (read.status !== 'ready' || !this.isOwn(read)));
    const others = building.length < reads.length ? reads.filter((each) => !building.includes(each)) : reads;
    const least = Math.min(...others.map(({ read }) => (read && this.isOwn(read) ? read.checkpoint.position : 0)));
    if (others === reads) return least;
    for (const { id } of building) this.notWaitedFor.set(id, Math.max(least, this.notWaitedFor.get(id) ?? 0));
    return least;
  }

  /** Waits for a position that the answer requires. @throws Problem projection_behind with this detail */
  async requirePosition(position: Position, detail: string): Promise<void> {
    if (await this.waitForPosition(position, REQUIRE_MS)) return;
    throw new Problem('projection_behind', detail, RETRY_SOON);
  }

  /**
   * One page of a list: its rows beyond the cursor, which is a row's sort key.
   * @throws Problem validation_failed for a cursor that is not a sort key of such a list
   */
  async page<T>(
    list: { view: string; key: string },
    { cursor, limit }: { cursor: string | undefined; limit: number },
    sortKey: RegExp,
  ): Promise<{ position: Position; page: T[]; next_cursor: string | null }> {
    if (cursor !== undefined && !sortKey.test(cursor)) throw unknownCursor();
    await yieldIfDue();
    const { position, results } = await this.read([{ range: { ...list, after: cursor, limit: limit + 1 } }]);
    const rows = results[0] as RangeRow[];
    const page = rows.slice(0, limit);
    // The answer about so many rows takes as long again.
    await yieldIfDue();
    return {
      position,
      page: page.map(({ value }) => value as T),
      next_cursor: rows.length > limit ? page.at(-1)!.sort : null,
    };
  }

  /** Rows of one list. @throws Problem as `read` */
  async range(range: RowRange): Promise<RangeRow[]> {
    const { results } = await this.read([{ range }]);
    return results[0] as RangeRow[];
  }

  /** All rows of a list, `limit` at a time. The last part may be empty. */
  async *parts(list: RowRange): AsyncGenerator<RangeRow[]> {
    for (let { after } = list; ;) {
      await yieldIfDue();
      const rows = await this.range({ ...list, after });
      yield rows;
      if (rows.length < list.limit) return;
      after = rows.at(-1)!.sort;
    }
  }

  /** All rows of a list. */
  async rows(list: { view: string; key: string }): Promise<RangeRow[]> {
    const all: RangeRow[] = [];
    for await (const rows of this.parts({ ...list, limit: PAGE })) all.push(...rows);
    return all;
  }

  /**
   * Returns the result of `look`. If it is not `found`, calls `look` again once the read models have reached the
   * present head of the log, or half a second later, so that a request finds what was acknowledged before it.
   */
  async lookUp<T>(look: () => Promise<T>, found: (answer: T) => boolean): Promise<T> {
    const answer = await look();
    if (found(answer)) return answer;
    await this.waitForPosition(await this.store.head(), CATCH_UP_MS);
    return look();
  }
}

/** The generation that serves a query's view. @throws Problem projection_rebuilding */
function generationOf(manifest: Manifest, query: RowQuery): string {
  const view = viewOf(query);
  const id = manifest.views[view];
  if (id === undefined) throw rebuilding(`no generation serves ${view} yet`);
  if (!isReadable(manifest, view)) throw rebuilding(`${id} serves ${view} for another build of Credence`);
  return id;
}

/** The same for each query; undefined if there is none that this build can read. */
function servingOf(manifest: Manifest, queries: readonly RowQuery[]): string[] | undefined {
  const ids = queries.map(viewOf).map((view) => (isReadable(manifest, view) ? manifest.views[view] : undefined));
  return ids.includes(undefined) ? undefined : (ids as string[]);
}

/** `identities.changes` is part of `identities`. */
function viewOf(query: RowQuery): string {
  const { view } = 'get' in query ? query.get : query.range;
  const dot = view.indexOf('.');
  return dot < 0 ? view : view.slice(0, dot);
}
