import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { eventually } from '../contracts/harness.js';
import { freePort } from './ports.js';
import { AS_SERVER, POSTGRES, copyData, makeData, serverFolder } from './postgres-folder.mjs';

/** Why no suite that needs PostgreSQL runs here; undefined if they do. */
export const noPostgres: string | undefined = POSTGRES === undefined ? missing() : undefined;

function missing(): string {
  const reason = 'the programs of PostgreSQL are neither on the PATH nor in /usr/lib/postgresql/<version>/bin';
  process.stderr.write(`skipped: tests that need PostgreSQL, since ${reason}\n`);
  return reason;
}

/** `describe` where there is a PostgreSQL; elsewhere its tests count as skipped. */
export const describePostgres = noPostgres === undefined ? describe : describe.skip;

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  // A process that is killed loses nothing by this: the system has what it wrote. Only a power cut would.
  fsync: 'off',
  shared_buffers: '32MB',
  max_connections: '100',
  wal_keep_size: '64MB',
};

const EMPTY = `DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'credence_store' AND tablename <> 'migrations' LOOP
    EXECUTE CASE WHEN name ~ '^rows_' THEN 'DROP TABLE' ELSE 'DELETE FROM' END || ' credence_store.' || name;
  END LOOP;
END $$`;

/** A database of one test. */
export interface TestDatabase {
  url: string;
  /** Leaves the tables of the service as its migrations make them, in a fraction of the time that these take. */
  empty(): Promise<void>;
  /** Ends its connections, too. */
  drop(): Promise<void>;
}

/** A PostgreSQL of one test, on loopback and a free port, its files in a temporary folder. */
export class PostgresServer {
  private process: ChildProcess | undefined;
  /** When it and all processes that it has started have ended. */
  private ended: Promise<unknown> = Promise.resolve();
  /** What it has logged since it was started. */
  private output = '';
  private count = 0;

  /**
   * @param settings of postgresql.conf
   * @param under where its folder is
   */
  static async start(settings: Record<string, string> = {}, under?: string): Promise<PostgresServer> {
    const server = new PostgresServer(await freePort(), await serverFolder(under), settings);
    await makeData(server.data);
    await server.run();
    return server;
  }

  private constructor(
    readonly port: number,
    /** Contains its data, its backups, and nothing else. */
    readonly folder: string,
    private readonly settings: Record<string, string>,
  ) {}

  /** Of its database `credence`, as the role that owns it and may do nothing else. */
  get url(): string {
    return this.urlOf('credence');
  }

  get pid(): number {
    return this.process!.pid!;
  }

  /** Whether it has ended by itself. */
  get hasEnded(): boolean {
    return this.process !== undefined && this.process.exitCode !== null;
  }

  private get data(): string {
    return join(this.folder, 'data');
  }

