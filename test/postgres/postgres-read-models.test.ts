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
});
