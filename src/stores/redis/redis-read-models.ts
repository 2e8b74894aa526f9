import { randomUUID } from 'node:crypto';
import type { Clock } from '../../kernel/clock.js';
import type { Json } from '../../kernel/json.js';
import type { Logger } from '../../kernel/logger.js';
import { ClockComparison } from './clock-comparison.js';
import { RedisConnection } from './connection.js';
import { SharedLookUps, endOfTurn } from '../../kernel/turn.js';
import {
  startOf,
  type Batch,
  type Generation,
  type GenerationStatus,
  type Manifest,
  type RowQuery,
  type ReadModels,
  type ReadResult,
  type ScannedPage,
} from '../ports/read-models.js';
import { rowAddress } from '../ports/row-key.js';
import type { BuildPlan, SharedBuild } from '../ports/shared-build.js';
import { packRows } from './packed-rows.js';
import { type ReadAnswer, ReadBatch, checkpointOf, checkpointText } from './read-batch.js';
import { type BuiltGeneration, RedisSharedBuild } from './redis-shared-build.js';
import {
  ACQUIRE_LEASE,
  APPLY,
  COUNT,
  CREATE,
  DESCRIBE,
  READ,
  RELEASE_LEASE,
  SCAN_RANGES,
  SCAN_ROWS,
  SET_STATUS,
  SWAP_MANIFEST,
  TIME,
} from './scripts.js';

/** Rows in one page of a scan: a few milliseconds of the server's only thread. */
const MAX_PAGE = 1_000;

export interface RedisReadModelsOptions {
  url: string;
  /**
   * The clock that decides when a lease ends. Default: the server's time, so that machines need not agree on the time.
   */
  clock?: Clock;
  /** The clock of this process, to be compared with the server's. */
  ownClock?: Clock;
  /** Prefix of every key. */
  prefix?: string;
  logger?: Logger;
}

/** The entry of a generation in the list of generations. The rest is stored beside its rows, in their slot. */
interface GenerationRecord {
  /**
   * A random part of its keys. If the list is lost and a generation is created again under the same id, it does not
   * meet old rows on another node of the cluster.
   */
  incarnation: string;
  dropped: boolean;
}

/**
 * Read models in Redis or a Redis Cluster: `{<prefix>:views}:manifest`, `{<prefix>:views}:generations`, and four keys
 * for each generation (see scripts.ts) in its own slot, so that a generation can be built on another node than the
 * serving one.
 */
export class RedisReadModels implements ReadModels {
  /** With the rows that the last append adds, about 500: about two milliseconds of the server's only thread. */
  readonly rowsPerBatch = 480;
  /** Incarnations by id, as last seen, and their keys. */
  private readonly incarnations = new Map<string, { incarnation: string; keys: string[] }>();
  /** By generation and holder: the key of the state that was leased. */
  private readonly leases = new Map<string, string>();
  /** By the key of its state: the reads of a generation in this turn. */
  private readonly asked = new Map<string, ReadBatch>();
  private readonly manifestLookUps = new SharedLookUps<Manifest | null>();
  private comparison: ClockComparison | undefined;
  private lastManifest: { text: string; manifest: Manifest } | undefined;

  /** @throws StartError when Redis cannot be used */
  static async open({
    url,
    clock,
    ownClock,
    prefix = 'credence',
    logger,
  }: RedisReadModelsOptions): Promise<RedisReadModels> {
    const reads = await RedisConnection.open(url, { pipelined: true, logger });
    // Not on the connection for look-ups, which would wait behind a batch.
    const writes = await RedisConnection.open(url, {}).catch(async (error: unknown) => {
      await reads.close();
      throw error;
    });
    const models = new RedisReadModels(reads, writes, clock, prefix);
    await models.finishDrops();
    if (ownClock) models.comparison = new ClockComparison(() => models.serverTime(), ownClock, logger);
    return models;
  }

  private constructor(
    private readonly reads: RedisConnection,
    private readonly writes: RedisConnection,
    private readonly clock: Clock | undefined,
    private readonly prefix: string,
  ) {}

