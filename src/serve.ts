import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { AppModule, projectionsFor } from './app/app.module.js';
import { type Config, ConfigError, loadConfig } from './kernel/config.js';
import { ApiKeys, hasDevelopmentKey } from './credentials/api-keys.js';
import { createApp } from './app/application.js';
import { beginLog } from './features/lenses/new-log.js';
import { Health } from './app/health.js';
import { Logger } from './kernel/logger.js';
import { StoreMetrics } from './app/store-metrics.js';
import { PROJECTIONS } from './read-side/all-projections.js';
import { refuseOtherLog } from './read-side/manifest.js';
import { Projector } from './read-side/projector.js';
import { SnapshotKeeper } from './read-side/snapshot-keeper.js';
import { listenFailure, prepareDataFolder, sentenceOf } from './app/start-failure.js';
import { closeStores, openProfile } from './stores/open.js';

const SHUTDOWN_MS = 10_000;

/** Closes what has been opened; the latest comes last. */
const opened: (() => Promise<unknown>)[] = [];

/** Closes in reverse order. Work under way is finished first. */
async function close(logger?: Logger): Promise<void> {
  setTimeout(() => {
    logger?.error(`not stopped within ${SHUTDOWN_MS} ms; exiting`);
    process.exit(1);
  }, SHUTDOWN_MS).unref();
  for (const end of opened.splice(0).reverse()) await end();
}

async function serve(config: Config, logger: Logger): Promise<void> {
  const metrics = new StoreMetrics();
  if (config.profile === 'embedded') prepareDataFolder(config.data);
  const stores = await openProfile(config, Date.now, {
    logger,
    onCommit: (commit) => metrics.observe(commit),
    repairs: config.has('worker'),
  });
  opened.push(() => closeStores(stores));
  const { eventStore, readModels } = stores;
  refuseOtherLog(await readModels.manifest(), await readModels.generations(), eventStore.logId);
  await beginLog(eventStore, Date.now);
  const wanted = projectionsFor(config.modules);
  const projections = PROJECTIONS.filter(({ name }) => wanted.has(name));
  const snapshots = SnapshotKeeper.of(config, eventStore, readModels, logger);
  const projector = config.has('worker')
    ? new Projector(projections, eventStore, readModels, logger, {
        retained: config.retainedGenerations,
        ...(config.freezeMinutes > 0 && { keepUpMs: config.freezeMinutes * 60_000 }),
        snapshots,
      })
    : undefined;
  if (projector) opened.push(() => projector.stop());
  await projector?.start();

  const app = await createApp(AppModule.register(config, stores, Date.now), config, logger);
  opened.push(() => app.close());
  // The features have registered their job handlers by now.
  if (config.has('worker')) await stores.jobs.start();
  metrics.register(app, stores, projector);
  // Nest's own listen would log a failure before it throws.
  const server = app.getHttpAdapter().getInstance() as unknown as FastifyInstance;
  const { host, port } = config;
  await server.listen({ host, port }).catch((error: unknown) => Promise.reject(listenFailure(error, config)));

  let stopping = false;
  const stop = async (signal: string) => {
    if (stopping) return;
    stopping = true;
    logger.info('stopping', { signal });
    app.get(Health).add('shutdown', () => ({ ok: false, detail: 'the service is stopping' }));
    await close(logger);
    logger.info('stopped');
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);

  process.stdout.write(`${welcome(config, urlOf(config, server), app.get(ApiKeys))}\n`);
}

function urlOf({ host, port }: Config, server: FastifyInstance): string {
  const bound = (server.addresses()[0] as AddressInfo | undefined)?.port ?? port;
  const local = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${local.includes(':') ? `[${local}]` : local}:${bound}`;
}

/** What a new user needs first: the key, the documentation, and three commands to paste. */
function welcome(config: Config, url: string, keys: ApiKeys): string {
  if (!config.has('api')) return `Credence is running as a worker; health and metrics: ${url}`;
  const from = config.profile === 'embedded' ? config.data : 'EventStoreDB and Redis';
  const lines = [`Credence serves ${url} from ${from}`, `Documentation: ${url}/docs`];
  if (config.apiKeys !== undefined) return lines.join('\n');
  if (!hasDevelopmentKey(config)) return [...lines, 'API keys: `credence keys create`'].join('\n');
  const keyFile = join(config.data, 'dev-api-key');
  const { createdDevelopmentKey: created } = keys;
  if (created)
    lines.push(`Development key with every scope, shown only this once and stored in ${keyFile}: ${created}`);
  else lines.push(`Development key: in ${keyFile}`);
  const action = {
    tris_id: 'tris:alice',
    action_type: 'loan_repayment',
    category: 'financial',
    criticality: 'high',
    platform_id: 'lender',
  };
  return [
    ...lines,
    '',
    'Relay an action, read the score, see its history:',
    `  curl -X POST ${url}/api/decision-relay -H "X-API-Key: $(cat ${shellWord(keyFile)})" -H 'Content-Type: application/json' -d '${JSON.stringify(action)}'`,
    `  curl ${url}/v1/disc/score/tris:alice`,
    `  curl ${url}/v1/disc/score/tris:alice/history`,
  ].join('\n');
}

function shellWord(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

try {
  const config = loadConfig();
  await serve(config, new Logger(config.logLevel));
} catch (error) {
  const isConfig = error instanceof ConfigError;
  const sentence = isConfig ? error.message : sentenceOf(error);
  process.stderr.write(`credence: ${sentence ?? (error as Error).stack}\n`);
  // A second failure would hide the reason.
  await close().catch(() => undefined);
  process.exit(isConfig ? 2 : 1);
}
