import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import { isObject } from '../../kernel/json.js';
import { removeUnfinished, requireSpace, writtenAside } from '../written-aside.js';
import type { VisitRow } from './encoded-rows.js';
import type { Checkpoint, StoredRow } from './read-models.js';

/**
 * The file format of snapshots, the same for every store of read models:
 *
 *     credence-snapshot 1 {header}\n        JSON, see SnapshotHeader
 *     blocks: length (u32), then that many bytes of rows
 *     0 (u32)
 *     {end}                                 JSON, see SnapshotEnd
 *     length of {end} (u32), "end\n"
 *
 * A row is the length of its address (u16), the length of its content (u32; 0: the row was deleted), the CRC-32 of
 * address and content (u32), the address and the content. Of a row that occurs several times, the last counts. Numbers
 * are little-endian. The end contains the SHA-256 of everything before it and of itself without the digest.
 */

const MAGIC = 'credence-snapshot 1 ';
const LAST = Buffer.from('end\n');
const ROW_HEAD = 10;
/** Bytes of rows that are written, or read and checked, in one turn of the event loop. */
const BLOCK = 256 * 1024;
/** A length beyond this is damage. An event and so a row is smaller. */
const MAX_BLOCK = 64 * 2 ** 20;
const MAX_JSON = 1024 * 1024;

export interface SnapshotHeader {
  /** Id of the log that the rows were folded from. */
  log: string;
  /** Id of the generation that was saved. */
  generation: string;
  /** Names and fold versions of its views. */
  views: Record<string, number>;
  /** Ids and hashes of the models that the build knew. */
  models: Record<string, string>;
  created_at: string;
}

interface SnapshotEnd {
  /** The rows are the fold of the log up to here. */
  checkpoint: Checkpoint;
  rows: number;
  /** Rows in the file, some of which occur several times. */
  entries: number;
}

export interface Snapshot extends SnapshotHeader, SnapshotEnd {
  path: string;
  /** Size of the file. */
  bytes: number;
}

/** A file is not a complete, unchanged snapshot. The message is one clause. */
export class SnapshotDamaged extends Error {
  override readonly name = 'SnapshotDamaged';
}

/**
 * Writes a snapshot: beside its name, then it is read back, synced and renamed. What processes that have ended left
 * unfinished in its folder is removed.
 * @param copy the rows, see ReadModels.copy
 * @param onRows called with the number of rows written so far
 */
export async function writeSnapshot(
  path: string,
  header: SnapshotHeader,
  copy: AsyncGenerator<readonly StoredRow[], Omit<SnapshotEnd, 'entries'>>,
  onRows?: (rows: number) => void,
): Promise<Snapshot> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await removeUnfinished(dirname(path));
  await writtenAside(path, async (aside) => {
    await write(aside, header, copy, onRows);
    for await (const _ of readSnapshot(aside, () => undefined));
  });
  return snapshotAt(path);
}

async function write(
  path: string,
  header: SnapshotHeader,
  copy: AsyncGenerator<readonly StoredRow[], Omit<SnapshotEnd, 'entries'>>,
  onRows?: (rows: number) => void,
): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    const digest = createHash('sha256');
    const append = async (bytes: Buffer): Promise<void> => {
      requireSpace(dirname(path), bytes.length);
      digest.update(bytes);
      await file.appendFile(bytes);
    };
    await append(Buffer.from(`${MAGIC}${JSON.stringify(header)}\n`));
    const block = new Block();
    let entries = 0;
    for (;;) {
      const page = await copy.next();
      if (page.done) {
        if (block.length > 0) await append(block.take());
        await append(uint32(0));
        await finish(file, digest, { ...page.value, entries });
        return;
      }
      for (const row of page.value) {
        block.add(row);
        if (block.length >= BLOCK) await append(block.take());
      }
      entries += page.value.length;
      onRows?.(entries);
    }
  } finally {
    // Where it failed, the store need not finish the copy.
    await copy.return(undefined as never).catch(() => undefined);
    await file.close();
  }
}

async function finish(file: FileHandle, digest: Hash, end: SnapshotEnd): Promise<void> {
  const text = JSON.stringify({ ...end, sha256: digest.update(JSON.stringify(end)).digest('hex') });
  await file.appendFile(Buffer.concat([Buffer.from(text), uint32(Buffer.byteLength(text)), LAST]));
}

/** Encodes rows one behind the other, after the length of all of them. */
class Block {
  private bytes = Buffer.allocUnsafe(2 * BLOCK);
  private end = 4;

  get length(): number {
    return this.end - 4;
  }

  add({ address, content }: StoredRow): void {
    const addressBytes = Buffer.byteLength(address);
    const contentBytes = content === null ? 0 : Buffer.byteLength(content);
    const start = this.end + ROW_HEAD;
    const end = start + addressBytes + contentBytes;
    if (end > this.bytes.length) this.bytes = Buffer.concat([this.bytes], 2 * end);
    const { bytes } = this;
    bytes.write(address, start);
    if (content !== null) bytes.write(content, start + addressBytes);
    bytes.writeUInt16LE(addressBytes, this.end);
    bytes.writeUInt32LE(contentBytes, this.end + 2);
    bytes.writeUInt32LE(crc32(bytes.subarray(start, end)), this.end + 6);
    this.end = end;
  }

