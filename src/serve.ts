import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { INestApplication, Type } from '@nestjs/common';
import type { FastifyInstance } from 'fastify';
import { AppModule } from './app/app.module.js';
import { projectionsFor } from './read-side/all-projections.js';
import type { Config } from './kernel/config.js';
import { Writer } from './commands/writer.js';
import { ApiKeys } from './credentials/api-keys.js';
import { SignedCheckpoints } from './credentials/log-key.js';
import { createApp } from './app/application.js';
import { Checkpointer } from './features/checkpoints/checkpointer.js';
import { beginLog } from './features/lenses/new-log.js';
import { Health } from './app/health.js';
import type { Logger } from './kernel/logger.js';
import { StoreMetrics } from './app/store-metrics.js';
import { refuseOtherLog } from './read-side/manifest.js';
import { Projector } from './read-side/projector.js';
import { Views } from './read-side/views.js';
import { listenFailure, prepareFolder, sentenceOf } from './app/start-failure.js';
import type { Host } from './cli/cli.js';
import { isServed } from './cli/owner-client.js';
import { type OwnerServer, listenForCommands } from './cli/owner-server.js';
import { FolderOwned, Ownership, describeOwner } from './stores/owner.js';
import { closeStores, openProfile, type Stores } from './stores/open.js';
import type { EventStore } from './stores/ports/event-store.js';
import { openTracing, tracedStores } from './app/tracing.js';
import { welcome } from './app/welcome.js';

const SHUTDOWN_MS = 10_000;
/** How often a folder that a command owns is looked at, and how often that is told, ms. */
const LOOK_MS = 100;
const WAITING_EVERY_MS = 10_000;
/** How long after the signal a log that is unavailable is waited for. */
const ABANDON_MS = 4_000;

/** Closes what has been opened; the latest comes last. */
const opened: (() => Promise<unknown>)[] = [];

/** Closes in reverse order. Work under way is finished first. */
export async function close(logger?: Logger): Promise<void> {
  setTimeout(() => {
    logger?.error(`not stopped within ${SHUTDOWN_MS} ms; exiting`);
    process.exit(1);
  }, SHUTDOWN_MS).unref();
  for (const end of opened.splice(0).reverse()) await end();
}

/** @throws StartError for a folder that cannot be used */
function prepareData({ data, profile, ...config }: Config, logger: Logger): void {
  try {
    prepareFolder(data);
  } catch (error) {
    if (profile === 'embedded') throw error;
    // It has only the marker of the log and files of builds: a process can serve without.
    logger.warn(
      `${sentenceOf(error)} No marker is kept: a log that lost events will not be refused at the next start.`,
    );
  }
  if (profile === 'embedded' && (config.eventStoreUrl ?? config.databaseUrl ?? config.redisUrl) !== undefined) {
    logger.warn(
      `EVENTSTORE_URL, CREDENCE_DATABASE_URL and REDIS_URL are not used: CREDENCE_PROFILE is embedded, and the log is in ${data}`,
    );
  }
}

function checkpointsOf(app: INestApplication, { eventStore }: Stores, projector: Projector, logger: Logger) {
  const applies = () => projector.applies('log_tree');
  const signed = app.get(SignedCheckpoints);
  return new Checkpointer(eventStore, app.get(Views), app.get(Writer), signed, applies, logger);
}

/** Opens the stores and serves. @param isExample whether the folder is filled with example data first */
export async function serve(config: Config, logger: Logger, isExample: boolean): Promise<void> {
  const tracing = await openTracing(config, logger);
  if (tracing) opened.push(() => tracing.stop());
  const metrics = new StoreMetrics();
  prepareData(config, logger);
  const owner = config.profile === 'embedded' ? await ownFolder(config.data, logger) : undefined;
  const example = isExample ? (await import('./cli/example.js')).openExample(config) : undefined;
  const isWorker = config.has('worker');
  const opening = await openProfile(config, Date.now, { logger, onCommit: metrics.observe, repairs: isWorker });
  let projector: Projector | undefined;
  opened.push(() => closeStores(opening, projector));
  const stores = tracing ? tracedStores(opening, tracing) : opening;
  const { eventStore, readModels } = stores;
  refuseOtherLog(await readModels.manifest(), await readModels.generations(), eventStore.logId);
  await beginLog(eventStore, Date.now);
  if (isWorker) {
    projector = new Projector(projectionsFor(config.modules), eventStore, readModels, logger, {
      retained: config.retainedGenerations,
      ...(config.freezeMinutes > 0 && { keepUpMs: config.freezeMinutes * 60_000 }),
    });
    await projector.start();
  }

  const app = await createApp(AppModule.register(config, stores, Date.now), config, logger, tracing);
  opened.push(() => app.close());
  if (owner) opened.push(() => owner.close());
  // The features have registered their job handlers by now.
  if (isWorker) await stores.jobs.start();
  const checkpointer = projector && checkpointsOf(app, stores, projector, logger);
  if (checkpointer) opened.push(() => checkpointer.stop());
  metrics.register(app, stores, projector, checkpointer);
  const host: Host = { config, stores, get: ((token: Type) => app.get(token, { strict: false })) as Host['get'] };
  const examples = await example?.(host);
  const server = app.getHttpAdapter().getInstance() as FastifyInstance;
  // Nest's own listen would log a failure before it throws.
  await server
    .listen({ host: config.host, port: config.port })
    .catch((error: unknown) => Promise.reject(listenFailure(error, config)));
  stopOnSignals(app, eventStore, logger);
  owner?.start(host);

  const { createdDevelopmentKey } = app.get(ApiKeys);
  process.stdout.write(`${welcome(config, urlOf(config, server), createdDevelopmentKey, examples)}\n`);
}

/** Owns the folder, once no command does, and listens for commands. @throws FolderOwned if another server owns it */
async function ownFolder(data: string, logger: Logger): Promise<OwnerServer> {
  for (let told = -Infinity; ; await sleep(LOOK_MS)) {
    try {
      const ownership = Ownership.take(data, 'serve');
      opened.push(() => ownership.close());
      return await listenForCommands(data);
    } catch (error) {
      if (!(error instanceof FolderOwned) || (await isServed(data))) throw error;
      if (performance.now() - told < WAITING_EVERY_MS) continue;
      told = performance.now();
      logger.warn(`waiting until ${data} is free: ${describeOwner(error.owner)} works on it`);
    }
  }
}

function stopOnSignals(app: INestApplication, eventStore: EventStore, logger: Logger): void {
  let stopping = false;
  const stop = async (signal: string) => {
    if (stopping) return;
    stopping = true;
    logger.info('stopping', { signal });
    app.get(Health).add('shutdown', () => ({ ok: false, detail: 'the service is stopping' }));
    setTimeout(() => eventStore.abandon?.(), ABANDON_MS).unref();
    await close(logger);
    logger.info('stopped');
    // A request to a collector of traces, or timers of BullMQ where Redis gives no answer, would keep it alive.
    process.exit(0);
  };
  // In place of what ends the start (boot.ts). A second signal ends the process at once.
  for (const signal of ['SIGTERM', 'SIGINT']) process.removeAllListeners(signal).once(signal, stop);
}

function urlOf({ host, port }: Config, server: FastifyInstance): string {
  const bound = (server.addresses()[0] as AddressInfo | undefined)?.port ?? port;
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${local.includes(':') ? `[${local}]` : local}:${bound}`;
}
