import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../embedded/temporary-folder.js';

/** Runs the built command line and the built server as they are shipped. */

const ROOT = resolve(import.meta.dirname, '../..');
const CLI = join(ROOT, 'dist/src/cli.js');
const SERVER = join(ROOT, 'dist/src/main.js');

/** ms; for tests that start many processes: each loads for half a second, and longer on a busy machine. */
export const SLOW = 90_000;

export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A data folder, and the commands on it. */
export class Store {
  /** Variables that its commands are told besides. */
  readonly variables: Record<string, string> = {};

  private constructor(
    readonly folder: string,
    readonly remove: () => Promise<void>,
  ) {}

  static async create(): Promise<Store> {
    if (!existsSync(CLI)) throw new Error('These tests run dist/src/cli.js: build it first with "npm run build".');
    const { path, remove } = await temporaryFolder();
    return new Store(path, remove);
  }

  get data(): string {
    return join(this.folder, 'data');
  }

  run(...args: string[]): Promise<Ran> {
    return ended(this.spawn(args));
  }

  /** Runs a command with --json that must end well, and reads what it printed. */
  async json<T>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await this.run(...args, '--json');
    if (code !== 0) throw new Error(`credence ${args.join(' ')} ended with ${code}: ${stdout}${stderr}`);
    return JSON.parse(stdout) as T;
  }

  spawn(args: string[]): ChildProcess {
    return spawn(process.execPath, [CLI, ...args], { env: this.env() });
  }

  /** Writes a file beside the data and answers its path. */
  file(name: string, lines: readonly (object | string)[]): string {
    const path = join(this.folder, name);
    writeFileSync(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
    return path;
  }

  async serve(): Promise<Server> {
    const child = spawn(process.execPath, [SERVER], { env: this.env() });
    const url = await new Promise<string>((found, failed) => {
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => {
        output += chunk.toString();
        const match = /serves (http:\S+)/.exec(output);
        if (match) found(match[1]!);
      });
      child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.on('exit', (code) => failed(new Error(`the server ended with ${code}: ${output}`)));
    });
    const key = readFileSync(join(this.data, 'dev-api-key'), 'utf8').trim();
    return {
      relay: async (action) => {
        const headers = { 'content-type': 'application/json', 'x-api-key': key };
        const response = await fetch(`${url}/api/decision-relay`, {
          method: 'POST',
          headers,
          body: JSON.stringify(action),
        });
        await response.arrayBuffer();
        return response.status;
      },
      stop: async () => {
        if (child.exitCode !== null) return;
        const exited = new Promise((resolve) => child.once('exit', resolve));
        child.kill('SIGTERM');
        await exited;
      },
    };
  }

  private env(): NodeJS.ProcessEnv {
    return {
      PATH: process.env['PATH'],
      CREDENCE_DATA: this.data,
      CREDENCE_PORT: '0',
      CREDENCE_RATE_LIMIT: '0',
      CREDENCE_LOG_LEVEL: 'error',
      ...this.variables,
    };
  }
}

export interface Server {
  /** Answers the status. */
  relay(action: object): Promise<number>;
  stop(): Promise<void>;
}

export function ended(child: ChildProcess, input?: string): Promise<Ran> {
  return new Promise((resolve) => {
    let [stdout, stderr] = ['', ''];
    child.stdout!.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.on('close', (code) => resolve({ code, stdout, stderr }));
    child.stdin!.end(input);
  });
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
