import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../kernel/clock.js';
import type { Config, Profile } from '../kernel/config.js';
import { DividedKeyValue } from './divided-key-value.js';
import type { EventStore } from './ports/event-store.js';
import { LmdbEventStore, type LmdbEventStoreOptions } from './lmdb/lmdb-event-store.js';
import type { Jobs } from './ports/jobs.js';
import { LmdbJobs } from './lmdb/lmdb-jobs.js';
import type { KeyValue } from './ports/key-value.js';
import { LmdbKeyValue } from './lmdb/lmdb-key-value.js';
import type { Logger } from '../kernel/logger.js';
import { Ownership } from './owner.js';
import { LmdbReadModels } from './lmdb/lmdb-read-models.js';
import type { ReadModels } from './ports/read-models.js';
import { checkDatabases } from './lmdb/check-databases.js';

/** The four ports, open. */
export interface Stores {
  eventStore: EventStore;
  readModels: ReadModels;
  keyValue: KeyValue;
  jobs: Jobs;
  /** Of the data folder. Embedded stores only. */
  ownership?: Ownership;
  /** By server: whether it is unavailable, and how often it was connected to again. Of the cluster profile only. */
  connections?: () => Record<string, { isUnavailable: boolean; reconnections: number }>;
  /** How far the clock of this process is ahead of that of PostgreSQL, ms; negative: behind. Of the cluster profile only. */
  clockSkew?: () => number;
}

interface OpenOptions {
  logger?: Logger;
  onCommit?: LmdbEventStoreOptions['onCommit'];
  /** Called with the warnings of a log on a server; default: they are logged. */
  onWarning?: (message: string) => void;
  /** Calls of a log on a server wait until there is a definite answer. */
  waits?: boolean;
  /** A server without a log is refused. */
  mustExist?: boolean;
  /** Checks the embedded log's index of streams. */
  checksIndex?: boolean;
  /**
   * Checks the embedded log's index of streams and repairs it. Deletes embedded read models whose list of generations is
   * damaged, to be folded again.
   */
  repairs?: boolean;
}
type Where = Pick<Config, 'profile' | 'data' | 'databaseUrl' | 'eventStoreUrl' | 'redisUrl'>;

/** Opens the adapters of the profile. @throws StartError if a store cannot be used */
export function openProfile(where: Where, clock: Clock, options: OpenOptions = {}): Promise<Stores> {
  return where.profile === 'embedded' ? openStores(where.data, clock, options) : openCluster(where, clock, options);
}

/**
 * Opens the adapters of the embedded profile. The log, each generation of read models, and short-lived state live in
 * separate environments, so that a rebuild never slows an append down (docs/decisions/0006).
 * @throws StartError if a store cannot be used
 */
export async function openStores(
  data: string,
  clock: Clock,
  { logger, onCommit, checksIndex, repairs }: OpenOptions = {},
): Promise<Stores> {
  const state = join(data, 'state');
  const onWarning = (message: string) => logger?.error(message);
  const logOptions = { onCommit, onWarning, checksIndex: checksIndex || repairs };
  const onGivenUp = (what: string) =>
    logger?.error(`read_models_damaged: ${what}. All read models are deleted and built again from the log.`);
  return orCloseAll(async (open) => {
    const ownership = await open(Ownership.take(data));
    await checkDatabases(data);
    return {
      ownership,
      eventStore: await open(LmdbEventStore.open(join(data, 'log'), logOptions)),
      readModels: await open(LmdbReadModels.open(join(data, 'views'), { clock, ...(repairs && { onGivenUp }) })),
      keyValue: await open(LmdbKeyValue.open(state, { clock, onWarning })),
      jobs: await open(LmdbJobs.open(state, { clock })),
    };
  });
}

