import type { ChildProcess } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex } from '../../src/kernel/hash.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Ran, ended, runCommand, spawnCommand } from '../servers/launch.js';

/** ms; for tests that start several processes: each loads for half a second, and longer on a busy machine. */
export const SLOW = 180_000;

/** A data folder, and the commands on it; `isBuilt`: run as they are shipped, which is faster for many thousand lines. */
export class Store {
  /** Variables that its commands are told besides. */
  readonly variables: Record<string, string> = {};

  private constructor(
    readonly folder: string,
    readonly remove: () => Promise<void>,
    private readonly isBuilt: boolean,
  ) {}

  static async create({ isBuilt = false } = {}): Promise<Store> {
    const { path, remove } = await temporaryFolder();
    return new Store(path, remove, isBuilt);
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  run(...args: string[]): Promise<Ran> {
    return this.isBuilt ? ended(this.spawn(args)) : runCommand(args, this.env);
  }

  /** Runs a command with --json that must end well, and reads what it printed. */
  async json<T>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    if (code !== 0) throw new Error(`credence ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
    return JSON.parse(stdout) as T;
  }

  /** As it is shipped, with a file or device as its standard output. */
  async runInto(path: string, ...args: string[]): Promise<Ran> {
    const output = openSync(path, 'w');
    const child = spawnCommand(args, this.env, { stdout: output });
    closeSync(output);
    return ended(child);
  }

  /** As a process that can be killed. */
  spawn(args: readonly string[]): ChildProcess {
    return spawnCommand(args, this.env);
  }

  /** Writes a file beside the data and answers its path. */
  file(name: string, lines: readonly (object | string)[]): string {
    const path = join(this.folder, name);
    writeFileSync(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
    return path;
  }

  get env(): Record<string, string> {
    return { CREDENCE_DATA: this.data, ...this.variables };
  }
}

/** A good action of one of a few identities. */
export function action(n: number, more: object = {}): Record<string, unknown> {
  return {
    tris_id: `tris:member-${n % 50}`,
    action_type: n % 7 === 0 ? 'trade_flags' : 'trade_rating',
    category: n % 7 === 0 ? 'compliance' : 'social',
    criticality: 'Low',
    platform_id: `platform-${n % 11}`,
    occurred_at: new Date(Date.UTC(2020, 0, 1) + n * 3_600_000).toISOString(),
    external_id: `n-${n}`,
    ...more,
  };
}

export function actions(count: number): Record<string, unknown>[] {
  return Array.from({ length: count }, (_, n) => action(n));
}

/** These events as lines, with the last line that an export of them has. */
export function exported(events: readonly string[]): string[] {
  const sha256 = sha256Hex(events.map((line) => `${line}\n`).join(''));
  return [...events, JSON.stringify({ end_of_export: { events: events.length, damaged: 0, sha256 } })];
}
