import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isOnPath } from '../servers/programs.js';

const COMPILER = process.env['CC'] ?? 'cc';
const SOURCE = fileURLToPath(new URL('./faulty-machine.c', import.meta.url));
const canRun = process.platform === 'linux' && isOnPath(COMPILER);

/** `describe` where the machine's faults can be had: on Linux with a C compiler; elsewhere its tests count as skipped. */
export const describeFaulty: typeof describe | typeof describe.skip = canRun ? describe : describe.skip;
if (!canRun) process.stderr.write(`faults of disk and clock are skipped: they need Linux and ${COMPILER}\n`);

/** As in `struct machine` of faulty-machine.c: 64-bit numbers, then a text of 56 bytes. */
const FIELDS = [
  'hold_syncs',
  'hold_metas',
  'fail_syncs',
  'fail_metas',
  'fail_writes',
  'clock_ms',
  'held',
  'syncs',
  'metas',
] as const;
type Field = (typeof FIELDS)[number];
const PART_SIZE = 56;

export const EIO = 5;
export const ENOSPC = 28;

const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** A machine whose disk and clock do what a test says, for the processes started with its `env`. */
export class FaultyMachine {
  private readonly folder = mkdtempSync(join(tmpdir(), 'credence-machine-'));
  private readonly file: number;
  private readonly undo = join(this.folder, 'undo');
  readonly env: Record<string, string>;

  /** @param part of the paths whose files are concerned */
  constructor(part: string, options: { losesPower?: boolean } = {}) {
    folders.push(this.folder);
    const library = join(this.folder, 'faulty-machine.so');
    execFileSync(COMPILER, ['-shared', '-fPIC', '-O1', '-o', library, SOURCE, '-ldl']);
    const shared = join(this.folder, 'machine');
    this.file = openSync(shared, 'w+');
    ftruncateSync(this.file, FIELDS.length * 8 + PART_SIZE);
    this.concern(part);
    mkdirSync(this.undo);
    this.env = {
      LD_PRELOAD: library,
      FAULTY_MACHINE: shared,
      ...(options.losesPower && { FAULTY_UNDO: this.undo }),
    };
  }

  concern(part: string): void {
    const text = Buffer.alloc(PART_SIZE);
    text.write(part);
    writeSync(this.file, text, 0, PART_SIZE, FIELDS.length * 8);
  }

  set(field: Field, value: number): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(value));
    writeSync(this.file, bytes, 0, 8, FIELDS.indexOf(field) * 8);
  }

  get(field: Field): number {
    const bytes = Buffer.alloc(8);
    readSync(this.file, bytes, 0, 8, FIELDS.indexOf(field) * 8);
    return Number(bytes.readBigInt64LE());
  }

  /** Until a sync (or a write of a meta page) waits. */
  async holds(): Promise<void> {
    while (this.get('held') === 0) await sleep(2);
  }

  /**
   * What a power cut leaves, once the processes are gone: of the writes and renames that no sync followed, some have
   * reached the disk and some not.
   * @param lost whether the next one has not
   */
  cutPower(lost: () => boolean): number {
    let undone = 0;
    const isRename = (name: string) => name.startsWith('=');
    const names = readdirSync(this.undo);
    for (const name of names.filter((other) => !isRename(other))) {
      const journal = readFileSync(join(this.undo, name));
      const entries: { offset: number; size: number; old: Buffer }[] = [];
      for (let at = 0; at + 24 <= journal.length;) {
        const [offset, length, size] = [0, 8, 16].map((n) => Number(journal.readBigInt64LE(at + n))) as [
          number,
          number,
          number,
        ];
        entries.push({ offset, size, old: journal.subarray(at + 24, at + 24 + length) });
        at += 24 + length;
      }
      const path = name.replaceAll('%', '/');
      if (!existsSync(path)) continue; // deleted since
      const database = openSync(path, 'r+');
      const kept = new Set<number>();
      for (const { offset, size, old } of entries.reverse()) {
        for (let page = 0; page < old.length; page += 4_096) {
          // A later write of the same page that did reach the disk.
          if (kept.has(Math.floor((offset + page) / 4_096))) continue;
          if (!lost()) kept.add(Math.floor((offset + page) / 4_096));
          else if (offset + page < size) {
            writeSync(database, old.subarray(page, page + 4_096), 0, Math.min(4_096, old.length - page), offset + page);
            undone++;
          } else {
            writeSync(database, Buffer.alloc(Math.min(4_096, old.length - page)), 0, undefined, offset + page);
            undone++;
          }
        }
      }
      closeSync(database);
      writeFileSync(join(this.undo, name), '');
    }
    for (const name of names.filter(isRename)) {
      const kept = join(this.undo, name);
      if (lost()) {
        renameSync(name.slice(1).replaceAll('%', '/'), readFileSync(kept, 'utf8'));
        undone++;
      }
      rmSync(kept);
    }
    return undone;
  }

  remove(): void {
    closeSync(this.file);
    rmSync(this.folder, { recursive: true, force: true });
  }
}
