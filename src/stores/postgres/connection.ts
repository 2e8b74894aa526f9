import pg from 'pg';
import { backoff } from '../../kernel/backoff.js';
import type { Logger } from '../../kernel/logger.js';
import { StartError } from '../../kernel/start-error.js';
import { inTime } from '../../kernel/turn.js';
import { Turns } from '../../kernel/turns.js';
import { StoreUnavailable } from '../ports/event-store.js';

/**
 * The only file that connects to PostgreSQL. When it is unavailable, statements wait for up to a second, then fail at
 * once with `StoreUnavailable` until it is back, so that none accumulate; the connections recover by themselves. Nothing
 * logged or thrown contains a credential or a value of a row.
 */

const CONNECT_TIMEOUT_MS = 2_000;
/** How long statements are sent to a server that does not answer; after that they fail at once. */
const PATIENCE_MS = 1_000;
/** How often to check whether the server is there, and the same, ms. */
const CHECK_MS = 1_000;
/** The first with DETACH PARTITION CONCURRENTLY. */
const LEAST_VERSION = 14;
/** After so long without an answer the system asks whether the server is still there, ms. By default after two hours. */
const SILENCE_MS = 10_000;
/** How often a statement is repeated that lost against another one. */
const TRIES = 4;

/**
 * Every statement finds its rows by an index, also in a table whose statistics are not known yet. A table is locked for
 * as long as this at most, ms.
 */
const SETTINGS = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
  max_parallel_workers_per_gather: '0',
  lock_timeout: '2000',
  // A process that is paused, or whose machine is gone, locks nothing for longer.
  idle_in_transaction_session_timeout: '5000',
  // The server asks after so many seconds of silence, and then each second, whether the machine of a process is there.
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '1',
  client_min_messages: 'error',
  // Also if the server, the database or the role has it off: a commit is on the disk before it is answered.
  synchronous_commit: 'on',
};

/** Which server this is, whether the log of its changes is still the same one, and the tables, if they are there. */
const IDENTITY = `
  SELECT pg_is_in_recovery() AS standby,
    concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), pg_postmaster_start_time(),
      CASE WHEN pg_is_in_recovery() THEN NULL ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END) AS server,
    to_regclass('credence_store.migrations')::oid AS tables,
    current_setting('server_version_num')::integer / 10000 AS version`;

/** Codes of errors after which the same statement may succeed: docs of PostgreSQL, appendix A. 08P01: it is wrong itself. */
const NOT_NOW = /^(08(?!P01)|53|57|58)|^(25006|40001|40P01|55P03|XX001|XX002)$/;
const FULL = '53100';
const LOST_AGAINST_ANOTHER = /^(40001|40P01)$/;
/** No connection can be made to a server with such an answer, and none of those that there are is of use. */
const AWAY = /^(08(?!P01)|57P)/;
/** A table or the schema does not exist. */
const NO_TABLE = /^(42P01|3F000)$/;
/** The tables of rows come and go. */
const TABLE_OF_ROWS = /\brows_\d+/;

/** PostgreSQL refused a statement. `code`: SQLSTATE. */
export class StatementRefused extends Error {
  override readonly name = 'StatementRefused';
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
}

type Value = string | number | null;

/** Text to be executed, once prepared under its name. A Buffer is a value in PostgreSQL's binary format. */
export interface Statement {
  name?: string;
  text: string;
  values?: (Value | Value[] | Buffer)[];
}

export interface PostgresConnectionOptions {
  /** The number of connections. With one, statements are executed in the order in which they were given. */
  most: number;
  /** How long a statement may take, ms. */
  timeoutMs: number;
  /** `off`: a commit is answered before it is on the disk, so that the last ones can be lost with the server. */
  synchronousCommit?: 'off';
  /** Makes the tables, or brings them up to date: at the start, and if they are gone. */
  prepare?: () => Promise<void>;
  logger?: Logger;
}

/** A few connections to one server. */
export class PostgresConnection {
  /** How often the last commits may be lost: the server was restarted, failed over or replaced, or its tables were. */
  restarts = 0;
  /** How often it was there again after it had been unavailable. */
  reconnections = 0;
  private server: string | undefined;
  private tables: number | null = null;
  private unavailableSince: number | undefined;
  private failures = 0;
  private isClosed = false;
  private readonly pool: pg.Pool;
  /** Of those who wait for a connection. The pool would give up after the time that it takes to connect. */
  private readonly turns: Turns;
  private timer: NodeJS.Timeout | undefined;

