import { connect } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import { AbstractConnector, Cluster, Redis, SentinelConnector, type ClusterOptions, type RedisOptions } from 'ioredis';
import { backoff } from '../../kernel/backoff.js';
import { inTime } from '../../kernel/turn.js';
import { StoreUnavailable } from '../ports/event-store.js';
import type { Logger } from '../../kernel/logger.js';
import { StartError } from '../../kernel/start-error.js';

/**
 * The only file that connects to Redis: one server, the master that Sentinels name, or a Redis Cluster, with or without
 * TLS. When it is unavailable, commands wait for up to a second, then fail at once with `StoreUnavailable` until it is
 * back, so that no commands accumulate; the connection recovers by itself. Nothing logged or thrown contains a credential.
 */

/** No answer within this: the outcome is unknown. */
const COMMAND_TIMEOUT_MS = 2_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** A socket with pending answers that is silent for this long is dead: a stalled server or a broken network. */
const SILENCE_MS = 3_000;
/** How long commands wait for a lost connection; after that they fail at once. */
const PATIENCE_MS = 1_000;
/** How long the first connection may take. */
const START_MS = 5_000;
/** Replies that say "not now": loading, failing over, full, read-only, without its disk, too many connections. */
const NOT_NOW =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|OOM|MISCONF|NOREPLICAS|UNKILLABLE|ERR max number of clients)\b/;
/** Replies of a server that has become a replica, also to a script, and to a command that waited for a job. */
export const DEMOTED = /(?:^|-)(?:READONLY|MASTERDOWN|UNBLOCKED force)\b/;
const REPLICA = 'it is a replica';
const LEAST_VERSION = [6, 2] as const;
const NO_EVICTION = 'noeviction';
/** How often to check whether the server may evict keys, or has become a replica, ms. */
export const CHECK_MS = 1_000;
/** For how long a server counts as full after it was: what it holds varies a little from check to check, ms. */
const FULL_MS = 5_000;

export interface RedisTarget {
  nodes: { host: string; port: number }[];
  cluster: boolean;
  /** The name of the master, if the nodes are Sentinels. */
  sentinel?: string;
  /** Credentials, database and TLS; no address. */
  options: RedisOptions;
}

/**
 * `redis://[user:password@]host[:port][,host:port …][/database][?cluster=true]`, `rediss://` for TLS. Several hosts, or
 * `cluster=true`, mean a Redis Cluster; the hosts are those that are asked for its nodes. With `sentinel=<name>` the hosts
 * are Sentinels, which are asked for the master of this name.
 * @throws StartError that does not repeat the URL, since it may contain a password
 */