  /** The block; valid until the next row is added. */
  take(): Buffer {
    const block = this.bytes.subarray(0, this.end);
    block.writeUInt32LE(this.length);
    this.end = 4;
    return block;
  }
}

/** Reads the header and the end of a snapshot, but no rows. @throws SnapshotDamaged */
export async function snapshotAt(path: string): Promise<Snapshot> {
  const file = await open(path);
  try {
    const { header } = await headerOf(file);
    const { end, bytes } = await endOf(file);
    return { ...header, checkpoint: end.checkpoint, rows: end.rows, entries: end.entries, path, bytes };
  } finally {
    await file.close();
  }
}

/**
 * Reads and checks every row of a snapshot, and yields after each block.
 * @param visit gets each row, see `EncodedRows.forEach`; the bytes are valid only during the call. Content of no length:
 * the row was deleted
 * @throws SnapshotDamaged, at the latest at the end: until then the rows must not be used
 */
export async function* readSnapshot(path: string, visit: VisitRow): AsyncGenerator<{ entries: number }> {
  const file = await open(path);
  try {
    const { text, offset } = await headerOf(file);
    const { end, endsAt } = await endOf(file);
    const digest = createHash('sha256').update(text);
    let block = Buffer.allocUnsafe(2 * BLOCK);
    let at = offset;
    let entries = 0;
    for (;;) {
      const head = await bytesAt(file, Buffer.allocUnsafe(4), at, 4);
      const length = head.readUInt32LE();
      digest.update(head);
      at += 4;
      if (length === 0) break;
      if (length > MAX_BLOCK || at + length > endsAt) throw new SnapshotDamaged('it is damaged: a block is too long');
      if (length > block.length) block = Buffer.allocUnsafe(length);
      const rows = await bytesAt(file, block, at, length);
      digest.update(rows);
      entries += visitRows(rows, visit);
      at += length;
      yield { entries };
    }
    const { sha256, ...rest } = end;
    if (at !== endsAt || entries !== end.entries || digest.update(JSON.stringify(rest)).digest('hex') !== sha256) {
      throw new SnapshotDamaged('it is damaged: its digest is not that of its content');
    }
  } finally {
    await file.close();
  }
}

function visitRows(rows: Buffer, visit: VisitRow): number {
  let count = 0;
  for (let at = 0; at < rows.length; count++) {
    if (at + ROW_HEAD > rows.length) throw new SnapshotDamaged('it is damaged: a row is cut');
    const start = at + ROW_HEAD;
    const middle = start + rows.readUInt16LE(at);
    const end = middle + rows.readUInt32LE(at + 2);
    if (end > rows.length) throw new SnapshotDamaged('it is damaged: a row is cut');
    if (crc32(rows.subarray(start, end)) !== rows.readUInt32LE(at + 6)) {
      throw new SnapshotDamaged('it is damaged: a row is not what was written');
    }
    visit(rows, start, middle, end);
    at = end;
  }
  return count;
}

async function headerOf(file: FileHandle): Promise<{ header: SnapshotHeader; text: Buffer; offset: number }> {
  const start = Buffer.alloc(MAX_JSON);
  const { bytesRead } = await file.read(start, 0, start.length, 0);
  const length = start.subarray(0, bytesRead).indexOf('\n') + 1;
  const text = start.subarray(0, length);
  if (!text.toString('latin1').startsWith(MAGIC)) throw new SnapshotDamaged('it is not a snapshot of this format');
  const header = json<SnapshotHeader>(text.subarray(MAGIC.length));
  if (typeof header.log !== 'string' || !isObject(header.views) || !isObject(header.models)) throw unreadable();
  return { header, text, offset: length };
}

/** @returns also where it begins, and the size of the file */
async function endOf(
  file: FileHandle,
): Promise<{ end: SnapshotEnd & { sha256: string }; endsAt: number; bytes: number }> {
  const { size: bytes } = await file.stat();
  const tail = 4 + LAST.length;
  const last = await bytesAt(file, Buffer.alloc(tail), Math.max(0, bytes - tail), tail);
  const length = last.readUInt32LE();
  const endsAt = bytes - tail - length;
  if (!last.subarray(4).equals(LAST) || length > MAX_JSON || endsAt < 0) throw new SnapshotDamaged('it is cut');
  const end = json<SnapshotEnd & { sha256: string }>(await bytesAt(file, Buffer.alloc(length), endsAt, length));
  if (!isObject(end.checkpoint) || !Number.isSafeInteger(end.rows)) throw unreadable();
  return { end, endsAt, bytes };
}

async function bytesAt(file: FileHandle, buffer: Buffer, at: number, length: number): Promise<Buffer> {
  const { bytesRead } = await file.read(buffer, 0, length, at);
  if (bytesRead < length) throw new SnapshotDamaged('it is cut');
  return buffer.subarray(0, length);
}

function json<T>(text: Buffer): T {
  try {
    return JSON.parse(text.toString('utf8')) as T;
  } catch {
    throw unreadable();
  }
}

function unreadable(): SnapshotDamaged {
  return new SnapshotDamaged('it is damaged: its header or its end cannot be read');
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
