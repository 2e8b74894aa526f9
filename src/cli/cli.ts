import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { userInfo } from 'node:os';
import { Readable, type Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { prepareFolder } from '../app/start-failure.js';
import { sentenceFor } from '../kernel/failures.js';
import { ACTOR, type Config, ConfigError, loadConfig } from '../kernel/config.js';
import { VERSION } from '../kernel/version.js';
import { Problem } from '../kernel/problems.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import { FolderOwned, Ownership, describeOwner } from '../stores/owner.js';
import { type Stores, closeStores, openProfile, storesExist } from '../stores/open.js';
import { CommandFailed, EXIT, type ExitCode, UsageError } from './exit.js';
import { type Caller, callOwner } from './owner-client.js';
import type { OutputFile } from './output-file.js';
import type { Ended } from './owner-socket.js';
import { type Update, showProgress } from './progress.js';

/** The environment and streams of a command: those of the process, unless another program runs the command. */
export interface CommandIo {
  env: Readonly<Record<string, string | undefined>>;
  stdin: Readable;
  stdout: Writable;
  stderr: Writable & { isTTY?: boolean; columns?: number };
  /** Starts the server in this process. @param data the folder of `--data`; undefined: as the environment says */
  serve?: (data: string | undefined) => Promise<void>;
}

/** Of a command that prints its result as JSON if it is asked to. */
export interface JsonOption {
  json?: boolean;
}

/** What a command receives. */
export interface Context {
  config: Config;
  io: CommandIo;
  /** The name in events, `cli:<user>`: what the caller says of itself, which nobody checks. */
  actor: string;
  /** Shows the progress of work on standard error, as `showProgress` does. */
  progress<T>(label: string, unit: string, work: (update: Update) => Promise<T>): Promise<T>;
  /** Writes a result line to standard output. */
  print(text: string): void;
  /** Writes a remark to standard error. */
  note(text: string): void;
  /**
   * Has something done once the command has ended, also if it has failed. What was asked for last is done first; if a
   * part fails, the others are done all the same.
   */
  atEnd(end: () => unknown): void;
}

/**
 * What the caller of a command reads and opens for it before it runs. Files are the caller's: the command may run in
 * another process, which owns the folder, and in another container.
 */
export interface Prepared<V = undefined> {
  /** As JSON. */
  value: V;
  /** Read while the command runs; each as JSON. */
  items?: AsyncIterable<unknown>;
  /** Where the lines go that the command writes besides its result. Default: standard output. */
  output?: OutputFile;
}

/** What a command on a folder receives. */
export interface FolderContext<V = unknown> extends Context {
  value: V;
  items: AsyncIterable<unknown>;
  /** Resolves when more can be written. */
  write(text: string): Promise<void>;
  /** Aborts when the command is interrupted, or its caller goes away. Unless it is asked for, Ctrl-C ends this process. */
  interruption(): AbortSignal;
  /** What the server has open that owns the folder, if it carries out the command. */
  host?: Host;
}

export interface StoresContext<V = unknown> extends FolderContext<V> {
  stores: Stores;
}

/** What a server has open. */
export interface Host {
  config: Config;
  stores: Stores;
  /** Returns a provider of its application. */
  get: INestApplicationContext['get'];
}

/** A command of another process that a server carries out. */
export interface Hosted extends Pick<FolderContext, 'actor' | 'value' | 'items' | 'write'> {
  host: Host;
  signal: AbortSignal;
}

/** @returns the exit code; 0 if it returns nothing */
export type Work<C, A extends unknown[]> = (context: C, ...args: A) => Promise<ExitCode | void>;
/** @returns an exit code if the command has ended with it */
export type Prepare<V, A extends unknown[]> = (context: Context, ...args: A) => Promise<Prepared<V> | ExitCode>;
/** `existing`: a folder or server without a log is refused instead of creating one. */
export type Folder = 'existing' | 'create';

/** A folder that a command names. An empty name, of a shell's variable without a value, would mean another folder. */
export function folderName(text: string): string {
  if (text === '') throw new InvalidArgumentError('It is empty.');
  return text;
}

/** How often a command looks whether the folder is free, ms. */
const LOOK_MS = 100;
/** After how long it says that it waits, ms. */
const TOLD_MS = 1_000;

/** The program on which commands register, and what they share: configuration, stores, output, errors. */
export class Cli {
  readonly program = new Command('credence')
    .description('Operates a Credence store. If a server runs on its folder, the server carries out the command.')
    .version(VERSION, '--version', 'print the version')
    .option('--data <folder>', 'folder of the store; default: CREDENCE_DATA, or ./data', folderName)
    .option('--no-wait', 'refuse instead of waiting while another command works on the folder')
    .showHelpAfterError('(see --help)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void this.io.stdout.write(text),
      writeErr: (text) => void this.io.stderr.write(text),
      outputError: (text, write) => write(`credence: ${visible(text.replace(/^error: /, ''))}`),
    });

  /** Exit code of the command so far. */
  exitCode: ExitCode = EXIT.ok;
  /** Whether it was ended by an error. */
  hasFailed = false;
  /** Whether it writes lines to standard output, of which the reader may want only the first. */
  isStreaming = false;
  private argv: readonly string[] = [];
  private readonly endings: (() => unknown)[] = [];

  /** @param hosted if this is the command of another process */
  constructor(
    private readonly io: CommandIo,
    private readonly hosted?: Hosted,
  ) {}

  /** An action that needs the configuration only. */
  withConfig<A extends unknown[]>(work: Work<Context, A>) {
    return async (...args: A): Promise<void> => {
      if (this.hosted) throw new UsageError('The service does not carry out this command.');
      this.exitCode = (await work(this.context(), ...args)) ?? EXIT.ok;
    };
  }

  /**
   * An action of the process that owns the folder: the server that runs on it, or else this process, which owns it
   * meanwhile. In the cluster profile it is always this process.
   */
  withFolder<A extends unknown[], V = undefined>(
    folder: Folder,
    work: Work<FolderContext<V>, A>,
    prepare?: Prepare<V, A>,
  ) {
    return async (...args: A): Promise<void> => {
      const context = this.context();
      if (this.hosted) {
        const { signal, ...rest } = this.hosted as Hosted & { value: V };
        this.exitCode = (await work({ ...context, ...rest, interruption: () => signal }, ...args)) ?? EXIT.ok;
        return;
      }
      const { data, profile } = context.config;
      if (profile === 'embedded' && folder === 'existing') requireStore(data);
      const prepared = (await prepare?.(context, ...args)) ?? { value: undefined as V };
      if (typeof prepared === 'number') {
        this.exitCode = prepared;
        return;
      }
      if (profile === 'embedded' && folder === 'create') prepareFolder(data);
      const { value, items = Readable.from([]), output } = prepared;
      const write = async (text: string) => {
        if (output) return output.write(text);
        this.isStreaming = true;
        if (!this.io.stdout.write(text)) await once(this.io.stdout, 'drain');
      };
      let isComplete = false;
      const kept = this.endings.length;
      try {
        const ended =
          profile === 'embedded' ? await this.owned(data, { actor: context.actor, value, items, write }) : undefined;
        if (ended) ({ exit: this.exitCode, complete: isComplete } = ended);
        else {
          const stopping = new AbortController();
          const stop = () => stopping.abort(new CommandFailed('The command was interrupted.'));
          // Once the stores are closed: until then a signal must not end the process.
          context.atEnd(() => process.off('SIGINT', stop).off('SIGTERM', stop));
          const interruption = () => {
            process.once('SIGINT', stop).once('SIGTERM', stop);
            return stopping.signal;
          };
          const here = { ...context, value, items, write, interruption };
          this.exitCode = (await work(here, ...args).finally(() => this.end(kept))) ?? EXIT.ok;
          isComplete = true;
        }
      } finally {
        await output?.end(isComplete);
      }
    };
  }

  /** An action on the open stores. */
  withStores<A extends unknown[], V = undefined>(
    folder: Folder,
    work: Work<StoresContext<V>, A>,
    prepare?: Prepare<V, A>,
  ) {
    return this.withFolder<A, V>(
      folder,
      async (context, ...args) => {
        if (context.host) return work({ ...context, stores: context.host.stores }, ...args);
        // What may create a store writes to it, and can wait for a log that is unavailable or busy.
        const creates = folder === 'create';
        const options = { onWarning: context.note, checksIndex: creates, waits: creates, mustExist: !creates };
        const stores = await openProfile(context.config, Date.now, options);
        context.atEnd(() => closeStores(stores));
        return work({ ...context, stores }, ...args);
      },
      prepare,
    );
  }

  /**
   * Owns the folder until the command has ended, once no other command does, or lets its server carry out the command.
   * @returns how it has ended there
   * @throws CommandFailed
   */
  private async owned(data: string, caller: Omit<Caller, 'argv' | 'io'>): Promise<Ended | undefined> {
    const { wait } = this.program.opts<{ wait: boolean }>();
    for (let tellsAt = performance.now() + TOLD_MS; ; await sleep(LOOK_MS)) {
      try {
        const ownership = Ownership.take(data, this.program.args.join(' '));
        this.endings.push(() => ownership.close());
        return undefined;
      } catch (error) {
        if (!(error instanceof FolderOwned)) throw error;
        const ended = await callOwner(data, { ...caller, argv: this.argv, io: this.io });
        if (ended) return ended;
        if (!wait) throw new CommandFailed(error.message);
        if (performance.now() <= tellsAt) continue;
        tellsAt = Infinity;
        this.io.stderr.write(`Waiting for ${describeOwner(error.owner)}, which works on ${data}.\n`);
      }
    }
  }

  /** Runs the command of the arguments and sets the exit code. Prints one sentence for an error. */
  async run(argv: readonly string[]): Promise<void> {
    this.argv = argv.slice(2);
    try {
      await this.program.parseAsync(argv).finally(() => this.end());
    } catch (error) {
      this.hasFailed = true;
      this.exitCode = this.report(error as Error);
    }
  }

  /** Does what is to be done at the end. @param kept how many, of those that were asked for first, a later call does */
  private async end(kept = 0): Promise<void> {
    if (this.endings.length <= kept) return;
    try {
      await this.endings.pop()!();
    } finally {
      await this.end(kept);
    }
  }

  private context(): Context {
    const { stdout, stderr } = this.io;
    const signal = this.hosted?.signal;
    const config = this.hosted?.host.config ?? this.configuration();
    return {
      config,
      io: this.io,
      actor: this.hosted?.actor ?? `cli:${config.actor ?? systemUser()}`,
      progress: (label, unit, work) =>
        showProgress(label, unit, stderr, (update) =>
          work((...progress) => {
            // So that a command whose caller has gone ends soon, and with an error.
            signal?.throwIfAborted();
            update(...progress);
          }),
        ),
      print: (text) => void stdout.write(`${visible(text)}\n`),
      note: (text) => void stderr.write(`${visible(text)}\n`),
      atEnd: (end) => void this.endings.push(end),
    };
  }

  private configuration(): Config {
    const { data } = this.program.opts<{ data?: string }>();
    const { env } = this.io;
    const config = loadConfig(data === undefined ? env : { ...env, CREDENCE_DATA: data });
    try {
      // To a user who may not read the folder, it seems to be empty.
      accessSync(config.data, constants.R_OK);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT') throw new CommandFailed(`${config.data} cannot be read (${code}).`);
    }
    return config;
  }

  private report(error: Error): ExitCode {
    // commander has already printed its own errors, and the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    const isBug = error instanceof TypeError || error instanceof ReferenceError || error instanceof RangeError;
    const isStore = error instanceof StoreUnavailable;
    const message = isStore ? `${error.explanation}.` : (fileFailure(error) ?? error.message + whoBuilds(error));
    this.io.stderr.write(`credence: ${visible(isBug ? error.stack! : message)}\n`);
    const isUsage = error instanceof UsageError || error instanceof ConfigError;
    return isUsage || (error instanceof Problem && error.status === 400) ? EXIT.usage : EXIT.finding;
  }
}

/** A sentence for a file that the system does not let this process write; undefined for other errors. */
function fileFailure(error: NodeJS.ErrnoException): string | undefined {
  const { code = '', path = 'A file' } = error;
  return /^E(ROFS|NOSPC|DQUOT|ACCES|PERM)$/.test(code) ? sentenceFor(`${path} cannot be used`, error) : undefined;
}

/** Characters that would change how a terminal shows the rest are written as in JSON: files may contain them. */
function visible(text: string): string {
  const hidden = /[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
  return text.replace(hidden, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The user of the operating system: the name if it has the form of an actor's, else the number. */
function systemUser(): string {
  try {
    const { username } = userInfo();
    if (ACTOR.test(username)) return username;
  } catch {
    // A number may have no name, as in a container.
  }
  return `uid-${process.getuid?.() ?? 0}`;
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
