import { setTimeout as sleep } from 'node:timers/promises';
import { PostgresKeyValue } from '../../src/stores/postgres/postgres-key-value.js';
import { describeKeyValue } from '../contracts/key-value.contract.js';
import { PostgresServer, describePostgres } from '../servers/postgres.js';

describePostgres('PostgreSQL', () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await PostgresServer.start();
  });
  afterAll(() => postgres?.stop());

  describeKeyValue('PostgreSQL', async (clock) => {
    const { url, drop } = await postgres.database();
    return { open: () => PostgresKeyValue.open({ url, log: 'log', clock }), destroy: drop, wait: (ms) => sleep(ms) };
  });

  test('a sweep removes what has expired, and nothing else; entries of another log are not seen', async () => {
    const { url, drop } = await postgres.database();
    const [own, other] = [
      await PostgresKeyValue.open({ url, log: 'a', clock: Date.now }),
      await PostgresKeyValue.open({ url, log: 'b', clock: Date.now }),
    ];
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
    await drop();
  });
});
