import pg from 'pg';
import { backoff } from '../../kernel/backoff.js';
import type { Logger } from '../../kernel/logger.js';
import { StartError } from '../../kernel/start-error.js';
import { inTime } from '../../kernel/turn.js';
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
  client_min_messages: 'error',
};

/** Which server this is, and whether the log of its changes is still the same one. */
const IDENTITY = `
  SELECT pg_is_in_recovery() AS standby,
    concat_ws(' ', (SELECT system_identifier FROM pg_control_system()), pg_postmaster_start_time(),
      CASE WHEN pg_is_in_recovery() THEN NULL ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END) AS server,
    current_setting('server_version_num')::integer / 10000 AS version`;

/** Codes of errors after which the same statement may succeed: docs of PostgreSQL, appendix A. */
const NOT_NOW = /^(08|53|57|58)|^(25006|40001|40P01|55P03|XX001|XX002)$/;
const FULL = '53100';
const LOST_AGAINST_ANOTHER = /^(40001|40P01)$/;
/** No connection can be made to a server with such an answer, and none of those that there are is of use. */
const AWAY = /^(08|57P)/;

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

/** Text to be executed, once prepared under its name. A Buffer is a value in PostgreSQL's binary format. */
export interface Statement {
  name?: string;
  text: string;
  values?: (string | number | null | Buffer)[];
}

export interface PostgresConnectionOptions {
  /** The number of connections. With one, statements are executed in the order in which they were given. */
  most: number;
  /** How long a statement may take, ms. */
  timeoutMs: number;
  /** `off`: a commit is answered before it is on the disk, so that the last ones can be lost with the server. */
  synchronousCommit?: 'off';
  logger?: Logger;
}

/** A few connections to one server. */
export class PostgresConnection {
  /** How often the server may have lost its last commits or gone back: it was restarted, failed over or replaced. */
  restarts = 0;
  /** How often it was there again after it had been unavailable. */
  reconnections = 0;
  private server: string | undefined;
  private unavailableSince: number | undefined;
  private failures = 0;
  private isClosed = false;
  private timer: NodeJS.Timeout | undefined;

  /** @throws StartError if it does not respond, refuses the credentials or is too old */
  static async open(url: string, options: PostgresConnectionOptions): Promise<PostgresConnection> {
    const connection = new PostgresConnection(poolOf(url, options), whereOf(url), options.logger);
    try {
      await connection.checkAtStart();
    } catch (error) {
      await connection.close();
      throw error;
    }
    connection.checkAgain();
    return connection;
  }

  private constructor(
    private readonly pool: pg.Pool,
    private readonly where: string,
    private readonly logger: Logger | undefined,
  ) {
    pool.options.onConnect = (client) => this.welcome(client as pg.PoolClient);
    // Whatever ended an idle connection. One in use reports it to its statement.
    pool.on('error', () => undefined);
  }

  get isUnavailable(): boolean {
    return this.unavailableSince !== undefined;
  }

  /** @returns the rows, each with its columns in order. @throws StoreUnavailable, StatementRefused */
  async rows<T extends unknown[]>(statement: Statement): Promise<T[]> {
    return this.use(async (client) => (await client.query<T>({ ...statement, rowMode: 'array' })).rows);
  }

  /** As `rows`, of a statement that is made only once a connection is free. */
  async rowsOf<T extends unknown[]>(make: () => Statement): Promise<T[]> {
    return this.use(async (client) => (await client.query<T>({ ...make(), rowMode: 'array' })).rows);
  }

  /** As `rows`; repeats a statement that another one has forced to end. */
  async rowsAgain<T extends unknown[]>(statement: Statement): Promise<T[]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.rows(statement);
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
  async use<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    if (this.isClosed) throw new StoreUnavailable(`the connection to PostgreSQL at ${this.where} was closed`);
    if (this.unavailableSince !== undefined && performance.now() - this.unavailableSince > PATIENCE_MS) {
      throw new StoreUnavailable(`PostgreSQL at ${this.where} is unavailable`);
    }
    let client: pg.PoolClient;
    try {
      client = await this.pool.connect();
    } catch (error) {
      this.noteFailure(error as Error);
      throw this.failure(error as Error);
    }
    try {
      const result = await work(client);
      client.release();
      return result;
    } catch (error) {
      // After anything but a refusal, its next answer may be that of this statement.
      client.release(!(error instanceof pg.DatabaseError));
      throw error instanceof StoreUnavailable ? error : this.failure(error as Error);
    }
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    clearTimeout(this.timer);
    await inTime(this.pool.end(), CONNECT_TIMEOUT_MS).catch(() => undefined);
  }

  /** Looks at the server of a new connection before it is used. */
  private async welcome(client: pg.PoolClient): Promise<void> {
    // Only a connection that this process did not end says so: what it had seen may be gone.
    client.on('error', () => void this.restarts++);
    await this.look(client);
  }

  private async look(client: Pick<pg.PoolClient, 'query'>): Promise<void> {
    const { rows } = await client.query<{ standby: boolean; server: string; version: number }>(IDENTITY);
    const { standby, server, version } = rows[0]!;
    if (version < LEAST_VERSION) throw new Error(`it is version ${version}; ${LEAST_VERSION} or newer is required`);
    if (standby) throw new Error('it is a standby, which takes no writes');
    if (this.server !== undefined && this.server !== server) this.restarts++;
    this.server = server;
  }

  private async checkAtStart(): Promise<void> {
    try {
      await this.use((client) => this.look(client));
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
    this.timer = setTimeout(() => void this.check().then(() => this.isClosed || this.checkAgain()), wait).unref();
  }

  private async check(): Promise<void> {
    try {
      const client = await this.pool.connect();
      await this.look(client).then(
        () => client.release(),
        (error: Error) => {
          client.release(error);
          throw error;
        },
      );
      this.failures = 0;
      if (this.unavailableSince === undefined) return;
      this.unavailableSince = undefined;
      this.reconnections++;
      this.logger?.warn(`PostgreSQL at ${this.where} is back`);
    } catch (error) {
      this.failures++;
      this.noteFailure(error as Error);
    }
  }

  private noteFailure(error: Error): void {
    if (this.unavailableSince !== undefined || this.isClosed) return;
    this.unavailableSince = performance.now();
    this.logger?.warn(`PostgreSQL at ${this.where} is unavailable: ${error.message}`);
  }

  /** Without the details of PostgreSQL's error, which contain values. */
  private failure(error: Error): Error {
    if (!(error instanceof pg.DatabaseError)) {
      const cause = new Error(error.message);
      return new StoreUnavailable(`PostgreSQL at ${this.where} gives no answer: ${error.message}`, { cause });
    }
    const code = error.code ?? '';
    const refused = new StatementRefused(`PostgreSQL at ${this.where} refused a statement: ${error.message}`, code);
    if (!NOT_NOW.test(code)) return refused;
    if (AWAY.test(code)) this.noteFailure(error);
    return new StoreUnavailable(`PostgreSQL at ${this.where} gives no answer: ${error.message}`, {
      cause: refused,
      ...(code === FULL && { code: 'store_full' }),
    });
  }
}

function poolOf(url: string, { most, timeoutMs, synchronousCommit }: PostgresConnectionOptions): pg.Pool {
  const settings = { ...SETTINGS, ...(synchronousCommit && { synchronous_commit: synchronousCommit }) };
  return new pg.Pool({
    connectionString: url,
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
  });
}

/** The address for messages, without credentials. @throws StartError that does not repeat the URL */
function whereOf(url: string): string {
  try {
    const { searchParams } = new URL(url);
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
