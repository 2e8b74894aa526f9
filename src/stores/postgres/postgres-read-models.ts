import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import copyStreams from 'pg-copy-streams';
import { backoff } from '../../kernel/backoff.js';
import type { Clock } from '../../kernel/clock.js';
import type { Logger } from '../../kernel/logger.js';
import { StartError } from '../../kernel/start-error.js';
import { SharedLookUps, endOfTurn, inTime } from '../../kernel/turn.js';
import { ClockComparison } from './clock-comparison.js';
import type { PlacedRows } from '../ports/encoded-rows.js';
import { StoreUnavailable } from '../ports/event-store.js';
import {
  type Batch,
  type Load,
  type Checkpoint,
  type Generation,
  type GenerationStatus,
  type Manifest,
  type ReadModels,
  type ReadResult,
  type RowQuery,
  type ScannedPage,
  damagedResult,
} from '../ports/read-models.js';
import { PostgresConnection, StatementRefused } from './connection.js';
import { migrate } from './migrations.js';
import { DamagedRow, type Head, ReadBatch, type ReadRow, byQuery, headOf, resultOf, valueOf } from './read-batch.js';
import { changesOf, copyOf, rowOf } from './rows.js';
import * as sql from './statements.js';

/** Connections for all but batches and loads. While none is free, reads are collected. */
const CONNECTIONS = 6;
const TIMEOUT_MS = 2_000;
/** How a kind of writes is connected. The key of a table is made by a load, which takes seconds for a million rows. */
const WRITING = {
  batches: { most: 1, timeoutMs: 10_000, synchronousCommit: 'off' },
  loads: { most: 1, timeoutMs: 6 * 3_600_000, synchronousCommit: 'off' },
} as const;
/** The rows that one statement reads, about. */
const MAX_PAGE = 1_000;
/** How often to try again to drop a table that somebody still reads, ms. */
const SWEEP_MS = 60_000;
/** How long it may wait for those who read it; less than `TIMEOUT_MS`. */
const DETACH_MS = 500;
/** How often to try to give a loaded table to its generation. */
const TRIES = 5;
const UNDEFINED_TABLE = '42P01';
/** A full disk; read-only. */
const TAKES_NO_WRITES: ReadonlySet<string> = new Set(['53100', '25006']);

export interface PostgresReadModelsOptions {
  url: string;
  /** For temporary files of builds, which need not exist. */
  folder: string;
  /** Decides when a lease ends. Default: the server's time, so that machines need not agree on the time. */
  clock?: Clock;
  /** The clock of this process, to be compared with the server's. */
  ownClock?: Clock;
  logger?: Logger;
}

/** Read models in PostgreSQL: a row for the manifest, one for each generation, and a table for the rows of each. */
export class PostgresReadModels implements ReadModels {
  readonly rowsPerBatch = 2_000;
  /** By generation: its part, as last seen. */
  private readonly parts = new Map<string, number>();
  /** By generation: the part that batches are written to. */
  private readonly written = new Map<string, Promise<number | undefined>>();
  /** By generation: the reads that are being collected. */
  private readonly asked = new Map<string, { batch: ReadBatch; answer: Promise<Answer | undefined> }>();
  /** By generation and holder: the incarnation that was leased. */
  private readonly leases = new Map<string, string>();
  private readonly manifestLookUps = new SharedLookUps<Manifest | null>();
  private lastManifest: { version: string; manifest: Manifest } | undefined;
  private readonly opened: Partial<Record<keyof typeof WRITING, Promise<PostgresConnection>>> = {};
  /** Of the clock of this process with the server's. */
  comparison: ClockComparison | undefined;
  private sweeping: NodeJS.Timeout | undefined;

