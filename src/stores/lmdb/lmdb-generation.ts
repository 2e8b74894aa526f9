import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { crc32 } from 'node:zlib';
import type { Database, DatabaseOptions } from 'lmdb';
import type { Clock } from '../../kernel/clock.js';
import type { Json } from '../../kernel/json.js';
import { Turns } from '../../kernel/turns.js';
import { bytesAsValue, LmdbEnvironment } from './environment.js';
import { EncodedRows, type PlacedRows } from '../ports/encoded-rows.js';
import {
  startOf,
  type Batch,
  type Load,
  type Checkpoint,
  type RowQuery,
  type RowRange,
  type RangeRow,
  type ReadResult,
  type ScannedPage,
} from '../ports/read-models.js';
import { keyOf, rowAddress } from '../ports/row-key.js';
import { sealedJson, unsealedJson } from '../ports/sealed-json.js';
import { RESIDUE, ROWS } from './database-file.js';

/** Rows read or encoded in one turn of the event loop. */
const MAX_SLICE = 5_000;

/** An address that is already encoded. */
interface Bytes {
  buffer: Buffer;
  start: number;
  end: number;
}

/** Row keys are texts: view, NUL, key and, for a row of a range, NUL, sort. */
const rowKeyEncoder = {
  writeKey: (key: string | Bytes | undefined, target: Buffer, position: number) => {
    if (typeof key === 'string') return position + target.write(key, position);
    if (!key) return position;
    const { buffer, start, end } = key;
    // A loop, since calls that copy take longer for so few bytes.
    for (let i = start; i < end; i++) target[position++] = buffer[i]!;
    return position;
  },
  readKey: (source: Buffer, start: number, end: number) => source.toString('utf8', start, end),
};

/**
 * A value in a range is a view of the bytes that the library has read, valid until the next one is read. A copy of each
 * would take as long as reading it. Values are written as bytes, past this encoder, but the library requires `encode`.
 */
const viewOfValue = {
  encode: (value: Buffer) => value,
  decode: (bytes: Buffer, size: number) => bytes.subarray(0, size),
};

const DATABASES = {
  [ROWS]: { encoding: 'binary', keyEncoder: rowKeyEncoder, encoder: viewOfValue } as DatabaseOptions,
  state: { encoding: 'string' },
} as const;
const HEADER = 'header';

/** A row or the header of a generation differs from what was written. Then no other row can be trusted either. */
export class GenerationDamaged extends Error {
  override readonly name = 'GenerationDamaged';
}

interface Applied {
  checkpoint: Checkpoint;
  /** Id of the batch that was applied last; null at the start. */
  batch: string | null;
  /** Whether rows are being loaded in bulk: they do not count yet. */
  isLoading?: true;
}

/** The rows of one generation, with its checkpoint and its lease. Its process is the only one that has it open. */
export class LmdbGeneration {
  private taken: { holder: string; expires_at: number; ttl_ms: number } | undefined;
  private lastApplied: { text: string; applied: Applied } | undefined;
  /** Of writes: each depends on the result of the one before it. */
  private readonly turns = new Turns(1, 1);

  static async open(folder: string): Promise<LmdbGeneration> {
    return new LmdbGeneration(await LmdbEnvironment.open(folder, { databases: DATABASES, relaxed: true }));
  }

  private constructor(private readonly env: LmdbEnvironment) {}

  /** Creates the generation at the start of the log, unless it exists. */
  async create(log: string): Promise<void> {
    await this.env.write(() => {
      if (this.checkpoint()) return;
      const start: Applied = { checkpoint: startOf(log), batch: null };
      this.state.putSync(HEADER, sealedJson(HEADER, start));
    });
  }

  /** Undefined if its creation was interrupted. */
  checkpoint(): Checkpoint | undefined {
    return this.applied()?.checkpoint;
  }

  lease(now: number): { holder: string; expires_at: number } | undefined {
    if (!this.taken) return undefined;
    const { holder, expires_at, ttl_ms } = this.taken;
    // Further ahead than it lasts: the clock was set back, so the lease does not count.
    if (expires_at <= now || expires_at > now + ttl_ms) return undefined;
    return { holder, expires_at };
  }

