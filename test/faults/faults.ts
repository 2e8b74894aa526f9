import { execFileSync } from 'node:child_process';
import { type Ran, ended, runCommand, spawnCommand } from '../servers/launch.js';

/**
 * What tests of faults share. `npm run test:faults` sets FAULTS=long: all tests, in their long forms. Without it runs one
 * short form of each kind of fault. FAULTS_TIMES=20 repeats twenty times as often, FAULTS_SEED repeats a run.
 */

export const long = process.env['FAULTS'] === 'long';
const TIMES = Number(process.env['FAULTS_TIMES'] ?? 1);

/** How often something is repeated: in the short form, and in the long one. */
export const repeated = (short: number, often: number): number => (long ? often * TIMES : short);

/** ms, for a test of which this is the time limit unless it is repeated more often. */
export const limit = (ms: number): number => (long ? ms * Math.max(1, TIMES) : ms);

/** A test, or cases of one, of the long form only. */
export const longTest: typeof test = long
  ? test
  : Object.assign(() => undefined, { each: () => () => undefined } as never);
export const longCases = <T>(short: readonly T[], others: readonly T[]): T[] =>
  long ? [...short, ...others] : [...short];

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

/** Runs a command on a data folder. */
export function credence(data: string, ...args: string[]): Promise<Ran> {
  return runCommand(args, { CREDENCE_DATA: data });
}

/** As `credence`, as a process of its own with further variables. */
export function credenceWith(variables: Record<string, string>, data: string, ...args: string[]): Promise<Ran> {
  return ended(spawnCommand(args, { ...variables, CREDENCE_DATA: data }));
}

/** Whether tests can have a file system of their own, which takes root. */
export function canMount(): boolean {
  try {
    const probe = execFileSync('mktemp', ['-d']).toString().trim();
    execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', probe], { stdio: 'ignore' });
    execFileSync('umount', [probe]);
    return true;
  } catch {
    process.stderr.write('a file system of its own cannot be mounted here: its tests are skipped\n');
    return false;
  }
}

/** Finds nothing wrong: every row is what a fresh fold of the log comes to, unless options ask for something else. */
export async function verified(data: string, ...options: string[]): Promise<void> {
  const { code, stdout, stderr } = await credence(data, 'verify', ...options);
  if (code !== 0) throw new Error(`verify ends with ${code} (seed ${SEED}): ${stdout}${stderr}`);
}