  /** @throws StartError when PostgreSQL cannot be used */
  static async open({ url, folder, clock, ownClock, logger }: PostgresReadModelsOptions): Promise<PostgresReadModels> {
    const prepare = () => migrate(url);
    const main = await PostgresConnection.open(url, { most: CONNECTIONS, timeoutMs: TIMEOUT_MS, prepare, logger });
    const models = new PostgresReadModels(url, main, folder, clock, logger);
    try {
      await models.sweep();
    } catch (error) {
      await models.close();
      throw error;
    }
    const serverTime = async () => Number((await main.rows<[string]>({ text: sql.TIME }))[0]![0]);
    if (ownClock) models.comparison = new ClockComparison(serverTime, ownClock, logger);
    return models;
  }

  private constructor(
    private readonly url: string,
    /** For all but batches and loads. */
    readonly main: PostgresConnection,
    readonly buildFolder: string,
    private readonly clock: Clock | undefined,
    private readonly logger: Logger | undefined,
  ) {}

  /**
   * The connection of a kind, opened when it is needed: an API process needs none. It is one, so that a batch follows the
   * one that it is based on. The last commits may be lost with the server: batches are folded again, and a load ends.
   */
  private async writing(kind: keyof typeof WRITING): Promise<PostgresConnection> {
    const opening = (this.opened[kind] ??= PostgresConnection.open(this.url, WRITING[kind]));
    try {
      return await opening;
    } catch (error) {
      if (this.opened[kind] === opening) delete this.opened[kind];
      throw error instanceof StartError ? new StoreUnavailable(error.message, { cause: error }) : error;
    }
  }

  get restarts(): number {
    return this.main.restarts;
  }

  /** Reads of this turn also tell whether the manifest is still the last one. */
  async manifest(): Promise<Manifest | null> {
    const [reading] = this.asked.values();
    const version = this.lastManifest && (await reading?.answer)?.head.manifestVersion;
    if (version !== undefined && version === this.lastManifest?.version) return this.lastManifest.manifest;
    return this.manifestLookUps.of('', () => this.readManifest());
  }

  private async readManifest(): Promise<Manifest | null> {
    const [row] = await this.main.rows<[string, string]>(sql.MANIFEST);
    if (!row) return null;
    const [text, version] = row;
    if (this.lastManifest?.version !== version) {
      this.lastManifest = { version, manifest: JSON.parse(text) as Manifest };
    }
    return this.lastManifest.manifest;
  }

  async swapManifest(next: Manifest): Promise<boolean> {
    const text = next.revision === 1 ? sql.FIRST_MANIFEST : sql.NEXT_MANIFEST;
    const values = [next.revision, next.incarnation ?? null, JSON.stringify(next)];
    return (await this.main.rows({ text, values })).length > 0;
  }

  async createGeneration(id: string, views: Record<string, number>, log: string): Promise<void> {
    await this.main.rows({ text: sql.CREATE, values: [id, JSON.stringify(views), log] });
  }

  async generations(): Promise<Generation[]> {
    const values = [this.now()];
    const rows = await this.main.rows<[string, string | null]>({ text: sql.GENERATIONS, values });
    return rows.map(([text, damage]) => ({ ...(JSON.parse(text) as Generation), ...(damage !== null && { damage }) }));
  }

  async setStatus(id: string, status: GenerationStatus, log?: string): Promise<void> {
    await this.main.rows({ text: sql.SET_STATUS, values: [id, status, log ?? null] });
  }

  async dropGeneration(id: string): Promise<void> {
    await this.main.rows({ text: sql.DROP, values: [id] });
    await this.sweep();
  }

  async acquireLease(id: string, holder: string, ttlMs: number, log?: string): Promise<boolean> {
    const lease = `${id} ${holder}`;
    // A generation that was created again under its id is another one: what the holder knows about it is outdated.
    const values = [id, holder, ttlMs, this.now(), log ?? null, this.leases.get(lease) ?? null];
    const [row] = await this.main.rows<[string]>({ ...sql.ACQUIRE_LEASE, values });
    if (row) this.leases.set(lease, row[0]);
    return row !== undefined;
  }

  async releaseLease(id: string, holder: string): Promise<void> {
    this.leases.delete(`${id} ${holder}`);
    await this.main.rows({ text: sql.RELEASE_LEASE, values: [id, holder] });
  }

