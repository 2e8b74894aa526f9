import { writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { AppModule } from '../../src/app/app.module.js';
import { projectionsFor } from '../../src/read-side/all-projections.js';
import { type Config, loadConfig } from '../../src/kernel/config.js';
import { ApiKeys } from '../../src/credentials/api-keys.js';
import { createApp } from '../../src/app/application.js';
import { formatPosition } from '../../src/kernel/positions.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { Logger } from '../../src/kernel/logger.js';
import { Projector } from '../../src/read-side/projector.js';
import { type Stores, closeStores, openStores } from '../../src/stores/open.js';
import { becomes } from '../contracts/harness.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Answer, send } from '../http/client.js';
import { configuration } from './configuration.js';

/** The whole service in this process, on a free port and a folder of its own. */
export interface Service {
  app: Awaited<ReturnType<typeof createApp>>;
  stores: Stores;
  config: Config;
  port: number;
  /** The development key: every scope, no organization. */
  key: string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** With the development key unless the headers carry another. */
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  delete(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** Lets the read models fall behind, until the function answered is called. */
  holdReadModels(): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

/** Headers of a read that must have seen all of the log. */
export async function seen({ stores: { eventStore } }: Service): Promise<Record<string, string>> {
  return { 'credence-min-position': formatPosition(eventStore.logId, await eventStore.head()) };
}

/** Waits until the read models have applied all of the log. */
export async function applied(service: Service): Promise<void> {
  await service.get('/v1/disc/score/tris:none', await seen(service));
}

/** A key whose secret is its id. */
export interface TestKey {
  id: string;
  scopes: readonly string[];
  organization?: string;
}

/** The header that sends the key with this id. */
export const as = (id: string) => ({ 'x-api-key': id });

/** A service that knows these keys, and no development key. */
export async function startServiceWithKeys(
  keys: readonly TestKey[],
  env: Record<string, string> = {},
  clock = Date.now,
): Promise<Service> {
  const folder = await temporaryFolder();
  const file = join(folder.path, 'keys.json');
  await writeFile(file, JSON.stringify(keys.map((key) => ({ ...key, sha256: sha256Hex(key.id) }))));
  const service = await startService({ ...env, CREDENCE_API_KEYS: file }, clock);
  const close = async () => {
    await service.close();
    await folder.remove();
  };
  return { ...service, close };
}

/**
 * @param clock of the handlers and the short-lived state; access tokens and API keys go by the real one
 * @param open the stores, which are embedded ones unless a test has others
 */
export async function startService(
  env: Record<string, string> = {},
  clock = Date.now,
  open = ({ data }: Config) => openStores(data, clock),
): Promise<Service> {
  const folder = await temporaryFolder();
  const config = loadConfig({ CREDENCE_DATA: folder.path, CREDENCE_PORT: '0', CREDENCE_RATE_LIMIT: '0', ...env });
  const logger = new Logger('error');
  const stores = await open(config);
  const projections = projectionsFor(config.modules);
  const project = async () => {
    const projector = new Projector(projections, stores.eventStore, stores.readModels, logger);
    await projector.start();
    return projector;
  };
  let projector = await project();
  const app = await createApp(AppModule.register(config, stores, clock), config, logger);
  await stores.jobs.start();
  await app.listen(0, '127.0.0.1');
  await readModelsAreBuilt(stores);
  const { port } = app.getHttpServer().address() as AddressInfo;
  const key = app.get(ApiKeys).createdDevelopmentKey ?? '';
  const credential = (headers: Record<string, string>) => ({ ...(key && { 'x-api-key': key }), ...headers });
  return {
    app,
    stores,
    config,
    port,
    key,
    get: (path, headers = {}) => send(port, 'GET', path, { headers }),
    post: (path, body, headers = {}) =>
      send(port, 'POST', path, {
        headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...credential(headers) },
        body: body === undefined ? undefined : JSON.stringify(body),
      }),
    delete: (path, headers = {}) => send(port, 'DELETE', path, { headers: credential(headers) }),
    holdReadModels: async () => {
      await projector.stop();
      return async () => void (projector = await project());
    },
    close: async () => {
      await app.close();
      await projector.stop();
      await closeStores(stores);
      await folder.remove();
    },
  };
}

/** The first generation is built while the service listens already; until then its reads are refused. */
async function readModelsAreBuilt({ readModels }: Stores): Promise<void> {
  await becomes(
    () => readModels.generations(),
    (generations) => generations.length > 0 && generations.every(({ status }) => status !== 'building'),
  );
}

/** Relays actions one after the other; answers the position of the last, for `Credence-Min-Position`. */
export async function relay(
  service: Service,
  actions: readonly {
    tris_id: string;
    category: string;
    action_type: string;
    criticality: string;
    counterparty?: string;
  }[],
  headers?: Record<string, string>,
): Promise<string> {
  let position = '';
  for (const action of actions) {
    const answer = await service.post('/api/decision-relay', { platform_id: 'lender', ...action }, headers);
    if (answer.status !== 202) throw new Error(answer.text);
    position = answer.headers['credence-position'] as string;
  }
  return position;
}

type Criticality = 'Minimal' | 'Low' | 'Moderate' | 'High' | 'Critical';
const WEIGHTS: Record<Criticality, number> = { Minimal: 0.01, Low: 0.03, Moderate: 0.07, High: 0.1, Critical: 0.14 };

/** A policy as a client sends it; each input's weight is that of its criticality. */
export function policyBody(policyId: string, inputs: Record<string, Criticality>, trisOrg = 'tris:lender') {
  return {
    policy_id: policyId,
    tris_org: trisOrg,
    inputs: Object.entries(inputs).map(([metric, criticality]) => ({
      metric,
      criticality: criticality as string,
      weight: WEIGHTS[criticality],
    })),
    metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
  };
}

/** The same, with inputs of metrics that nobody acts on, so that it can be promoted for the platform. */
export function platformPolicy(policyId: string, inputs: Record<string, Criticality>): ReturnType<typeof policyBody> {
  const policy = policyBody(policyId, inputs);
  return { ...policy, inputs: configuration(policy.inputs) };
}
