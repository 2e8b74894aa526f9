import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Position } from '../kernel/event.js';
import { failureOf } from '../kernel/failures.js';
import { FreeSpace } from '../kernel/free-space.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import { sealedJson, unsealedJson } from '../stores/ports/sealed-json.js';

/**
 * The temporary files of a bulk build: its state, as JSON with a checksum, and files that are a series of blocks: length
 * and CRC-32 (32 bits each), then bytes.
 */

const HEADER = 8;
const STATE = 'build.json';
const NOT_WRITABLE: ReadonlySet<string> = new Set(['EROFS', 'EACCES', 'EPERM']);

/** A file, or its beginning. */
export interface Part {
  name: string;
  /** In bytes. */
  length: number;
}

/** How far a build is. Files that it does not name, and what follows in a file after its length, do not count. */
export interface BulkBuildState {
  /** Raised when the content of the files changes. */
  format: 2;
  log: string;
  partitions: number;
  /** The position up to which the log is read. */
  goal: Position;
  /** What has been divided: the event at this position is the last one. */
  position: Position;
  event_id: string | null;
  events: number;
  isDivided: boolean;
  /** Events by partition, and those that all partitions depend on. */
  own: Part[][];
  shared: Part[];
  /** Sorted rows: of each partition that was folded, and those without a share. */
  rows: { partition: number | null; parts: Part[] }[];
}

/** A file is not what was written: the build must start again. */
export class BuildDamaged extends Error {
  override readonly name = 'BuildDamaged';
}

/** There is no space for the temporary files. The build removes them. */
export class NoSpaceToBuild extends StoreUnavailable {
  /** @param error where the folder cannot be written, whatever is free */
  constructor(folder: string, error?: unknown) {
    super(
      error
        ? `The folder ${folder}, for the temporary files of builds, cannot be used: ${failureOf(error)}`
        : `The disk of ${folder} is almost full: the temporary files of the build were removed, and nothing else was ` +
            'changed. Free some space (the build needs about as much as the log) and try again.',
      { code: 'store_full' },
    );
  }
}

export class BuildFolder {
  /**
   * Part of the names of new files. If a process that lost its lease still writes, it does not write to the files of
   * the process that continues its build.
   */
  private readonly writer = randomUUID().slice(0, 8);
  private files = 0;
  private readonly space: FreeSpace;

  /** @param reserved no file is written if fewer bytes are free: the log must still be able to grow */
  constructor(
    private readonly path: string,
    reserved: number,
  ) {
    // The folder around it, which exists already.
    this.space = new FreeSpace(dirname(path), reserved);
  }