  acquireLease(holder: string, now: number, ttl_ms: number): boolean {
    const lease = this.lease(now);
    if (!this.checkpoint() || (lease && lease.holder !== holder)) return false;
    this.taken = { holder, expires_at: now + ttl_ms, ttl_ms };
    return true;
  }

  releaseLease(holder: string): void {
    if (this.taken?.holder === holder) this.taken = undefined;
  }

  async apply(batch: Batch, clock: Clock): Promise<'applied' | 'refused'> {
    // Encoded first, so that nothing can fail half way.
    const deletes = batch.deletes.map(rowAddress);
    return this.turns.run('', async () => {
      await this.env.ready();
      const applied = this.applied();
      if (applied?.batch === batch.id) return 'applied';
      if (!applied || applied.isLoading || batch.base.log !== batch.next.log) return 'refused';
      if (!isDeepStrictEqual(applied.checkpoint, batch.base)) return 'refused';
      const isApplied = await this.writeAs(batch.holder, clock, () => {
        for (const key of deletes) void this.rows.remove(key);
        this.putRows(batch.puts);
        this.putHeader({ checkpoint: batch.next, batch: batch.id });
      });
      return isApplied ? 'applied' : 'refused';
    });
  }

  /** Writes if the lease is held when the write begins. The next write is decided after it. */
  private async writeAs(holder: string, clock: Clock, queue: () => void): Promise<boolean> {
    let isHeld = false;
    await this.env.batch(() => {
      isHeld = this.lease(clock())?.holder === holder;
      if (isHeld) queue();
    });
    return isHeld;
  }

  /** Queues rows, each with the checksum of address and content, which are adjacent. */
  private putRows(placed: PlacedRows, options: { append?: true } = {}): void {
    const rows = this.rows;
    placed.forEach((chunk, start, middle, end) => {
      chunk.writeUInt32LE(crc32(chunk.subarray(start, end)), end);
      const address: Bytes = { buffer: chunk, start, end: middle };
      void rows.put(address as never, bytesAsValue(chunk, middle, end + EncodedRows.ROOM), options as never);
    });
  }

  private putHeader(applied: Applied): void {
    void this.state.put(HEADER, sealedJson(HEADER, applied));
  }

  /** See ReadModels. */
  async load(holder: string, clock: Clock): Promise<Load | undefined> {
    let before: Buffer = Buffer.alloc(0);
    /** Writes if the lease is held and nothing was applied. */
    const write = (queue: (loading: Applied) => void) =>
      this.turns.run('', async () => {
        await this.env.ready();
        const applied = this.applied();
        if (!applied || applied.checkpoint.position > 0) return false;
        return this.writeAs(holder, clock, () => queue(applied));
      });
    const isEmpty = await write(({ checkpoint, isLoading }) => {
      if (!isLoading) return;
      void this.rows.clearAsync();
      this.putHeader({ checkpoint, batch: null });
    });
    if (!isEmpty) return undefined;
    return {
      append: async (batch) => {
        before = inOrder(batch, before);
        return write((loading) => {
          this.putRows(batch, { append: true });
          this.putHeader({ ...loading, isLoading: true });
        });
      },
      finish: (checkpoint) => write(() => this.putHeader({ checkpoint, batch: null })),
    };
  }

  /**
   * Synchronous, so that checkpoint and results are of one snapshot; undefined if the generation was dropped.
   * @throws GenerationDamaged, or the library's error of a damaged page
   */
  read(queries: readonly RowQuery[]): Omit<ReadResult, 'status'> | undefined {
    return this.env.read(() => {
      const applied = this.applied();
      if (!applied) return undefined;
      const { checkpoint, isLoading } = applied;
      const results = queries.map((query) => {
        if (isLoading) return 'get' in query ? undefined : [];
        return 'get' in query ? this.get(rowAddress(query.get)) : this.range(query.range);
      });
      return { checkpoint, results };
    });
  }

  private get(address: string): Json | undefined {
    const bytes = this.rows.getBinaryFast(address);
    // The library's own buffer, whose length is set to that of the value.
    return bytes && rowIn(address, bytes.subarray(0, bytes.length));
  }

