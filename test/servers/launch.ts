import 'reflect-metadata';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { programFor } from '../../src/cli/commands.js';

/** Starts the built service and the command line: the only place that does, so that none touches data it was not given. */

const SERVER = resolve('dist/src/main.js');
const CLI = resolve('dist/src/cli.js');

export type Environment = Readonly<Record<string, string>>;

/** Variables that the service or the command is told; nothing of what the test run itself was told. */
function environment(env: Environment): Record<string, string> {
  if (!env['CREDENCE_DATA']) throw new Error('whatever a test starts is told a folder of its own: CREDENCE_DATA');
  const others = Object.entries(process.env).filter(([name]) => !OURS.test(name)) as [string, string][];
  return { ...Object.fromEntries(others), ...COVERAGE, ...env };
}
/** Where `npm run coverage` wants to know what the processes ran. */
const folder = process.env['COVERAGE'];
const COVERAGE: Record<string, string> = folder ? { NODE_V8_COVERAGE: folder } : {};
const OURS = /^CREDENCE_|^NODE_OPT|^EVENTSTORE_URL$|^REDIS_URL$|^PG[A-Z]|^OTEL_/;

function start(
  program: string,
  args: readonly string[],
  env: Record<string, string>,
  { node = process.execPath, stdout }: { node?: string | undefined; stdout?: number | undefined } = {},
): ChildProcess {
  if (!existsSync(program)) throw new Error(`${program} does not exist: run "npm run build" before these tests`);
  return spawn(node, [program, ...args], { env, stdio: ['pipe', stdout ?? 'pipe', 'pipe'] });
}

/** The built service, or another build of it, on a free port unless told another. @param node the program of Node */
export function spawnServer(
  env: Environment,
  server = SERVER,
  node?: string,
  args: readonly string[] = [],
): ChildProcess {
  const child = start(server, args, { CREDENCE_PORT: '0', CREDENCE_RATE_LIMIT: '0', ...environment(env) }, { node });
  child.stdin!.end();
  return child;
}

/** The service of a folder in which its package is installed, on a free port and on example data in the folder. */
export function spawnInstalledServer(folder: string): ChildProcess {
  const { CREDENCE_DATA: _, ...env } = environment({ CREDENCE_DATA: folder, CREDENCE_PORT: '0' });
  // npx passes no signal on: it and the service end as a group.
  return spawn('npx', ['credence', 'serve', '--example'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
}

/** What a command printed and ended with; `code` is null if it was killed. */
export interface Ran {
  code: number | null;
  stdout: string;
  stderr: string;
}

const QUIET = { CREDENCE_LOG_LEVEL: 'error' };

/**
 * The built command line as a process of its own: for what is killed, what may end its process, and as proof.
 * @param stdout an open file
 * @param node the program of Node
 */
export function spawnCommand(
  args: readonly string[],
  env: Environment,
  { stdout, node }: { stdout?: number; node?: string } = {},
): ChildProcess {
  return start(CLI, args, { ...QUIET, ...environment(env) }, { stdout, node });
}

export function ended(child: ChildProcess, input = ''): Promise<Ran> {
  return new Promise((settle) => {
    let [stdout, stderr] = ['', ''];
    child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.on('close', (code) => settle({ code, stdout, stderr }));
    // It may end without reading.
    child.stdin!.on('error', () => undefined).end(input);
  });
}

/**
 * A command in this process: a tenth of the time that a process of its own takes to load. On the cluster profile it is
 * one all the same: the runner's loader fails where a module imports several at once, as the clients of the stores are.
 */
export async function runCommand(args: readonly string[], env: Environment, input = ''): Promise<Ran> {
  if (env['CREDENCE_PROFILE'] === 'cluster') return ended(spawnCommand(args, env), input);
  const [stdout, stderr] = [new Collected(), new Collected()];
  const argv = ['node', 'credence', ...args];
  const io = { env: { ...QUIET, ...environment(env) }, stdin: Readable.from([input]), stdout, stderr };
  const cli = await programFor(argv, io);
  await cli.run(argv);
  return { code: cli.exitCode, stdout: stdout.text, stderr: stderr.text };
}

class Collected extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}
