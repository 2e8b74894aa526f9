import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, readdir, rename, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { Position } from '../kernel/event.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';

/** The temporary files of a bulk build. Each file is a series of blocks: length and CRC-32 (32 bits each), then bytes. */

const HEADER = 8;
/** How long a reading of the free space is valid, ms. */
const SPACE_CHECK_MS = 100;
const STATE = 'build.json';

/** A file, or its beginning. */
export interface Part {
  name: string;
  /** In bytes. */
  length: number;
}

/** How far a build is. Files that it does not name, and what follows in a file after its length, do not count. */
export interface BuildState {
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

/** There is not enough space for the temporary files. The build removes them. */
export class NoSpaceToBuild extends StoreUnavailable {
  constructor(folder: string) {
    super(
      `The disk of ${folder} is almost full: the temporary files of the build were removed, and nothing else was ` +
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
  private space: { isEnough: boolean; until: number } | undefined;

  /** @param reserved no file is written if fewer bytes are free: the log must still be able to grow */
  constructor(
    private readonly path: string,
    private readonly reserved: number,
  ) {}

  /** The state of an interrupted build of this log; undefined if there is none that can be continued. */
  async state(log: string): Promise<BuildState | undefined> {
    try {
      const state = JSON.parse(await readFile(join(this.path, STATE), 'utf8')) as BuildState;
      return state.format === 2 && state.log === log ? state : undefined;
    } catch {
      return undefined;
    }
  }

  async record(state: BuildState): Promise<void> {
    await this.orWithoutSpace(async () => {
      const temporary = join(this.path, `${STATE}.${this.writer}`);
      await writeFile(temporary, JSON.stringify(state));
      await rename(temporary, join(this.path, STATE));
    });
  }

  /** Removes all files. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Removes what an interrupted build has not recorded. */
  async removeOthers({ own, shared, rows }: BuildState): Promise<void> {
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

  /** @throws BuildDamaged */
  async *blocks(parts: readonly Part[]): AsyncGenerator<Buffer> {
    for (const { name, length } of parts) {
      const file = await open(join(this.path, name), 'r').catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'ENOENT' ? new BuildDamaged(`${name} is missing`) : error;
      });
      try {
        const header = Buffer.alloc(HEADER);
        for (let at = 0; at < length;) {
          await readWhole(file, header, at, name);
          const size = header.readUInt32LE(0);
          if (at + HEADER + size > length) throw new BuildDamaged(`${name} is damaged`);
          const bytes = Buffer.allocUnsafeSlow(size);
          await readWhole(file, bytes, at + HEADER, name);
          if (crc32(bytes) !== header.readUInt32LE(4)) throw new BuildDamaged(`${name} is damaged`);
          yield bytes;
          at += HEADER + size;
        }
      } finally {
        await file.close();
      }
    }
  }

  /** @throws NoSpaceToBuild */
  private async orWithoutSpace<T>(work: () => Promise<T>): Promise<T> {
    try {
      await this.checkSpace();
      return await work();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      throw new NoSpaceToBuild(this.path);
    }
  }

  private async checkSpace(): Promise<void> {
    if (!this.space || this.space.until < performance.now()) {
      await mkdir(this.path, { recursive: true });
      const { bavail, bsize } = await statfs(this.path);
      this.space = { isEnough: bavail * bsize >= this.reserved, until: performance.now() + SPACE_CHECK_MS };
    }
    if (!this.space.isEnough) throw Object.assign(new Error('the disk is almost full'), { code: 'ENOSPC' });
  }
}

async function readWhole(file: FileHandle, target: Buffer, at: number, name: string): Promise<void> {
  const { bytesRead } = await file.read(target, 0, target.length, at);
  if (bytesRead < target.length) throw new BuildDamaged(`${name} is cut`);
}

export class BlockWriter {
  private length = 0;

  constructor(
    private readonly name: string,
    private readonly file: FileHandle,
    private readonly orWithoutSpace: <T>(work: () => Promise<T>) => Promise<T>,
  ) {}

  get part(): Part {
    return { name: this.name, length: this.length };
  }

  /** @param bytes must not change before it resolves */
  async append(bytes: Buffer): Promise<void> {
    const header = Buffer.alloc(HEADER);
    header.writeUInt32LE(bytes.length, 0);
    header.writeUInt32LE(crc32(bytes), 4);
    const at = this.length;
    this.length += HEADER + bytes.length;
    await this.orWithoutSpace(() => this.file.writev([header, bytes], at));
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}