  /** @throws GenerationDamaged */
  scan(view: string, cursor: string | null, limit: number): ScannedPage {
    return this.env.read(() => {
      if (this.applied()?.isLoading) return { rows: [], cursor: null };
      const size = Math.min(Math.max(1, limit), MAX_SLICE);
      const start = cursor === null ? `${view}\0` : `${view}\0${cursor}`;
      const range = { start, exclusiveStart: cursor !== null, end: `${view}\x01`, limit: size };
      const rows: ScannedPage['rows'] = [];
      let last: string | null = null;
      for (const { key, value } of this.rows.getRange(range as object)) {
        rows.push({ row: keyOf(key), value: rowIn(key, value) });
        last = key.slice(view.length + 1);
      }
      return { rows, cursor: rows.length < size ? null : last };
    });
  }

  /** Runs in slices, so that other work can run in between. */
  async count(view: string): Promise<number> {
    if (this.applied()?.isLoading) return 0;
    const end = `${view}\x01`;
    let start = `${view}\0`;
    for (let counted = 0; ; counted += MAX_SLICE) {
      const [next] = this.rows.getKeys({ start, end, offset: MAX_SLICE, limit: 1 });
      if (next === undefined) return counted + this.rows.getKeysCount({ start, end });
      start = next;
      await setImmediate();
    }
  }

  async close(): Promise<void> {
    await this.env.close();
  }

  private range({ view, key, after, reverse = false, limit }: RowRange): RangeRow[] {
    if (limit <= 0) return [];
    const first = `${rowAddress({ view, key })}\0`;
    const beyond = `${view}\0${key}\x01`;
    const start = after === undefined ? (reverse ? beyond : first) : first + after;
    const options = reverse
      ? { start, exclusiveStart: true, end: first, inclusiveEnd: true, reverse, limit }
      : { start, exclusiveStart: after !== undefined, end: beyond, limit };
    const found: RangeRow[] = [];
    for (const { key: name, value } of this.rows.getRange(options as object)) {
      found.push({ sort: name.slice(first.length), value: rowIn(name, value) });
    }
    return found;
  }

  private get rows(): Database<Buffer, string> {
    return this.env.database(ROWS);
  }

  /** Cached: every read needs it, and it seldom changes. @throws GenerationDamaged */
  private applied(): Applied | undefined {
    const text = this.state.get(HEADER);
    if (text === undefined) return undefined;
    if (text !== this.lastApplied?.text) {
      const applied = unsealedJson<Applied>(HEADER, text);
      if (!applied) throw new GenerationDamaged('its header is not what was written');
      this.lastApplied = { text, applied };
    }
    return this.lastApplied.applied;
  }

  private get state(): Database<string, string> {
    return this.env.database('state');
  }
}

/**
 * The address of the last row. The library would skip a row that is out of order.
 * @param before the address before the first row; empty: none
 * @throws Error if the rows are not in the order of their addresses
 */
function inOrder(rows: PlacedRows, before: Buffer): Buffer {
  let [chunk, from, to] = [before, 0, before.length];
  rows.forEach((next, start, middle) => {
    if (chunk.compare(next, start, middle, from, to) >= 0) {
      throw new Error(`the row ${next.toString('utf8', start, middle)} is not beyond the one before it`);
    }
    [chunk, from, to] = [next, start, middle];
  });
  return Buffer.from(chunk.subarray(from, to));
}

/** The value of a stored row. @throws GenerationDamaged */
function rowIn(address: string, bytes: Buffer): Json {
  const end = bytes.length - EncodedRows.ROOM;
  if (end <= 0 || crc32(bytes, crc32(address)) !== RESIDUE) {
    throw new GenerationDamaged(`a row of ${address.slice(0, address.indexOf('\0'))} is not what was written`);
  }
  const content = bytes.toString('utf8', 0, end);
  // A text without escapes, such as packed numbers: parsing it would copy it once more.
  if (content.startsWith('"') && !content.includes('\\')) return content.slice(1, -1);
  return JSON.parse(content) as Json;
}
