import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/kernel/config.js';
import { SCOPES } from '../../src/credentials/caller.js';
import { issuerKeyFile } from '../../src/credentials/issuer-keys.js';
import { signingKeyFile } from '../../src/credentials/signing-keys.js';
import { type EventStored, noEventStored, startEventStored } from './eventstored.js';
import { noPostgres, PostgresServer } from './postgres.js';
import { noRedis, RedisServer } from './redis.js';

/** Why no cluster of its own can be started here; undefined if one can. */
export const noCluster: string | undefined = noEventStored ?? noRedis ?? noPostgres;

/** EventStoreDB, PostgreSQL, Redis and the keys of one store, and what processes that use them are told of it. */
export class Cluster {
  private constructor(
    readonly eventStored: EventStored,
    readonly redis: RedisServer,
    readonly postgres: PostgresServer,
    /** Where the keys are. */
    readonly folder: string,
    /** An API key with every scope. */
    readonly key: string,
  ) {}

  /** @param options given: a server that the caller started, and stops */
  static async start(
    options: { onDisk?: boolean; redis?: Record<string, string>; given?: EventStored } = {},
  ): Promise<Cluster> {
    const [eventStored, redis, postgres, folder] = await Promise.all([
      options.given ?? startEventStored(options),
      RedisServer.start({ ...(options.onDisk && { appendonly: 'yes' }), ...options.redis }),
      PostgresServer.start(),
      mkdtemp(join(tmpdir(), 'credence-keys-')),
    ]);
    const key = randomBytes(24).toString('base64url');
    const sha256 = createHash('sha256').update(key).digest('hex');
    const cluster = new Cluster(eventStored, redis, postgres, folder, key);
    await writeFile(cluster.env.CREDENCE_API_KEYS, JSON.stringify([{ id: 'test', sha256, scopes: SCOPES }]));
    signingKeyFile(loadConfig(cluster.env)).create();
    issuerKeyFile(loadConfig(cluster.env)).create();
    return cluster;
  }

  get env() {
    return {
      CREDENCE_PROFILE: 'cluster',
      CREDENCE_DATA: this.folder,
      EVENTSTORE_URL: this.eventStored.url,
      REDIS_URL: this.redis.url,
      CREDENCE_DATABASE_URL: this.postgres.url,
      CREDENCE_API_KEYS: join(this.folder, 'api-keys.json'),
      CREDENCE_SIGNING_KEYS: join(this.folder, 'signing-keys.json'),
      CREDENCE_VOUCHER_KEYS: join(this.folder, 'voucher-keys.json'),
    };
  }

  async stop(): Promise<void> {
    await Promise.all([
      this.eventStored.stop(),
      this.redis.stop(),
      this.postgres.stop(),
      rm(this.folder, { recursive: true, force: true }),
    ]);
  }
}

/** As `describe`; counts the tests as skipped, and says why, where no cluster can be had. */
export function describeOnOwnCluster(name: string, tests: () => void): void {
  if (noCluster === undefined) return describe(name, tests);
  process.stderr.write(`skipped: ${name}: ${noCluster}\n`);
  describe.skip(name, tests);
}
