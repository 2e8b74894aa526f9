import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { DomainEvent } from '../../projections/events.js';
import { failureOf, sentenceFor } from '../kernel/failures.js';
import { FreeSpace } from '../kernel/free-space.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';

/** There is no space for the temporary files of a build, which are removed, or they cannot be used. */
export class NoSpaceToBuild extends StoreUnavailable {
  /** @param error why they cannot be used, whatever is free */
  constructor(folder: string, error?: unknown) {
    super(
      error
        ? sentenceFor(`The temporary files of builds, in ${folder}, cannot be used`, error)
        : `The disk of ${folder} is almost full: the temporary files of the build were removed, and nothing else was ` +
            'changed. Free some space (the build needs about twice as much as the log) and try again.',
      { code: 'store_full' },
    );
  }
}

interface Block {
  at: number;
  length: number;
  crc: number;
}

/**
 * A temporary file of a build. It is created with its first block, and loses its name at once, so that nothing is left
 * of a build however it ends.
 */
export class TemporaryFile {
  /** In bytes. */
  length = 0;
  private file: FileHandle | undefined;
  private writing: Promise<unknown> = Promise.resolve();
  private readonly space: FreeSpace;

  /** @param reserved bytes of the disk that stay free: the log must still be able to grow */
  constructor(
    private readonly folder: string,
    reserved: number,
  ) {
    // The folder around it, which exists already.
    this.space = new FreeSpace(dirname(folder), reserved);
  }

  /**
   * Writes a block while the caller makes the next: resolves when the block before this one is written.
   * @param bytes must not change until the block is written
   * @throws NoSpaceToBuild, also of the block before this one
   */
  async append(bytes: Buffer): Promise<Block> {
    const block = { at: this.length, length: bytes.length, crc: crc32(bytes) };
    this.length += bytes.length;
    const before = this.writing;
    this.writing = before.then(() => this.write(bytes, block.at));
    this.writing.catch(() => undefined); // thrown where it is awaited
    await before;
    return block;
  }

  /** Waits until every block is written. @throws as `append` */
  async written(): Promise<void> {
    await this.writing;
  }

  /** @throws NoSpaceToBuild; Error if the block is not what was written */
  async read({ at, length, crc }: Block): Promise<Buffer> {
    const bytes = Buffer.allocUnsafeSlow(length);
    const { bytesRead } = await this.usable(() => this.file!.read(bytes, 0, length, at));
    if (bytesRead < length || crc32(bytes) !== crc) {
      throw new Error(`A temporary file in ${this.folder} is not what was written; check the disk.`);
    }
    return bytes;
  }

  async close(): Promise<void> {
    await this.writing.catch(() => undefined);
    await this.file?.close();
    this.file = undefined;
  }

  private async write(bytes: Buffer, at: number): Promise<void> {
    if (!this.space.isEnough()) throw new NoSpaceToBuild(this.folder);
    await this.usable(async () => {
      this.file ??= await this.create();
      for (let from = 0; from < bytes.length;) {
        from += (await this.file.write(bytes, from, bytes.length - from, at + from)).bytesWritten;
      }
    });
  }

  private async create(): Promise<FileHandle> {
    await mkdir(this.folder, { recursive: true });
    const path = join(this.folder, randomUUID());
    const file = await open(path, 'wx+');
    try {
      await unlink(path);
    } catch (error) {
      await file.close();
      throw error;
    }
    return file;
  }

  private async usable<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (failureOf(error) === undefined) throw error;
      const isFull = (error as NodeJS.ErrnoException).code === 'ENOSPC';
      throw new NoSpaceToBuild(this.folder, isFull ? undefined : error);
    }
  }
}

/** A series of blocks in a file, which has several of them. */
export class Blocks {
  /** In bytes. */
  length = 0;
  private readonly blocks: Block[] = [];

  constructor(private readonly file: TemporaryFile) {}

  async append(bytes: Buffer): Promise<void> {
    this.length += bytes.length;
    this.blocks.push(await this.file.append(bytes));
  }

  /** The next block is read while the caller works on one. */
  async *read(): AsyncGenerator<Buffer> {
    if (this.blocks.length > 0) await this.file.written();
    let next: Promise<Buffer> | undefined;
    try {
      for (const n of this.blocks.keys()) {
        const bytes = await (next ?? this.file.read(this.blocks[n]!));
        const after = this.blocks[n + 1];
        next = after && this.file.read(after);
        next?.catch(() => undefined); // thrown where it is awaited
        yield bytes;
      }
    } finally {
      await next?.catch(() => undefined);
    }
  }
}

const LINE_END = 0x0a;
const FIRST_BYTES = 16_384;

/**
 * Decoded events in a file: JSON arrays, each on a line. Until they are written they are kept as bytes, since so many
 * strings would burden the garbage collector.
 */
export class EventBlocks extends Blocks {
  private bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  private used = 0;

  constructor(
    file: TemporaryFile,
    private readonly blockBytes: number,
  ) {
    super(file);
  }

  /** @param text of `packed` */
  add(text: string): void {
    const end = this.used + text.length * 3 + 1;
    if (end > this.bytes.length) {
      const more = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.bytes.length));
      this.bytes.copy(more, 0, 0, this.used);
      this.bytes = more;
    }
    this.used += this.bytes.write(text, this.used);
    this.bytes[this.used++] = LINE_END;
  }

  get isDue(): boolean {
    return this.used >= this.blockBytes;
  }

  /** Writes all texts since the last call. */
  async flush(): Promise<void> {
    if (this.used === 0) return;
    const block = Buffer.allocUnsafeSlow(this.used);
    this.bytes.copy(block, 0, 0, this.used);
    this.used = 0;
    await this.append(block);
  }

  async *events(): AsyncGenerator<DomainEvent> {
    for await (const block of this.read()) yield* eventsOf(block);
  }
}

export function packed({ position, id, type, stream, occurred_at, recorded_at, data }: DomainEvent): string {
  return JSON.stringify([position, id, type, stream, occurred_at, recorded_at, data]);
}

export function* eventsOf(block: Buffer): Generator<DomainEvent> {
  for (let start = 0, end: number; start < block.length; start = end + 1) {
    end = block.indexOf(LINE_END, start);
    const fields = JSON.parse(block.toString('utf8', start, end)) as unknown[];
    const [position, id, type, stream, occurred_at, recorded_at, data] = fields;
    yield { position, id, type, stream, occurred_at, recorded_at, data } as DomainEvent;
  }
}
