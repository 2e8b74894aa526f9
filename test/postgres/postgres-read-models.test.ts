import { EncodedRows, PlacedRows } from '../../src/stores/ports/encoded-rows.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import { describeReadModels } from '../contracts/read-models.contract.js';
import { PostgresServer, describePostgres } from '../servers/postgres.js';

describePostgres('PostgreSQL', () => {
  let postgres: PostgresServer;
  beforeAll(async () => {
    postgres = await PostgresServer.start({ fsync: 'off' });
  });
  afterAll(() => postgres?.stop());

  describeReadModels('PostgreSQL', async (clock) => {
    const { url, drop } = await postgres.database();
    return { open: () => PostgresReadModels.open({ url, folder: postgres.folder, clock }), destroy: drop };
  });

  test('a load drops the table that an earlier load of the same holder has left', async () => {
    const { url, drop } = await postgres.database();
    const models = await PostgresReadModels.open({ url, folder: postgres.folder });
    try {
      await models.createGeneration('g1', { people: 1 }, 'log');
      await models.acquireLease('g1', 'me', 60_000);
      const rows = new PlacedRows();
      EncodedRows.of([{ row: { view: 'people', key: 'alice' }, value: 1 }]).forEach((...row) => rows.add(...row));
      for (let attempt = 1; attempt <= 3; attempt++) {
        const load = await models.load('g1', 'me');
        expect(await load!.append(rows)).toBe(true);
      }
      const tables = "SELECT count(*) FROM pg_tables WHERE tablename ~ '^rows_'";
      expect(await models.main.rows({ text: tables, values: [] })).toEqual([['1']]);
    } finally {
      await models.close();
      await drop();
    }
  });
});