  get restarts(): number {
    return this.reads.restarts;
  }

  get isUnavailable(): boolean {
    return this.reads.isUnavailable || this.writes.isUnavailable;
  }

  get reconnections(): number {
    return this.reads.reconnections;
  }

  /** How far the clock of this process is ahead of the server's, ms; negative: behind. */
  get clockSkew(): number {
    return this.comparison?.skew ?? 0;
  }

  manifest(): Promise<Manifest | null> {
    return this.manifestLookUps.of(this.manifestKey, () => this.readManifest());
  }

  private async readManifest(): Promise<Manifest | null> {
    const text = await this.reads.send((redis) => redis.hget(this.manifestKey, 'text'));
    if (text === null) return null;
    if (this.lastManifest?.text !== text) {
      this.lastManifest = { text, manifest: JSON.parse(text) as Manifest };
      // It may name a generation that was created again under its id, while keys of the old one are still there.
      this.incarnations.clear();
    }
    return this.lastManifest.manifest;
  }

  async swapManifest(next: Manifest): Promise<boolean> {
    const args = [next.revision - 1, next.revision, JSON.stringify(next), randomUUID(), next.incarnation ?? ''];
    return (await this.writes.run<number>(SWAP_MANIFEST, [this.manifestKey], args)) === 1;
  }

  async createGeneration(id: string, views: Record<string, number>, log: string): Promise<void> {
    if (await this.record(id)) return;
    const record: GenerationRecord = { incarnation: randomUUID(), dropped: false };
    const keys = this.keys(id, record.incarnation);
    // The state first, so that a record never exists without it.
    const start = checkpointText(startOf(log));
    await this.writes.run(CREATE, keys, [start, JSON.stringify(views), log]);
    const text = JSON.stringify(record);
    await this.writes.send((redis) => redis.hsetnx(this.generationsKey, id, text));
    if ((await this.record(id))?.incarnation !== record.incarnation) await this.unlink(keys);
  }