  async apply(id: string, batch: Batch): Promise<'applied' | 'refused'> {
    // Before anything is awaited, since the caller continues and changes the values.
    const changes = changesOf(batch.puts, batch.deletes);
    const { base, next, holder } = batch;
    if (base.log !== next.log) return 'refused';
    const part = await this.partToWrite(id, holder, base);
    if (part === undefined) return 'refused';
    const batches = await this.writing('batches');
    const { position, event_id } = next;
    const head = [id, batch.id, base.log, base.position, base.event_id, holder, this.now(), position, event_id];
    try {
      const statement = { ...sql.applyStatement(part), values: [...head, ...changes] };
      const [[isApplied] = [false]] = await batches.rows<[boolean]>(statement);
      if (isApplied) return 'applied';
    } catch (error) {
      this.complain(error);
      // The generation was dropped.
      if (!isUndefinedTable(error)) throw error;
    }
    this.written.delete(id);
    return 'refused';
  }

  /** Logs that no batch can be written, which the server itself does not end. */
  private complain(error: unknown): void {
    const { cause } = error as Error;
    if (!(cause instanceof StatementRefused) || !TAKES_NO_WRITES.has(cause.code)) return;
    const what = 'nothing is applied to the read models';
    if (this.logger?.isNews(what)) this.logger.error(`${what}: ${cause.message}`);
  }

  /** Those who wait for it continue in the order in which they came, since a batch follows the one it is based on. */
  private partToWrite(id: string, holder: string, base: Checkpoint): Promise<number | undefined> {
    let part = this.written.get(id);
    if (!part) {
      part = this.partFor(id, holder, base);
      this.written.set(id, part);
      const forget = () => this.written.delete(id);
      part.then((found) => found === undefined && forget(), forget);
    }
    return part;
  }

  /** The part of a generation, which is made if it has none. Undefined: it is gone, or nothing may be applied to it. */
  private async partFor(id: string, holder: string, base: Checkpoint): Promise<number | undefined> {
    const head = await this.headOf(id);
    if (!head || head.status === 'dropped') return undefined;
    if (head.part !== null) return head.part;
    const part = await this.createPart(id, holder);
    await this.main.rows({ text: sql.createKey(part) });
    return (await this.attachPart(id, holder, part, base)) ? part : undefined;
  }

  private async createPart(id: string, holder: string): Promise<number> {
    const [row] = await this.main.rows<[number]>({ text: sql.NEW_PART, values: [id, holder] });
    const [part] = row!;
    await this.main.rows({ text: sql.createTable(part) });
    return part;
  }

  /** Makes a table that of a generation to which nothing was applied, and stores the checkpoint. */
  private async attachPart(id: string, holder: string, part: number, next: Checkpoint): Promise<boolean> {
    const isAttached = await this.main.transaction(async (client) => {
      const values = [id, holder, this.now(), part, next.log, next.position, next.event_id];
      if ((await client.query(sql.SET_PART, values)).rowCount === 0) return false;
      await client.query(sql.attach(part));
      return true;
    });
    if (isAttached) this.parts.set(id, part);
    else await this.sweep();
    return isAttached;
  }

  async load(id: string, holder: string): Promise<Load | undefined> {
    let part: number | undefined;
    const loads = await this.writing('loads');
    const { restarts } = loads;
    const isAllowed = async () =>
      loads.restarts === restarts &&
      (await this.main.rows({ ...sql.MAY_BUILD, values: [id, holder, this.now(), part ?? null] })).length > 0;
    if (!(await isAllowed())) return undefined;
    await this.sweep(id, holder);
    return {
      append: async (rows) => {
        if (!(await isAllowed())) return false;
        if (rows.size === 0) return true;
        part ??= await this.createPart(id, holder);
        await this.copy(loads, part, rows);
        return true;
      },
      finish: async (next) => {
        if (!(await isAllowed())) return false;
        part ??= await this.createPart(id, holder);
        await loads.rows({ text: sql.createKey(part) });
        for (let tries = 1; ; tries++) {
          try {
            // Up to here, what was loaded may have been lost with the server.
            if (!(await isAllowed())) return false;
            return await this.attachPart(id, holder, part, next);
          } catch (error) {
            // It has taken long to come so far.
            if (!(error instanceof StoreUnavailable) || tries === TRIES) throw error;
            await sleep(backoff(tries));
          }
        }
      },
    };
  }