  /** Starts it on the same port, with what its folder holds. */
  async run(): Promise<void> {
    const settings = { ...SETTINGS, port: String(this.port), ...this.settings };
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const child = spawn(program('postgres'), ['-D', this.data, ...args], {
      ...AS_SERVER,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.process = child;
    // Not its `exit`: processes that it has started may outlive it, and have its stderr.
    this.ended = new Promise((settle) => child.once('close', settle));
    this.output = '';
    child.stderr.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    await this.ready();
  }

  /** Until it has logged, after the first so many characters, that it is ready. */
  private async ready(since = 0): Promise<void> {
    const child = this.process!;
    for (let waited = 0; !/ready to accept (read.only )?connections/.test(this.output.slice(since)); waited += 10) {
      if (child.exitCode !== null || child.signalCode !== null || waited > 60_000) {
        throw new Error(`PostgreSQL did not start: ${this.output}`);
      }
      await sleep(10);
    }
  }

  /** kill −9; returns once the processes that it had started have noticed and ended. */
  async kill(): Promise<void> {
    const [, ...others] = this.processes();
    const ended = this.end('SIGKILL');
    send('SIGCONT', others);
    await ended;
  }

  /** kill −9 of a process that serves a client. PostgreSQL ends all of these and recovers; returns once it has. */
  async killBackend(): Promise<void> {
    const pid = await this.sql(
      "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1",
    );
    if (pid === '') throw new Error('no client is connected');
    const since = this.output.length;
    process.kill(Number(pid), 'SIGKILL');
    await this.ready(since);
  }

  /** Stops it answering without closing a connection. New ones are accepted by the system, and get no answer. */
  pause(): void {
    // First itself, so that it starts no other.
    if (this.process) send('SIGSTOP', [this.pid]);
    send('SIGSTOP', this.processes());
  }

  resume(): void {
    send('SIGCONT', this.processes());
  }

  /** As an operator does: it ends connections and transactions, writes what it holds, and starts again. */
  async restart(): Promise<void> {
    await this.end('SIGINT');
    await this.run();
  }

  async stop(): Promise<void> {
    // The shared memory of a server that was killed is freed by its next start only.
    if (!this.process) await this.run().catch(() => undefined);
    this.resume();
    await this.end('SIGQUIT');
    await rm(this.folder, { recursive: true, force: true });
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.process;
    this.process = undefined;
    child?.kill(signal);
    await this.ended;
  }

  /** Of itself and those that it has started. They are no group of processes: each makes its own. */
  private processes(): number[] {
    if (!this.process) return [];
    const isOurs = (pid: string) => {
      try {
        const [, parent] = /\) \w (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))!;
        return Number(parent) === this.pid;
      } catch {
        return false;
      }
    };
    return [
      this.pid,
      ...readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name) && isOurs(name))
        .map(Number),
    ];
  }

  /**
   * Runs statements as the role that may do everything, or at another address.
   * @returns the rows, one a line, with | between the columns
   */
  async sql(text: string, url = this.urlOf('credence', 'postgres')): Promise<string> {
    const { stdout } = await execute('psql', ['-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', url, '-c', text]);
    return stdout.trimEnd();
  }

  /** A new, empty database that the role of `url` owns. @param options of CREATE DATABASE */
  async database(options = ''): Promise<TestDatabase> {
    const name = `test_${++this.count}`;
    await this.sql(`CREATE DATABASE ${name} OWNER credence ${options}`);
    const url = this.urlOf(name);
    return {
      url,
      empty: async () => void (await this.sql(EMPTY, url)),
      drop: async () => void (await this.sql(`DROP DATABASE ${name} WITH (FORCE)`)),
    };
  }

  private urlOf(database: string, user = 'credence'): string {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  /** Of its database `credence`, as the one role that needs a password, which this sets. */
  async guardedUrl(password: string): Promise<string> {
    await this.sql(`ALTER ROLE guarded PASSWORD '${password.replaceAll("'", "''")}'`);
    return this.urlOf('credence', `guarded:${encodeURIComponent(password)}`);
  }

  /** Copies its data while it runs. @returns the folder of the copy, which is removed with its own */
  async baseBackup(): Promise<string> {
    const backup = join(this.folder, `backup-${++this.count}`);
    await this.copyTo(backup);
    return backup;
  }

  /** Ends it, and starts it with the data of a backup. */
  async restore(backup: string): Promise<void> {
    await this.end('SIGQUIT');
    await rm(this.data, { recursive: true });
    await copyData(backup, this.data);
    await this.run();
  }

  /** Another server that follows this one and can be read from. It follows when this returns. */
  async standby(): Promise<PostgresServer> {
    const standby = new PostgresServer(await freePort(), await serverFolder(), this.settings);
    await this.copyTo(standby.data, '--write-recovery-conf');
    await standby.run();
    const status = () => standby.sql('SELECT status FROM pg_stat_wal_receiver');
    await eventually(async () => (await status()) === 'streaming', 'a standby that follows');
    return standby;
  }

  private async copyTo(folder: string, ...args: string[]): Promise<void> {
    const from = ['-h', '127.0.0.1', '-p', String(this.port), '-U', 'postgres'];
    await execute('pg_basebackup', [...from, '-D', folder, '--checkpoint=fast', '--no-sync', ...args]);
  }

  /** Makes a standby a server of its own, which accepts writes when this returns. */
  async promote(): Promise<void> {
    await this.sql('SELECT pg_promote()');
  }
}

const program = (name: string): string => join(POSTGRES!, name);

const execute = (name: string, args: readonly string[]) => promisify(execFile)(program(name), args, AS_SERVER);

function send(signal: NodeJS.Signals, pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      // It has ended.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
