import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

/** What the tests of this folder share. `npm run test:faults` sets FAULTS=long; FAULTS_SEED repeats a run. */

export const long = process.env['FAULTS'] === 'long';

/** Every random choice follows from it; a failing run shows it. */
export const SEED = Number(process.env['FAULTS_SEED'] ?? Math.floor(Math.random() * 2 ** 31));

/** Numbers in [0, 1), the same ones for the same seed (mulberry32, public domain). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One line every ten seconds of a long run. */
export class Progress {
  private done = 0;
  private readonly started = Date.now();
  private told = Date.now();

  constructor(
    private readonly name: string,
    private readonly total: number,
  ) {}

  step(): void {
    this.done++;
    if (!long || Date.now() - this.told < 10_000) return;
    this.told = Date.now();
    const rate = this.done / ((this.told - this.started) / 1_000);
    const rest = Math.round((this.total - this.done) / rate);
    process.stderr.write(`${this.name}: ${this.done} of ${this.total}, ${rate.toFixed(1)}/s, ${rest} s to go\n`);
  }

  end(summary: string): void {
    const seconds = ((Date.now() - this.started) / 1_000).toFixed(0);
    if (long) process.stderr.write(`${this.name}: ${this.done} in ${seconds} s, seed ${SEED}; ${summary}\n`);
  }
}

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

const CLI = resolve('dist/src/cli.js');

/** Runs the built command line on a data folder. */
export function credence(data: string, ...args: string[]): Promise<Ran> {
  return credenceWith({}, data, ...args);
}

/** As `credence`, with further variables. */
export async function credenceWith(variables: Record<string, string>, data: string, ...args: string[]): Promise<Ran> {
  if (!existsSync(CLI)) throw new Error(`${CLI} does not exist: run "npm run build" before these tests`);
  const env = {
    ...variables,
    PATH: process.env['PATH'],
    CREDENCE_DATA: data,
    CREDENCE_LOG_LEVEL: 'error',
  };
  try {
    return { code: 0, ...(await promisify(execFile)(process.execPath, [CLI, ...args], { env, maxBuffer: 2 ** 28 })) };
  } catch (error) {
    const { code, stdout, stderr } = error as Ran;
    return { code, stdout, stderr };
  }
}

/** Every row is what a fresh fold of the log comes to. */
export async function verified(data: string): Promise<void> {
  const { code, stdout, stderr } = await credence(data, 'verify');
  if (code !== 0) throw new Error(`verify ends with ${code} (seed ${SEED}): ${stdout}${stderr}`);
}