  private copy(loads: PostgresConnection, part: number, rows: PlacedRows): Promise<void> {
    const text = `COPY ${sql.tableOf(part)} (part, view, key, sort, content, crc) FROM STDIN (FORMAT binary)`;
    return loads.use(async (client) => {
      const stream = client.query(copyStreams.from(text));
      const finished = once(stream, 'finish');
      stream.end(copyOf(part, rows));
      // The limit of the connection is for the key of a table.
      await inTime(finished, WRITING.batches.timeoutMs);
    });
  }

  /** Reads that arrive while no connection is free are answered by one statement, and so by one snapshot. */
  async read(id: string, queries: readonly RowQuery[]): Promise<ReadResult | undefined> {
    let asked = this.asked.get(id);
    if (!asked || asked.batch.weight >= MAX_PAGE) {
      const batch = new ReadBatch();
      asked = { batch, answer: this.answer(id, batch) };
      asked.answer.catch(() => undefined); // thrown where it is awaited
      this.asked.set(id, asked);
    }
    const places = asked.batch.add(queries);
    const answer = await asked.answer;
    if (!answer) return undefined;
    const { head, rows } = answer;
    if (head.status === 'damaged') return damagedResult(head.checkpoint, queries);
    try {
      const results = queries.map((query, n) => resultOf(query, rows.get(places[n]!)));
      return { status: head.status, checkpoint: head.checkpoint, results };
    } catch (error) {
      if (!(error instanceof DamagedRow)) throw error;
      await this.giveUp(id, error.message);
      return damagedResult(head.checkpoint, queries);
    }
  }

  private async answer(id: string, batch: ReadBatch): Promise<Answer | undefined> {
    await endOfTurn();
    let part = this.parts.get(id) ?? null;
    for (;;) {
      const rows = await this.readRows(id, batch, part);
      const head = rows[0] && headOf(rows[0]);
      if (!head || head.status === 'dropped') {
        this.parts.delete(id);
        return undefined;
      }
      if (head.part === part) return { head, rows: byQuery(rows) };
      part = head.part;
      if (part === null) this.parts.delete(id);
      else this.parts.set(id, part);
    }
  }

  /** No row: there is no such generation. */
  private async readRows(id: string, batch: ReadBatch, part: number | null): Promise<ReadRow[]> {
    try {
      return await this.main.rows<ReadRow>(() => {
        // From here on nothing can be added to it.
        if (this.asked.get(id)?.batch === batch) this.asked.delete(id);
        return batch.statement(id, part);
      });
    } catch (error) {
      if (this.asked.get(id)?.batch === batch) this.asked.delete(id);
      if (!isUndefinedTable(error)) throw error;
    }
    await this.giveUpWithoutTable(id, part);
    return this.main.rows<ReadRow>(batch.statement(id, null));
  }

  private async headOf(id: string): Promise<Head | undefined> {
    const [row] = await this.main.rows<ReadRow>(new ReadBatch().statement(id, null));
    return row && headOf(row);
  }

  /** @returns false if it was dropped, or has another part since the server was replaced */
  private async giveUpWithoutTable(id: string, part: number | null): Promise<boolean> {
    if ((await this.headOf(id))?.part !== part) return false;
    await this.giveUp(id, 'the table of its rows is gone');
    return true;
  }

  /** Marks a generation as damaged, so that nobody reads it again. */
  private async giveUp(id: string, damage: string): Promise<void> {
    await this.main.rows({ text: sql.GIVE_UP, values: [id, damage] });
  }

