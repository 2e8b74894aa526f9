import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { AppModule } from '../../src/app/app.module.js';
import { loadConfig } from '../../src/kernel/config.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { ApiKeys } from '../../src/credentials/api-keys.js';
import { createApp } from '../../src/app/application.js';
import { LmdbJobs } from '../../src/stores/lmdb/lmdb-jobs.js';
import { DividedKeyValue } from '../../src/stores/divided-key-value.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { Logger } from '../../src/kernel/logger.js';
import { StoreMetrics } from '../../src/app/store-metrics.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Projector } from '../../src/read-side/projector.js';
import { PostgresKeyValue } from '../../src/stores/postgres/postgres-key-value.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import { type Stores, closeStores } from '../../src/stores/open.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Answer, send } from '../http/client.js';

/** The service with its read models in a PostgreSQL, and all else in a folder. */
export interface PostgresService {
  app: Awaited<ReturnType<typeof createApp>>;
  stores: Stores;
  /** Folder of the log. */
  log: string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** Relays an action for an identity; answers the position to wait for. */
  relay(trisId: string): Promise<string>;
  /** Sends a command; answers the position to wait for. */
  post(path: string, body: unknown): Promise<string>;
  /** Sends a request with a key of every scope, which has to succeed. */
  send(method: string, path: string, body?: unknown): Promise<Answer>;
  /** What it has logged, from warnings on. */
  lines: string[];
  /** Stops applying the log in this process, and begins again with the function answered. */
  stopProjector(): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** @param options keepsState: what must outlast a cache is in PostgreSQL, too, and jobs run */
export async function startPostgresService(url: string, { keepsState = false } = {}): Promise<PostgresService> {
  const folder = await temporaryFolder();
  const config = loadConfig({
    CREDENCE_DATA: folder.path,
    CREDENCE_PORT: '0',
    CREDENCE_RATE_LIMIT: '0',
    CREDENCE_WEBHOOK_LOOPBACK: 'on',
  });
  const lines: string[] = [];
  const logger = new Logger('warn', (line) => void lines.push(line));
  const state = join(folder.path, 'state');
  const eventStore = await LmdbEventStore.open(join(folder.path, 'log'));
  const readModels = await PostgresReadModels.open({ url, folder: join(folder.path, 'build'), logger });
  const cache = await LmdbKeyValue.open(state, { clock: Date.now });
  const stores: Stores = {
    eventStore,
    readModels,
    keyValue: keepsState
      ? new DividedKeyValue(new PostgresKeyValue(readModels.main, eventStore.logId, Date.now), cache)
      : cache,
    jobs: await LmdbJobs.open(state, { clock: Date.now }),
  };
  const project = async () => {
    const projector = new Projector(PROJECTIONS, eventStore, readModels, logger);
    await projector.start();
    return projector;
  };
  let projector = await project();
  const app = await createApp(AppModule.register(config, stores, Date.now), config, logger);
  new StoreMetrics().register(app, stores, projector);
  await app.listen(0, '127.0.0.1');
  if (keepsState) await stores.jobs.start();
  const { port } = app.getHttpServer().address() as AddressInfo;
  const key = app.get(ApiKeys).createdDevelopmentKey!;
  const sendWithKey = async (method: string, path: string, body?: unknown) => {
    const headers = { 'x-api-key': key, ...(body !== undefined && { 'content-type': 'application/json' }) };
    const answer = await send(port, method, path, {
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (answer.status >= 300) throw new Error(answer.text);
    return answer;
  };
  const post = async (path: string, body: unknown) =>
    (await sendWithKey('POST', path, body)).headers['credence-position'] as string;
  return {
    app,
    stores,
    log: join(folder.path, 'log'),
    lines,
    get: (path, headers = {}) => send(port, 'GET', path, { headers }),
    relay: (tris_id) =>
      post('/api/decision-relay', {
        tris_id,
        action_type: 'swap',
        category: 'financial',
        criticality: 'high',
        platform_id: 'lender',
      }),
    post,
    send: sendWithKey,
    stopProjector: async () => {
      await projector.stop();
      return async () => void (projector = await project());
    },
    close: async () => {
      await app.close();
      await projector.stop().catch(() => undefined);
      await closeStores(stores);
      await folder.remove();
    },
  };
}