  /** @throws StartError if it does not respond, refuses the credentials or is too old */
  static async open(url: string, options: PostgresConnectionOptions): Promise<PostgresConnection> {
    const connection = new PostgresConnection(url, whereOf(url), options);
    try {
      await connection.checkAtStart();
      await options.prepare?.();
    } catch (error) {
      await connection.close();
      throw error;
    }
    connection.checkAgain();
    return connection;
  }

  private constructor(
    url: string,
    private readonly where: string,
    private readonly options: PostgresConnectionOptions,
  ) {
    this.turns = new Turns(options.most, options.most);
    // A new connection is not passed on before its server was looked at.
    this.pool = poolOf(url, options, (client, done) => void this.look(client).then(() => done(), done));
    // Whatever ended an idle connection. One in use reports it to its statement.
    this.pool.on('error', () => undefined);
    // Only a connection that this process did not end says so: what it had seen may be gone. The pool passes a
    // connection on later, and the end may come in the same bytes as the answer to the login.
    this.pool.on('connect', (client) => client.on('error', () => void this.restarts++));
  }

  get isUnavailable(): boolean {
    return this.unavailableSince !== undefined;
  }

  /**
   * Executes a statement, again if another one has forced it to end.
   * @param statement or what makes it once a connection is free
   * @returns the rows, each with its columns in order. @throws StoreUnavailable, StatementRefused
   */
  async rows<T extends unknown[]>(statement: Statement | (() => Statement)): Promise<T[]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.use(async (client) => {
          const made = typeof statement === 'function' ? statement() : statement;
          return (await client.query<T>({ ...made, rowMode: 'array' })).rows;
        });
      } catch (error) {
        const { cause } = error as { cause?: unknown };
        const isLoser = cause instanceof StatementRefused && LOST_AGAINST_ANOTHER.test(cause.code);
        if (!isLoser || tries === TRIES) throw error;
      }
    }
  }

  /** Runs statements as one transaction, which is undone if `work` throws. */
  async transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.use(async (client) => {
      await client.query('BEGIN');
      try {
        const result = await work(client);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK').catch(() => undefined); // The connection may be lost.
        throw error;
      }
    });
  }

  /** Gives a connection to `work`. @throws StoreUnavailable, StatementRefused */
  use<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    return this.turns.run('', async () => {
      if (this.isClosed) throw new StoreUnavailable(`the connection to PostgreSQL at ${this.where} was closed`);
      if (this.unavailableSince !== undefined && performance.now() - this.unavailableSince > PATIENCE_MS) {
        throw new StoreUnavailable(`PostgreSQL at ${this.where} is unavailable`);
      }
      const client = await this.pool.connect().catch((error: Error) => {
        this.noteFailure(error);
        throw this.noAnswer(error);
      });
      try {
        const result = await work(client);
        client.release();
        // The server is back, as the next check will find. Without its tables it stays unavailable.
        if (this.unavailableSince !== undefined && this.tables !== null) this.unavailableSince = performance.now();
        return result;
      } catch (error) {
        // After anything but a refusal, its next answer may be that of this statement.
        client.release(!(error instanceof pg.DatabaseError));
        throw error instanceof StoreUnavailable ? error : this.failure(error as Error);
      }
    });
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    clearTimeout(this.timer);
    await inTime(this.pool.end(), CONNECT_TIMEOUT_MS).catch(() => undefined);
  }

  private async look(client: pg.PoolClient): Promise<void> {
    type Seen = { standby: boolean; server: string; tables: number | null; version: number };
    const { rows } = await client.query<Seen>({ text: IDENTITY, query_timeout: CONNECT_TIMEOUT_MS } as pg.QueryConfig);
    const { standby, server, tables, version } = rows[0]!;
    if (version < LEAST_VERSION) throw new Error(`it is version ${version}; ${LEAST_VERSION} or newer is required`);
    if (standby) throw new Error('it is a standby, which takes no writes');
    const isOther = this.server !== undefined && this.server !== server;
    if (isOther || (this.tables !== null && this.tables !== tables)) this.restarts++;
    this.server = server;
    this.tables = tables;
  }

  private async checkAtStart(): Promise<void> {
    try {
      // All of them, so that it has them when others take all that the server can give.
      await Promise.all(Array.from({ length: this.options.most }, () => this.use(async () => undefined)));
    } catch (error) {
      const { cause } = error as Error;
      const reason = cause instanceof Error ? cause.message : (error as Error).message;
      const pooler = reason.includes('startup parameter')
        ? ' It seems to be a pooler: name PostgreSQL itself, or a pooler that passes its settings on.'
        : '';
      throw new StartError(
        `PostgreSQL at ${this.where} (CREDENCE_DATABASE_URL) cannot be used: ${reason.replace(/\.$/, '')}.${pooler}`,
      );
    }
  }

  /** Checks whether the server is there, and is still the same one, again and again. */
  private checkAgain(): void {
    const wait = this.failures === 0 ? CHECK_MS : backoff(this.failures);
    this.timer = setTimeout(
      () => void this.turns.run('', () => this.check()).then(() => this.isClosed || this.checkAgain()),
      wait,
    ).unref();
  }

  private async check(): Promise<void> {
    try {
      const client = await this.pool.connect();
      await this.look(client).catch((error: unknown) => {
        client.release(true);
        throw error;
      });
      client.release();
      const { unavailableSince } = this;
      this.unavailableSince = undefined;
      if (this.tables === null) {
        await this.options.prepare?.().catch((error: unknown) => {
          this.unavailableSince = unavailableSince;
          throw error;
        });
      }
      this.failures = 0;
      if (unavailableSince === undefined) return;
      this.reconnections++;
      this.options.logger?.warn(`PostgreSQL at ${this.where} is back`);
    } catch (error) {
      this.failures++;
      this.noteFailure(error as Error);
    }
  }

  private noteFailure(error: Error): void {
    if (this.unavailableSince !== undefined || this.isClosed) return;
    this.unavailableSince = performance.now();
    this.options.logger?.warn(`PostgreSQL at ${this.where} is unavailable: ${error.message}`);
  }

  /** Without the details of PostgreSQL's error, which contain values. */
  private failure(error: Error): Error {
    if (!(error instanceof pg.DatabaseError)) return this.noAnswer(error);
    const code = error.code ?? '';
    const isGone = NO_TABLE.test(code) && !TABLE_OF_ROWS.test(error.message);
    if (NOT_NOW.test(code) || isGone) {
      if (AWAY.test(code)) this.noteFailure(error);
      return this.noAnswer(error);
    }
    return this.refused(error);
  }

  private noAnswer(error: Error): StoreUnavailable {
    return new StoreUnavailable(`PostgreSQL at ${this.where} gives no answer: ${error.message}`, {
      ...(error instanceof pg.DatabaseError && { cause: this.refused(error) }),
      ...(error instanceof pg.DatabaseError && error.code === FULL && { code: 'store_full' as const }),
    });
  }

  private refused({ message, code = '' }: pg.DatabaseError): StatementRefused {
    return new StatementRefused(`PostgreSQL at ${this.where} refused a statement: ${message}`, code);
  }
}