  /** The state of an interrupted build of this log; undefined if there is none that can be continued. */
  async state(log: string): Promise<BulkBuildState | undefined> {
    const text = await readFile(join(this.path, STATE), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return '';
    });
    const state = unsealedJson<BulkBuildState>(STATE, text);
    return state?.format === 2 && state.log === log ? state : undefined;
  }

  async record(state: BulkBuildState): Promise<void> {
    await this.orWithoutSpace(async () => {
      const temporary = join(this.path, `${STATE}.${this.writer}`);
      await writeFile(temporary, sealedJson(STATE, state));
      await rename(temporary, join(this.path, STATE));
    });
  }

  /** Removes all files. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Removes what an interrupted build has not recorded. */
  async removeOthers({ own, shared, rows }: BulkBuildState): Promise<void> {
    const parts = [...own.flat(), ...shared, ...rows.flatMap((run) => run.parts)];
    const named = new Set([STATE, ...parts.map(({ name }) => name)]);
    for (const name of await readdir(this.path)) {
      if (!named.has(name)) await rm(join(this.path, name), { force: true });
    }
  }

  async removeFiles(parts: readonly Part[]): Promise<void> {
    for (const { name } of parts) await rm(join(this.path, name), { force: true });
  }

  /** A new file. */
  async create(kind: string): Promise<BlockWriter> {
    const name = `${kind}-${this.writer}-${++this.files}`;
    return this.orWithoutSpace(async () => {
      await mkdir(this.path, { recursive: true });
      return new BlockWriter(name, await open(join(this.path, name), 'w'), (work) => this.orWithoutSpace(work));
    });
  }

  /** The blocks of the parts. The next block is read while the caller works on one. @throws BuildDamaged */
  async *blocks(parts: readonly Part[]): AsyncGenerator<Buffer> {
    for (const part of parts) {
      const file = await open(join(this.path, part.name), 'r').catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'ENOENT' ? new BuildDamaged(`${part.name} is missing`) : error;
      });
      let next: Promise<Block | undefined> = Promise.resolve(undefined);
      try {
        const first = Buffer.alloc(HEADER);
        if (part.length > 0) await readWhole(file, first, 0, part.name);
        next = readBlock(file, part, HEADER, first);
        for (let block; (block = await next);) {
          next = readBlock(file, part, block.end + HEADER, block.next);
          next.catch(() => undefined); // thrown where it is awaited
          yield block.bytes;
        }
      } finally {
        await next.catch(() => undefined);
        await file.close();
      }
    }
  }

  /** @throws NoSpaceToBuild */
  private async orWithoutSpace<T>(work: () => Promise<T>): Promise<T> {
    if (!this.space.isEnough()) throw new NoSpaceToBuild(this.path);
    try {
      return await work();
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (code === 'ENOSPC') throw new NoSpaceToBuild(this.path);
      throw NOT_WRITABLE.has(code) ? new NoSpaceToBuild(this.path, error) : error;
    }
  }
}

interface Block {
  bytes: Buffer;
  /** Where it ends in the file, and the header of the block that follows. */
  end: number;
  next: Buffer;
}

/** The block whose bytes start at `start`, with the next header; undefined at the end of the part. @throws BuildDamaged */
async function readBlock(
  file: FileHandle,
  { name, length }: Part,
  start: number,
  header: Buffer,
): Promise<Block | undefined> {
  if (start > length) return undefined;
  const size = header.readUInt32LE(0);
  const end = start + size;
  if (end > length) throw new BuildDamaged(`${name} is damaged`);
  const read = Buffer.allocUnsafeSlow(end < length ? size + HEADER : size);
  await readWhole(file, read, start, name);
  const bytes = read.subarray(0, size);
  if (crc32(bytes) !== header.readUInt32LE(4)) throw new BuildDamaged(`${name} is damaged`);
  return { bytes, end, next: read.subarray(size) };
}

async function readWhole(file: FileHandle, target: Buffer, at: number, name: string): Promise<void> {
  const { bytesRead } = await file.read(target, 0, target.length, at);
  if (bytesRead < target.length) throw new BuildDamaged(`${name} is cut`);
}

/** Writes one block while the caller makes the next. */
export class BlockWriter {
  private length = 0;
  private writing: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly name: string,
    private readonly file: FileHandle,
    private readonly orWithoutSpace: <T>(work: () => Promise<T>) => Promise<T>,
  ) {}

  /** All blocks, once they are written. @throws as `append` */
  async part(): Promise<Part> {
    await this.writing;
    return { name: this.name, length: this.length };
  }

  /**
   * Resolves when the block before this one is written.
   * @param bytes must not change until the block is written
   * @throws NoSpaceToBuild, and any error of the disk, also of the block before this one
   */
  async append(bytes: Buffer): Promise<void> {
    await this.writing;
    const header = Buffer.alloc(HEADER);
    header.writeUInt32LE(bytes.length, 0);
    header.writeUInt32LE(crc32(bytes), 4);
    const at = this.length;
    this.length += HEADER + bytes.length;
    this.writing = this.orWithoutSpace(() => this.file.writev([header, bytes], at));
    this.writing.catch(() => undefined); // thrown where it is awaited
  }

  async close(): Promise<void> {
    await this.writing.catch(() => undefined);
    await this.file.close();
  }
}
