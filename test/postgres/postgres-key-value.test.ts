import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../src/kernel/clock.js';
import { Logger } from '../../src/kernel/logger.js';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { PostgresKeyValue } from '../../src/stores/postgres/postgres-key-value.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import { eventually } from '../contracts/harness.js';
import { describeKeyValue } from '../contracts/key-value.contract.js';
import { PostgresServer, describePostgres } from '../servers/postgres.js';

/** With the read models whose connection it uses. */
class OwnKeyValue extends PostgresKeyValue {
  static async open(url: string, log: string, clock: Clock = Date.now, logger?: Logger): Promise<OwnKeyValue> {
    const models = await PostgresReadModels.open({ url, folder: postgres.folder, ...(logger && { logger }) });
    return new OwnKeyValue(models, log, clock);
  }

  private constructor(
    readonly models: PostgresReadModels,
    log: string,
    clock: Clock,
  ) {
    super(models.main, log, clock);
  }

  override async close(): Promise<void> {
    await super.close();
    await this.models.close();
  }
}

let postgres: PostgresServer;
let url: string;
let empty: () => Promise<void>;

describePostgres('PostgreSQL', () => {
  beforeAll(async () => {
    postgres = await PostgresServer.start();
    ({ url, empty } = await postgres.database());
  });
  afterAll(() => postgres?.stop());

  describeKeyValue('PostgreSQL', async (clock) => ({
    open: () => OwnKeyValue.open(url, 'log', clock),
    destroy: empty,
    wait: (ms) => sleep(ms),
  }));

  test('a sweep removes what has expired, and nothing else; entries of another log are not seen', async () => {
    const [own, other] = [await OwnKeyValue.open(url, 'a'), await OwnKeyValue.open(url, 'b')];
    for (let n = 0; n < 1_200; n++) await own.put(`old-${n}`, n, 1);
    await own.put('new', 'own', 60_000);
    await other.put('new', 'other', 60_000);
    await sleep(5);
    await own.sweep();
    expect(await postgres.sql('SELECT log, value FROM credence_store.entries ORDER BY log', url)).toBe(
      'a|"own"\nb|"other"',
    );
    expect([await own.get('new'), await other.get('new')]).toEqual(['own', 'other']);
    await Promise.all([own.close(), other.close()]);
    await empty();
  });

  test('an outage that an entry finds first is that of the read models, too, and is logged once', async () => {
    const lines: string[] = [];
    const logger = new Logger('warn', (line) => void lines.push(line));
    const entries = await OwnKeyValue.open(postgres.url, 'log', Date.now, logger);
    try {
      await entries.put('key', 'value', 60_000);
      await postgres.kill();
      await expect(entries.get('key')).rejects.toThrow(StoreUnavailable);
      expect(entries.models.main.isUnavailable).toBe(true);
      await postgres.run();
      await eventually(async () => (await entries.get('key').catch(() => undefined)) === 'value', 'the value');
      await eventually(() => !entries.models.main.isUnavailable, 'its return is noticed');
      expect(lines.map((line) => /is unavailable|is back/.exec(line)?.[0])).toEqual(['is unavailable', 'is back']);
    } finally {
      await entries.close();
    }
  });

  test('what was kept outlasts a kill of the server, also where its commits are not synced by default', async () => {
    const unsynced = await PostgresServer.start({ synchronous_commit: 'off', wal_writer_delay: '10s' });
    try {
      for (const value of [1, 2, 3]) {
        const before = await OwnKeyValue.open(unsynced.url, 'log');
        await before.put('key', value, 60_000);
        await unsynced.kill();
        await before.close();
        await unsynced.run();
        const after = await OwnKeyValue.open(unsynced.url, 'log');
        expect(await after.get('key')).toBe(value);
        await after.close();
      }
    } finally {
      await unsynced.stop();
    }
  });
});
