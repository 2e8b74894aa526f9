import { EncodedRows, PlacedRows } from '../../src/stores/ports/encoded-rows.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import { eventually } from '../contracts/harness.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { PostgresServer, describePostgres } from '../servers/postgres.js';

describePostgres('PostgreSQL', () => {
  let postgres: PostgresServer;
  let url: string;
  let empty: () => Promise<void>;
  beforeAll(async () => {
    postgres = await PostgresServer.start({ fsync: 'off' });
    ({ url, empty } = await postgres.database());
  });
  afterAll(() => postgres?.stop());

  describeReadModels('PostgreSQL', async (clock) => ({
    open: () => PostgresReadModels.open({ url, folder: postgres.folder, clock }),
    destroy: empty,
  }));

  describe('a load', () => {
    let models: PostgresReadModels;
    beforeEach(async () => {
      models = await PostgresReadModels.open({ url, folder: postgres.folder });
      await models.createGeneration('g1', { people: 1 }, 'log');
      await models.acquireLease('g1', 'me', 60_000);
    });
    afterEach(async () => {
      await models.close();
      await empty();
    });

    const alice = { view: 'people', key: 'alice' };
    async function loaded() {
      const rows = new PlacedRows();
      EncodedRows.of([{ row: alice, value: 1 }]).forEach((...row) => rows.add(...row));
      const load = await models.load('g1', 'me');
      expect(await load!.append(rows)).toBe(true);
      return load!;
    }

    test('drops the table that an earlier load of the same holder has left', async () => {
      for (let attempt = 1; attempt <= 3; attempt++) await loaded();
      const tables = "SELECT count(*) FROM pg_tables WHERE tablename ~ '^rows_'";
      expect(await models.main.rows({ text: tables, values: [] })).toEqual([['1']]);
    });

    test('is kept although PostgreSQL gives no answer for a moment at its end', async () => {
      const load = await loaded();
      const locked = postgres.sql('BEGIN; LOCK credence_store.rows; SELECT pg_sleep(4); COMMIT', url);
      const isLocked = async () =>
        (await postgres.sql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^BEGIN; LOCK'", url)) === '1';
      await eventually(isLocked, 'the table is locked');
      expect(await load.finish({ log: 'log', position: 1, event_id: 'event-1' })).toBe(true);
      await locked;
      expect((await models.read('g1', [{ get: alice }]))!.results).toEqual([1]);
    });

    test.each([
      ['counted', () => models.count('g1', 'people')],
      ['paged through', () => models.scan('g1', 'people', null, 10)],
    ])('whose table is gone makes the generation damaged once its rows are %s', async (_how, read) => {
      const load = await loaded();
      await load.finish({ log: 'log', position: 1, event_id: 'event-1' });
      const [[table]] = (await models.main.rows<[string]>({
        text: "SELECT tablename FROM pg_tables WHERE tablename ~ '^rows_'",
      })) as [[string]];
      await postgres.sql(`DROP TABLE credence_store.${table}`, url);
      await expect(read()).rejects.toMatchObject({ code: 'read_models_damaged' });
      expect(await models.generations()).toEqual([
        expect.objectContaining({ status: 'damaged', damage: 'the table of its rows is gone' }),
      ]);
      await expect(read()).rejects.toMatchObject({ code: 'read_models_damaged' });
    });
  });
});