/** Opens the adapters of the cluster profile. The stores are shared by several processes. */
async function openCluster(
  { data, databaseUrl, eventStoreUrl, redisUrl }: Where,
  clock: Clock,
  { logger, onCommit, onWarning = (message) => logger?.warn(message), waits, mustExist }: OpenOptions,
): Promise<Stores> {
  const { EventStoreDbEventStore, PostgresReadModels, PostgresKeyValue, RedisKeyValue, BullmqJobs } =
    await clusterAdapters();
  const marker = join(data, 'eventstore.marker.json');
  const url = redisUrl!;
  return orCloseAll(async (open) => {
    const eventStore = await open(
      EventStoreDbEventStore.open({ url: eventStoreUrl!, marker, onCommit, onWarning, waits, mustExist }),
    );
    // Named after this log, so that data of another cluster in this Redis, jobs above all, is never taken for our own.
    const { logId } = eventStore;
    const readModels = await open(
      PostgresReadModels.open({
        url: databaseUrl!,
        folder: join(data, 'build'),
        ...(logger && { logger, ownClock: clock }),
      }),
    );
    const kept = await open(new PostgresKeyValue(readModels.main, logId, clock));
    const cache = await open(RedisKeyValue.open({ url, clock, logger, prefix: `credence:${logId}` }));
    return {
      eventStore,
      readModels,
      connections: () => ({
        eventstoredb: { isUnavailable: eventStore.connection.isUnavailable, reconnections: eventStore.connections },
        postgresql: readModels.main,
        redis: cache.redis,
      }),
      clockSkew: () => readModels.comparison?.skew ?? 0,
      keyValue: new DividedKeyValue(kept, cache),
      jobs: await open(new BullmqJobs(url, { logger, prefix: `{credence-jobs:${logId}}` })),
    };
  });
}

interface Closable {
  close(): Promise<void>;
}

/** Opens stores. If one of them fails, closes those before it, whose connections would keep the process alive. */
async function orCloseAll<S>(
  openAll: (open: <T extends Closable>(store: T | Promise<T>) => Promise<T>) => Promise<S>,
): Promise<S> {
  const opened: Closable[] = [];
  try {
    return await openAll(async (store) => {
      opened.push(await store);
      return store;
    });
  } catch (error) {
    // The ownership of the folder, which was taken first, ends last.
    for (const store of opened.reverse()) await store.close();
    throw error;
  }
}

/** Imported when needed: these libraries take most of a second to load, which would delay the embedded profile. */
async function clusterAdapters() {
  const [eventStore, readModels, kept, cache, jobs] = await Promise.all([
    import('./eventstoredb/eventstoredb-event-store.js'),
    import('./postgres/postgres-read-models.js'),
    import('./postgres/postgres-key-value.js'),
    import('./redis/redis-key-value.js'),
    import('./redis/bullmq-jobs.js'),
  ]);
  return { ...eventStore, ...readModels, ...kept, ...cache, ...jobs };
}

/** Opens only the log of a profile; its calls wait until there is a definite answer. @throws StartError */
export async function openLog(profile: Profile, where: Where): Promise<{ log: EventStore; close(): Promise<void> }> {
  if (profile === 'cluster') {
    const { EventStoreDbEventStore } = await clusterAdapters();
    const log = await EventStoreDbEventStore.open({ url: where.eventStoreUrl!, waits: true });
    return { log, close: () => log.close() };
  }
  return orCloseAll(async (open) => {
    const ownership = await open(Ownership.take(where.data));
    await checkDatabases(where.data);
    const log = await open(LmdbEventStore.open(join(where.data, 'log')));
    return { log, close: () => log.close().finally(() => ownership.close()) };
  });
}

/** Whether the folder contains a log: a command that only reads must not create one. @throws if that cannot be seen */
export function storesExist(data: string): boolean {
  return statSync(join(data, 'log', 'data.mdb'), { throwIfNoEntry: false }) !== undefined;
}

/**
 * Closes everything, the log last.
 * @param projector that applies the log to the read models, if this process has one
 */
export async function closeStores(
  { eventStore, readModels, keyValue, jobs, ownership }: Stores,
  projector?: { stop(): Promise<void> },
): Promise<void> {
  // Together, since each may wait some seconds for a server that gives no answers.
  await Promise.all([projector?.stop(), jobs.close()]);
  await Promise.all([keyValue.close(), readModels.close()]);
  await eventStore.close();
  await ownership?.close();
}