export function parseRedisUrl(url: string): RedisTarget {
  const parts =
    /^(rediss?):\/\/(?:(?:([^@/:]*):)?([^@/]*)@)?([^/?@]+)(?:\/(\d{0,3}))?(?:\?(?:cluster=(true|false)|sentinel=([\w.-]+)))?$/.exec(
      url,
    );
  const nodes = parts?.[4]!.split(',').map((address) => /^(\[[0-9a-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/i.exec(address));
  if (!parts || !nodes?.every((node) => node !== null && Number(node[2] ?? 6379) <= 65_535)) {
    throw new StartError(
      'REDIS_URL must have the form redis://[user:password@]host:port[,host:port][/database], then ?cluster=true for a Redis Cluster or ?sentinel=<name of the master> for Sentinels, or rediss:// for TLS.',
    );
  }
  const [, scheme, user, password, , database, clustered, sentinel] = parts;
  const cluster = clustered === undefined ? nodes.length > 1 && sentinel === undefined : clustered === 'true';
  const db = Number(database ?? 0);
  if (cluster && db !== 0) throw new StartError('REDIS_URL names a database, which a Redis Cluster does not have.');
  if (!cluster && nodes.length > 1 && sentinel === undefined) {
    throw new StartError('REDIS_URL names several hosts, but no Redis Cluster.');
  }
  const options: RedisOptions = { db };
  if (scheme === 'rediss') options.tls = {};
  if (password !== undefined) {
    try {
      if (user) options.username = decodeURIComponent(user);
      options.password = decodeURIComponent(password);
    } catch {
      throw new StartError('REDIS_URL contains credentials that are not properly percent-encoded.');
    }
  }
  const port = sentinel === undefined ? 6379 : 26_379;
  return {
    nodes: nodes.map((node) => ({ host: node![1]!.replace(/^\[|\]$/g, ''), port: Number(node![2] ?? port) })),
    cluster,
    ...(sentinel !== undefined && { sentinel }),
    options,
  };
}

/** The address for messages, without credentials. */
function describe({ nodes, sentinel }: RedisTarget): string {
  const master = sentinel === undefined ? '' : `master ${sentinel} of `;
  return (
    master + nodes.map(({ host, port }) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`)).join(', ')
  );
}

/** A client of the library, not connected yet, for BullMQ. Everything else uses `RedisConnection`. */
export function createRedis(target: RedisTarget, own: RedisOptions = {}): Redis | Cluster {
  const options: RedisOptions = {
    ...target.options,
    connectTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: COMMAND_TIMEOUT_MS,
    socketTimeout: SILENCE_MS,
    // Each command has its own timeout.
    maxRetriesPerRequest: null,
    // The commands of one turn of the event loop are sent together, and the next ones after these are answered.
    enableAutoPipelining: true,
    disableClientInfo: true,
    lazyConnect: true,
    retryStrategy: (failures) => backoff(failures),
    // To the master, by its name.
    reconnectOnError: ({ message }) => DEMOTED.test(message),
    ...own,
  };
  if (target.sentinel !== undefined) {
    const secure: RedisOptions = options.tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {};
    const sentinels = { sentinels: target.nodes, name: target.sentinel, failoverDetector: true, ...secure };
    return new Redis({ ...sentinels, Connector: ReconnectingConnector, ...options });
  }
  if (!target.cluster) return new Redis({ ...target.nodes[0]!, Connector: MasterConnector, ...options });
  const { retryStrategy: _, reconnectOnError: __, lazyConnect, enableAutoPipelining, ...redisOptions } = options;
  const cluster: ClusterOptions = {
    redisOptions,
    lazyConnect,
    enableAutoPipelining,
    clusterRetryStrategy: (failures) => backoff(failures),
    slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
    slotsRefreshInterval: 5_000,
  };
  // A certificate names a host; its IP address would not match.
  if (redisOptions.tls) cluster.dnsLookup = (address, done) => done(null, address);
  return new Cluster(target.nodes, cluster);
}

/**
 * Finds the master through Sentinels. The detector of the last connection must not tell it of the failover meanwhile: the
 * library would take that for a disconnect by its user, and end the client for good.
 */
class ReconnectingConnector extends SentinelConnector {
  constructor(options: unknown) {
    super(options as ConstructorParameters<typeof SentinelConnector>[0]);
  }

  override connect(...args: Parameters<SentinelConnector['connect']>): ReturnType<SentinelConnector['connect']> {
    this.disconnect();
    return super.connect(...args);
  }
}

/** Connects to one server. A replica is not ready for commands: its name is looked up again until it leads to a master. */
class MasterConnector extends AbstractConnector {
  private emit: (type: string, error: Error) => void = () => undefined;

  constructor(private readonly options: unknown) {
    super((options as RedisOptions).disconnectTimeout!);
  }

  override async connect(emit: typeof this.emit): ReturnType<AbstractConnector['connect']> {
    const { host, port, tls } = this.options as { host: string; port: number; tls?: object };
    this.emit = emit;
    this.connecting = true;
    this.stream = tls ? connectSecurely({ host, port, ...tls }) : connect({ host, port });
    this.stream.once('error', (error) => (this.firstError = error));
    return this.stream;
  }

  override check({ role }: { role?: string }): boolean {
    if (role === 'slave') this.emit('error', new Error(REPLICA));
    return role !== 'slave';
  }
}

/** Leaves a server that has become a replica: what it answers may be old. A Redis Cluster moves its masters by itself. */
export async function leaveReplica(client: Redis | Cluster): Promise<void> {
  if (client instanceof Cluster || client.status !== 'ready') return;
  if (/^role:slave/m.test(await client.info('replication'))) {
    client.emit('error', new Error(REPLICA));
    client.disconnect(true);
  }
}

/** One connection to Redis (a cluster: one to each node). */
export class RedisConnection {
  /** The number of reconnects. */
  reconnections = 0;
  private unavailableSince: number | undefined;
  /** Whether the last check got an answer: a server that stands still keeps its connections. */
  private isAnswering = true;
  /** Whether it refuses writes for lack of memory. */
  private isFull = false;
  private lastFull = -Infinity;
  private closed = false;
  /** Why no answer of this server can be trusted now. */
  private refusal: StoreUnavailable | undefined;
  private lastError: string | undefined;
  private timer: NodeJS.Timeout | undefined;

  /** @throws StartError if it does not respond, refuses the credentials, is too old, or may evict keys */
  static async open(url: string, logger?: Logger): Promise<RedisConnection> {
    const target = parseRedisUrl(url);
    const client = createRedis(target);
    const connection = new RedisConnection(client, describe(target), logger);
    try {
      await connection.start();
      await connection.checkAtStart();
      connection.timer = setInterval(() => void connection.checkAgain(), CHECK_MS).unref();
    } catch (error) {
      client.disconnect();
      throw error;
    }
    return connection;
  }

  private constructor(
    private readonly client: Redis | Cluster,
    private readonly where: string,
    private readonly logger: Logger | undefined,
  ) {
    client.on('error', (error: Error) => (this.lastError = reasonOf(error)));
    client.on('close', () => {
      if (this.unavailableSince === undefined && !this.closed)
        logger?.warn(`Redis at ${where} is unavailable: ${this.lastError ?? 'the connection was closed'}`);
      this.unavailableSince ??= performance.now();
    });
    client.on('ready', () => {
      if (this.unavailableSince === undefined) return;
      logger?.warn(`Redis at ${where} is back`);
      this.lastError = undefined;
      this.unavailableSince = undefined;
      this.reconnections++;
      void this.checkAgain();
    });
  }

  /** Also while it answers, if what needs it is refused. */
  get isUnavailable(): boolean {
    return this.unavailableSince !== undefined || !this.isAnswering || this.isFull || this.refusal !== undefined;
  }

  /** Waits for the answers of sent commands, if the server responds. */
  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    clearInterval(this.timer);
    if (this.client.status === 'ready') await this.client.quit().catch(() => undefined);
    this.client.disconnect();
  }

  /** Any command of the library. @throws StoreUnavailable when there is no definite answer */
  async send<T>(command: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    if (this.closed) throw new StoreUnavailable(`the connection to Redis at ${this.where} was closed`);
    if (this.unavailableSince !== undefined && performance.now() - this.unavailableSince > PATIENCE_MS) {
      throw new StoreUnavailable(`Redis at ${this.where} is unavailable`);
    }
    if (this.refusal) throw this.refusal;
    try {
      // The library does not count the time that a command waits for a node of a cluster.
      const answer = command(this.client);
      return await (this.client instanceof Cluster ? inTime(answer, COMMAND_TIMEOUT_MS, 'Command timed out') : answer);
    } catch (error) {
      throw this.failure(error as Error);
    }
  }

  /** Without the library's error as its cause, since that contains the command with its arguments. */
  private failure(error: Error): Error {
    const reason = reasonOf(error);
    if (error.name === 'ReplyError' && !NOT_NOW.test(error.message)) {
      return new Error(`Redis at ${this.where} refused a command: ${reason}`);
    }
    return new StoreUnavailable(`Redis at ${this.where} gives no answer: ${reason}`);
  }

  private async start(): Promise<void> {
    try {
      await inTime(this.client.connect(), START_MS, `no answer within ${START_MS / 1000} s`);
    } catch (error) {
      const reason = this.lastError ?? reasonOf(error as Error);
      throw new StartError(`Redis at ${this.where} (REDIS_URL) cannot be used: ${reason}.`);
    }
  }

  /** The server information of every master. */
  private reports(): Promise<string[]> {
    const masters = this.client instanceof Cluster ? this.client.nodes('master') : [this.client];
    return inTime(Promise.all(masters.map((node) => node.info())), COMMAND_TIMEOUT_MS);
  }

  /** Checks whether the server is still a master, is full, and may evict keys. */
  private async checkAgain(): Promise<void> {
    if (this.unavailableSince !== undefined || this.closed) return;
    let reports: string[];
    try {
      await inTime(leaveReplica(this.client), COMMAND_TIMEOUT_MS);
      reports = await this.reports();
    } catch {
      this.isAnswering = false;
      return; // The next check, or the next connection, will show more.
    }
    this.isAnswering = true;
    if (this.unavailableSince !== undefined || reports.length === 0) return;
    this.noteFull(reports.some(isFull));
    this.refuseEviction(reports.map(policyOf).find((policy) => policy !== NO_EVICTION));
  }

  private noteFull(isFullNow: boolean): void {
    if (isFullNow) this.lastFull = performance.now();
    const isFull = performance.now() - this.lastFull < FULL_MS;
    if (isFull === this.isFull) return;
    this.isFull = isFull;
    this.logger?.warn(`Redis at ${this.where} ${isFull ? 'is full, and takes no writes' : 'takes writes again'}`);
  }

  /** Refuses all answers of a server that may evict keys. */
  private refuseEviction(policy: string | undefined): void {
    if (policy === undefined) {
      if (this.refusal) this.logger?.warn(`Redis at ${this.where} no longer evicts keys`);
      this.refusal = undefined;
    } else if (!this.refusal) {
      const message = `Redis at ${this.where} may drop jobs: its maxmemory-policy is ${policy}`;
      this.refusal = new StoreUnavailable(message);
      this.logger?.error(`${message}. Nothing is read from it until the policy is ${NO_EVICTION}.`);
    }
  }

  /** Any policy other than noeviction silently drops jobs once memory is short. */
  private async checkAtStart(): Promise<void> {
    const reports = await this.reports().catch((error: unknown) => {
      if (/^NOPERM\b/.test(reasonOf(error as Error))) {
        throw new StartError(
          `Redis at ${this.where}: the user of REDIS_URL may not run INFO; docs/cluster.md lists its permissions.`,
        );
      }
      throw this.failure(error as Error);
    });
    for (const report of reports) {
      const version = /^redis_version:(\S+)/m.exec(report)?.[1] ?? '0';
      const [major = 0, minor = 0] = version.split('.').map(Number);
      if (major < LEAST_VERSION[0] || (major === LEAST_VERSION[0] && minor < LEAST_VERSION[1])) {
        throw new StartError(
          `Redis at ${this.where} has version ${version}; at least ${LEAST_VERSION.join('.')} is required.`,
        );
      }
      const policy = policyOf(report);
      if (policy !== NO_EVICTION) {
        throw new StartError(
          `Redis at ${this.where} has the maxmemory-policy ${policy}, which may drop jobs: set it to ${NO_EVICTION}.`,
        );
      }
    }
  }
}

function policyOf(report: string): string {
  return /^maxmemory_policy:(\S+)/m.exec(report)?.[1] ?? 'unknown';
}

/** Whether a server that does not evict has used the memory that it may use, as it counts that itself. */
function isFull(report: string): boolean {
  const bytes = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(report)?.[1] ?? 0);
  const most = bytes('maxmemory');
  return most > 0 && bytes('used_memory') - bytes('mem_not_counted_for_evict') > most;
}

/** The reason of a failure, without the arguments of the command. */
function reasonOf(error: Error): string {
  const { message, code, lastNodeError, errors } = error as NodeJS.ErrnoException & {
    lastNodeError?: Error;
    errors?: Error[];
  };
  const inner = lastNodeError ?? errors?.[0];
  if (inner) return reasonOf(inner);
  return (message || code || 'unknown').replace(/\.$/, '');
}