  async scan(id: string, view: string, cursor: string | null, limit: number): Promise<ScannedPage> {
    const size = Math.min(Math.max(1, limit), MAX_PAGE);
    const [after, sortAfter] = cursor === null ? ['', ''] : (cursor.split('\0') as [string, string]);
    const values = [view, after, sortAfter, size];
    type Found = [key: string, sort: string, content: string, crc: number];
    const page = await this.inTable(id, async (part) => {
      const found = await this.main.rows<Found>({ text: sql.scanStatement(part), values });
      const rows = found.map((columns) => {
        const row = rowOf(view, columns[0], columns[1]);
        return { row, value: valueOf(row, columns) };
      });
      const last = found.at(-1);
      return { rows, cursor: rows.length < size ? null : `${last![0]}\0${last![1]}` };
    });
    return page ?? { rows: [], cursor: null };
  }

  async count(id: string, view: string): Promise<number> {
    const counted = await this.inTable(id, async (part) => {
      const loads = await this.writing('loads');
      return Number((await loads.rows<[string]>({ text: sql.countStatement(part), values: [view] }))[0]![0]);
    });
    return counted ?? 0;
  }

  /**
   * What `read` finds in the table of a generation; undefined: it has none, or is gone.
   * @throws StoreUnavailable if it is damaged
   */
  private async inTable<T>(id: string, read: (part: number) => Promise<T>): Promise<T | undefined> {
    const head = await this.headOf(id);
    if (head?.status === 'damaged') throw damaged(id);
    if (!head || head.part === null) return undefined;
    try {
      return await read(head.part);
    } catch (error) {
      if (error instanceof DamagedRow) await this.giveUp(id, error.message);
      else if (!isUndefinedTable(error)) throw error;
      else if (!(await this.giveUpWithoutTable(id, head.part))) return undefined;
      throw damaged(id);
    }
  }

  async close(): Promise<void> {
    this.comparison?.stop();
    clearTimeout(this.sweeping);
    const opened = await Promise.allSettled(Object.values(this.opened));
    const others = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    await Promise.all([this.main, ...others].map((connection) => connection.close()));
  }

  /**
   * Drops the tables of no generation. One that somebody reads is tried again later.
   * @param id of a generation that this holder begins to load: what its earlier loads have left is dropped, too
   */
  private async sweep(id?: string, holder?: string): Promise<void> {
    clearTimeout(this.sweeping);
    this.sweeping = undefined;
    type Unused = [part: number, isAttached: boolean, wasInterrupted: boolean];
    try {
      const values = [this.now(), id ?? null, holder ?? null];
      for (const unused of await this.main.rows<Unused>({ text: sql.UNUSED_PARTS, values })) {
        await this.dropPart(...unused);
      }
    } catch (error) {
      if (!(error instanceof StoreUnavailable || error instanceof StatementRefused)) throw error;
      this.sweeping = setTimeout(() => void this.sweep(), SWEEP_MS).unref();
    }
  }

  /**
   * Statements that read all partitions, as people's do, are neither disturbed nor waited for longer than a moment. Whoever
   * attaches a partition meanwhile waits for longer than that.
   */
  private async dropPart(part: number, isAttached: boolean, wasInterrupted: boolean): Promise<void> {
    if (isAttached) {
      await this.main.use(async (client) => {
        await client.query(`SET lock_timeout = ${DETACH_MS}`);
        await client.query(sql.detach(part, wasInterrupted)).finally(() => client.query('RESET lock_timeout'));
      });
    }
    await this.main.rows({ text: sql.dropTable(part) });
    await this.main.rows({ text: sql.FORGET_PART, values: [part] });
  }

  /** The time for leases; null: the server's. */
  private now(): number | null {
    return this.clock?.() ?? null;
  }
}

interface Answer {
  head: Head;
  rows: Map<number, ReadRow[]>;
}

function isUndefinedTable(error: unknown): boolean {
  return error instanceof StatementRefused && error.code === UNDEFINED_TABLE;
}

function damaged(id: string): StoreUnavailable {
  return new StoreUnavailable(`${id} is damaged`, { code: 'read_models_damaged' });
}