  async generations(): Promise<Generation[]> {
    const records = await this.reads.send((redis) => redis.hgetall(this.generationsKey));
    const found = Object.entries(records).map(async ([id, text]) => {
      const { incarnation, dropped } = JSON.parse(text) as GenerationRecord;
      const described = dropped ? undefined : await this.describe(id, incarnation);
      // A generation whose state was lost, together with its node, counts as dropped.
      const gone = {
        id,
        views: {},
        status: 'dropped',
        checkpoint: startOf(''),
        lease: null,
      };
      return described ?? (gone as Generation);
    });
    return (await Promise.all(found)).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async setStatus(id: string, status: GenerationStatus, log = ''): Promise<void> {
    await this.onKeys(id, (keys) => this.writes.run(SET_STATUS, keys, [status, log]));
  }

  async dropGeneration(id: string): Promise<void> {
    const record = await this.record(id);
    if (!record) return;
    const keys = this.keys(id, record.incarnation);
    // First marked as dropped, for every process at once: from here on nobody reads it or adds to it.
    await this.writes.run(SET_STATUS, keys, ['dropped', '']);
    const dropped = JSON.stringify({ ...record, dropped: true } satisfies GenerationRecord);
    await this.writes.send((redis) => redis.hset(this.generationsKey, id, dropped));
    this.incarnations.delete(id);
    await (await RedisSharedBuild.open(this.writes, this.built(keys)))?.discard();
    await this.unlink(keys);
  }

  async acquireLease(id: string, holder: string, ttlMs: number, log = ''): Promise<boolean> {
    const args = [holder, ttlMs, this.now(), log];
    const lease = `${id} ${holder}`;
    const taken = await this.onKeys(id, async (keys) => {
      const [slot] = keys as [string];
      // The generation was created again under its id while it was leased: what the holder knows about it is outdated.
      if ((this.leases.get(lease) ?? slot) !== slot) return 0;
      const answer = await this.writes.run<number>(ACQUIRE_LEASE, keys, args);
      if (answer === 1) this.leases.set(lease, slot);
      return answer;
    });
    return taken === 1;
  }

  async releaseLease(id: string, holder: string): Promise<void> {
    this.leases.delete(`${id} ${holder}`);
    await this.onKeys(id, (keys) => this.writes.run(RELEASE_LEASE, keys, [holder]));
  }

  async beginBuild(id: string, holder: string, log: string, plan: BuildPlan): Promise<SharedBuild | undefined> {
    return this.onKeys(id, (keys) => RedisSharedBuild.begin(this.writes, this.built(keys), holder, log, plan));
  }

  async sharedBuild(id: string): Promise<SharedBuild | undefined> {
    return this.onKeys(id, (keys) => RedisSharedBuild.open(this.writes, this.built(keys)));
  }

  private built(keys: readonly string[]): BuiltGeneration {
    return { keys, now: () => this.now() };
  }

  async apply(id: string, batch: Batch): Promise<'applied' | 'refused'> {
    // Before anything is awaited, since the caller continues and changes the values.
    const changes = changesOf(batch);
    const { id: batchId, base, next, holder } = batch;
    const head = [batchId, checkpointText(base), checkpointText(next), holder, this.now(), next.log];
    const args = [...head, ...changes];
    const outcome = await this.onKeys(id, (keys) => this.writes.run<number>(APPLY, keys, args));
    return outcome === 1 ? 'applied' : 'refused';
  }

  /** Reads of one turn of the event loop go to the server as one script and return one snapshot. */
  read(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    return this.onKeys(id, (keys) => this.ask(keys, queries));
  }

  private ask(keys: readonly string[], queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    const [slot] = keys as [string];
    let batch = this.asked.get(slot);
    if (!batch || batch.weight >= MAX_PAGE) {
      const next = new ReadBatch(async (args) => {
        await endOfTurn();
        if (this.asked.get(slot) === next) this.asked.delete(slot);
        return this.reads.run<ReadAnswer | null>(READ, keys, args());
      });
      this.asked.set(slot, (batch = next));
    }
    return batch.ask(queries);
  }

  /** First the rows without a sort key, then those with one. */
  async scan(id: string, view: string, cursor: string | null, limit: number): Promise<ScannedPage> {
    const size = Math.min(Math.max(1, limit), MAX_PAGE);
    const rows: ScannedPage['rows'] = [];
    const end = `(${view}\x01`;
    let inRanges = cursor?.startsWith(RANGES) ?? false;
    let last = cursor?.slice(1);
    if (!inRanges) {
      const args = [last === undefined ? `[${view}\0` : `(${last}`, end, size];
      const page = await this.onKeys(id, (keys) => this.reads.run<[string[], string[]]>(SCAN_ROWS, keys, args));
      if (!page) return { rows, cursor: null };
      const [addresses, contents] = page;
      addresses.forEach((address, n) => {
        rows.push({ row: { view, key: address.slice(view.length + 1) }, value: JSON.parse(contents[n]!) as Json });
      });
      if (addresses.length === size) return { rows, cursor: ROWS + addresses.at(-1)! };
      inRanges = true;
      last = undefined;
    }
    const left = size - rows.length;
    const args = [last === undefined ? `[${view}\0` : `(${last}\x01`, end, left];
    const members = (await this.onKeys(id, (keys) => this.reads.run<string[]>(SCAN_RANGES, keys, args))) ?? [];
    for (const member of members) {
      const [, key, sort, content] = member.split('\0') as [string, string, string, string];
      rows.push({ row: { view, key, sort }, value: JSON.parse(content) as Json });
      last = `${view}\0${key}\0${sort}`;
    }
    return { rows, cursor: members.length < left ? null : RANGES + last! };
  }

  async count(id: string, view: string): Promise<number> {
    const args = [`[${view}\0`, `(${view}\x01`];
    return (await this.onKeys(id, (keys) => this.reads.run<number>(COUNT, keys, args))) ?? 0;
  }

  async close(): Promise<void> {
    this.comparison?.stop();
    await Promise.all([this.reads.close(), this.writes.close()]);
  }

  /** Of the server with the manifest, in a cluster: the same one for all processes. */
  private async serverTime(): Promise<number> {
    const [seconds, microseconds] = await this.reads.run<[string, string]>(TIME, [this.manifestKey], []);
    return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  }

  private async describe(id: string, incarnation: string): Promise<Generation | undefined> {
    type State = [string, string, string, string, string | null, string];
    const keys = this.keys(id, incarnation);
    const [status, views, , checkpoint, holder, until] = await this.reads.run<State>(DESCRIBE, keys, [this.now()]);
    if (status === null || status === 'dropped') return undefined;
    return {
      id,
      views: JSON.parse(views) as Record<string, number>,
      status: status as GenerationStatus,
      checkpoint: checkpointOf(checkpoint),
      lease: holder === null ? null : { holder, expires_at: Number(until) },
    };
  }

  /**
   * Runs a script that returns a falsy value if the generation does not exist. The known keys may then belong to an old
   * incarnation, so the list is read again. Undefined if there is no such generation.
   */
  private async onKeys<T>(id: string, action: (keys: string[]) => Promise<T>): Promise<T | undefined> {
    const known = this.incarnations.get(id);
    const answer = known && (await action(known.keys));
    if (answer) return answer;
    const record = await this.record(id);
    if (!record || record.dropped) {
      this.incarnations.delete(id);
      return undefined;
    }
    const { incarnation } = record;
    if (incarnation === known?.incarnation) return undefined;
    const keys = this.keys(id, incarnation);
    this.incarnations.set(id, { incarnation, keys });
    return action(keys);
  }

  private async record(id: string): Promise<GenerationRecord | undefined> {
    const text = await this.reads.send((redis) => redis.hget(this.generationsKey, id));
    return text === null ? undefined : (JSON.parse(text) as GenerationRecord);
  }

  /** Frees the remains of generations whose drop was interrupted. */
  private async finishDrops(): Promise<void> {
    const records = await this.reads.send((redis) => redis.hgetall(this.generationsKey));
    await Promise.all(
      Object.entries(records).map(async ([id, text]) => {
        const { incarnation, dropped } = JSON.parse(text) as GenerationRecord;
        const keys = this.keys(id, incarnation);
        const status = await this.reads.send((redis) => redis.hget(keys[0]!, 'status'));
        if (status === 'dropped' || (status !== null && dropped)) await this.dropGeneration(id);
      }),
    );
  }

  /** One key at a time, the state last, so that an interrupted drop is still recognised. */
  private async unlink(keys: readonly string[]): Promise<void> {
    for (const key of keys.toReversed()) await this.writes.send((redis) => redis.unlink(key));
  }

  private keys(id: string, incarnation: string): string[] {
    const slot = `{${this.prefix}:${id}:${incarnation}}`;
    return ['state', 'rows', 'index', 'ranges'].map((part) => `${slot}:${part}`);
  }

  private get manifestKey(): string {
    return `{${this.prefix}:views}:manifest`;
  }

  private get generationsKey(): string {
    return `{${this.prefix}:views}:generations`;
  }

  private now(): string {
    return this.clock ? String(this.clock()) : '';
  }
}

/** Kinds of cursors: the last row that was returned has no sort key, or has one. */
const ROWS = 'r';
const RANGES = 's';

/** Arguments of APPLY from the counts on. */
function changesOf({ puts, inserted, deletes }: Batch): (string | number | Buffer)[] {
  const gone = deletes.filter(({ sort }) => sort === undefined).map(rowAddress);
  const goneOfRanges = deletes.filter(({ sort }) => sort !== undefined).map(rowAddress);
  const packed = packRows(puts, inserted);
  return [gone.length, packed.plain, packed.entries, packed.inserted, ...gone, ...goneOfRanges];
}