function poolOf(
  url: string,
  { most, timeoutMs, synchronousCommit }: PostgresConnectionOptions,
  verify: pg.PoolConfig['verify'],
): pg.Pool {
  const settings = { ...SETTINGS, ...(synchronousCommit && { synchronous_commit: synchronousCommit }) };
  return new pg.Pool({
    connectionString: url,
    verify,
    application_name: 'credence',
    // By the server, too: a pooler that would give the next statement to another session refuses it.
    options: Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value}`)
      .join(' '),
    max: most,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: timeoutMs,
    statement_timeout: timeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: SILENCE_MS,
  });
}

/** The address for messages, without credentials. @throws StartError that does not repeat the URL */
function whereOf(url: string): string {
  try {
    const { protocol, searchParams } = new URL(url);
    if (!/^postgres(ql)?:$/.test(protocol)) throw new Error('another protocol');
    if (searchParams.has('options')) throw new StartError('CREDENCE_DATABASE_URL must not have options.');
    const { host, port, database } = new pg.Client({ connectionString: url });
    return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
  } catch (error) {
    if (error instanceof StartError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === 'ENOENT' || code === 'EACCES' ? `: it names a file that cannot be read (${code})` : '';
    throw new StartError(
      `CREDENCE_DATABASE_URL must have the form postgres://user:password@host:port/database${reason}.`,
    );
  }
}
