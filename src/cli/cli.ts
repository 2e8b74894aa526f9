import { accessSync, constants } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { Command, CommanderError } from 'commander';
import { type Config, ConfigError, loadConfig } from '../kernel/config.js';
import { VERSION } from '../kernel/version.js';
import { Problem } from '../kernel/problems.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import { type Stores, closeStores, openProfile, storesExist } from '../stores/open.js';
import { type Progress, startProgress } from './progress.js';

/** Exit codes: 0 success, 1 a finding or a failure, 2 wrong usage. */
export const EXIT = { ok: 0, finding: 1, usage: 2 } as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Wrong usage. The message is one sentence. Exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command failed. The message is one sentence. Exit code 1. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
}

/** The environment and streams of a command: those of the process, unless another program runs the command. */
export interface CommandIo {
  env: Readonly<Record<string, string | undefined>>;
  stdin: Readable;
  stdout: Writable;
  stderr: Writable & { isTTY?: boolean };
}

/** What a command receives. */
export interface Context {
  config: Config;
  io: CommandIo;
  /** Shows progress on standard error after the first second. */
  progress(label: string, unit: string): Progress;
  /** Writes a result line to standard output. */
  print(text: string): void;
  /** Writes a remark to standard error. */
  note(text: string): void;
}

export interface StoresContext extends Context {
  stores: Stores;
}

type Work<C, A extends unknown[]> = (context: C, ...args: A) => Promise<ExitCode>;

/** The program on which commands register, and what they share: configuration, stores, output, errors. */
export class Cli {
  readonly program = new Command('credence')
    .description('Operates a Credence store, also while a server runs on it.')
    .version(VERSION, '--version', 'print the version')
    .option('--data <folder>', 'folder of the store; default: CREDENCE_DATA, or ./data')
    .showHelpAfterError('(see --help)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void this.io.stdout.write(text),
      writeErr: (text) => void this.io.stderr.write(text),
      outputError: (text, write) => write(`credence: ${text.replace(/^error: /, '')}`),
    });

  /** Exit code of the command so far. */
  exitCode: ExitCode = EXIT.ok;

  constructor(private readonly io: CommandIo) {}

  /** An action that needs the configuration only. */
  withConfig<A extends unknown[]>(work: Work<Context, A>) {
    return async (...args: A): Promise<void> => {
      this.exitCode = await work(this.context(), ...args);
    };
  }

  /** An action on the open stores. `existing`: refuses a folder or server without a log instead of creating one. */
  withStores<A extends unknown[]>(folder: 'existing' | 'create', work: Work<StoresContext, A>) {
    return this.withConfig<A>(async (context, ...args) => {
      const { data, profile } = context.config;
      if (profile === 'embedded' && folder === 'existing') requireStore(data);
      // What creates a store writes to it in bulk, and can wait for a log that is unavailable or busy.
      const [inBulk, mustExist] = [folder === 'create', folder === 'existing'];
      const options = { onWarning: context.note, inBulk, waits: inBulk, mustExist };
      const stores = await openProfile(context.config, Date.now, options);
      try {
        return await work({ ...context, stores }, ...args);
      } finally {
        await closeStores(stores);
      }
    });
  }

  /** Runs the command of the arguments and sets the exit code. Prints one sentence for an error. */
  async run(argv: readonly string[]): Promise<void> {
    try {
      await this.program.parseAsync(argv);
    } catch (error) {
      this.exitCode = this.report(error as Error);
    }
  }

  private context(): Context {
    const { data } = this.program.opts<{ data?: string }>();
    const { env, stdout, stderr } = this.io;
    const config = loadConfig(data === undefined ? env : { ...env, CREDENCE_DATA: data });
    requireAccess(config.data);
    return {
      config,
      io: this.io,
      progress: (label, unit) => startProgress(label, unit, stderr),
      print: (text) => void stdout.write(`${text}\n`),
      note: (text) => void stderr.write(`${text}\n`),
    };
  }

  private report(error: Error): ExitCode {
    // commander has already printed its own errors, and the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    const isBug = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
    const message = error instanceof StoreUnavailable ? error.explanation : error.message + whoBuilds(error);
    this.io.stderr.write(`credence: ${isBug ? error.stack : message}\n`);
    const isUsage = error instanceof UsageError || error instanceof ConfigError;
    return isUsage || (error instanceof Problem && error.status === 400) ? EXIT.usage : EXIT.finding;
  }
}

/** To a user who may not read the folder, it seems to be empty. @throws CommandFailed unless it can be read or is absent */
function requireAccess(data: string): void {
  try {
    accessSync(data, constants.R_OK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT') throw new CommandFailed(`${data} cannot be read (${code}).`);
  }
}

/** @throws CommandFailed unless the folder has a store of the embedded profile */
export function requireStore(data: string): void {
  if (storesExist(data)) return;
  throw new CommandFailed(`There is no store in ${data}; set --data or CREDENCE_DATA to its folder.`);
}

/** A command waits for no worker, and possibly none is running. */
function whoBuilds(error: Error): string {
  const isBuilding = error instanceof Problem && error.code === 'projection_rebuilding';
  return isBuilding ? ' A worker builds them: start the service, if none is running.' : '';
}
