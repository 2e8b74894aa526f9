import { describeReadModels } from '../contracts/read-models.contract.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import pg from 'pg';
import { randomUUID } from 'node:crypto';
describe('PostgreSQL', () => {
  describeReadModels('PostgreSQL', async (clock) => {
    const name = `t_${randomUUID().replaceAll('-', '')}`;
    const admin = async (text: string) => { const c = new pg.Client({connectionString: 'postgres://credence@127.0.0.1:15999/postgres'}); await c.connect(); await c.query(text); await c.end(); };
    await admin(`CREATE DATABASE ${name}`);
    const url = `postgres://credence@127.0.0.1:15999/${name}`;
    return { open: () => PostgresReadModels.open({ url, folder: '/tmp/nix', clock }), destroy: () => admin(`DROP DATABASE ${name} WITH (FORCE)`) };
  });
});
