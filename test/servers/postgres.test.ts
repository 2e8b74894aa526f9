import { existsSync } from 'node:fs';
import { eventually } from '../contracts/harness.js';
import { PostgresServer, describePostgres } from './postgres.js';

/** The server that other tests stand on. */

describePostgres('a PostgreSQL for tests', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start({ work_mem: '3MB' });
    await server.sql('CREATE TABLE notes (n int); INSERT INTO notes VALUES (1)');
  });
  afterAll(async () => {
    await server?.stop();
    expect(existsSync(server.folder)).toBe(false);
  });

  const notes = (of = server) => of.sql('SELECT n FROM notes ORDER BY n');

  test('has the settings that it was started with, and rows that were committed before kill −9', async () => {
    await server.kill();
    await expect(notes()).rejects.toThrow(/Connection refused/);
    await server.run();
    expect([await notes(), await server.sql('SHOW work_mem')]).toEqual(['1', '3MB']);
    await server.restart();
    expect(await notes()).toBe('1');
  });

  test('can lose the process of one client, and the others with it', async () => {
    const client = server.sql('SELECT pg_sleep(100)');
    const lost = expect(client).rejects.toThrow(/server closed the connection|terminating connection/);
    const clients = () => server.sql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT pg_sleep'");
    await eventually(async () => (await clients()) === '1');
    await server.killBackend();
    await lost;
    expect(await notes()).toBe('1');
  });

  test('is silent while it is paused, and can be killed then', async () => {
    server.pause();
    await expect(server.sql('SELECT 1', `${server.url}?connect_timeout=2`)).rejects.toThrow(/timeout expired/);
    const answered = notes();
    server.resume();
    expect(await answered).toBe('1');
    server.pause();
    await server.kill();
    await server.run();
  });

  test('gives each test a database of its own, and asks one role for its password', async () => {
    const [one, two] = await Promise.all([
      server.database(),
      server.database("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'"),
    ]);
    const ask = "SELECT current_user, 'a' < 'B', has_database_privilege(current_database(), 'CREATE')";
    expect(await server.sql(ask, one.url)).toBe('credence|f|t');
    expect(await server.sql(ask, two.url)).toBe('credence|t|t');
    await one.drop();
    await two.drop();
    await expect(server.sql(ask, one.url)).rejects.toThrow(/database "test_\d+" does not exist/);
    const guarded = await server.guardedUrl("it's/secret");
    expect(await server.sql(ask, guarded)).toBe('guarded|f|t');
    await expect(server.sql(ask, guarded.replace('secret', 'wrong'))).rejects.toThrow(/authentication failed/);
  });

  test('can be what it was before', async () => {
    const backup = await server.baseBackup();
    await server.sql('INSERT INTO notes VALUES (2)');
    await server.restore(backup);
    expect(await notes()).toBe('1');
  });

  test('has a standby that takes its place', async () => {
    const standby = await server.standby();
    await server.sql('INSERT INTO notes VALUES (3)');
    await eventually(async () => (await notes(standby)) === '1\n3', 'the row at the standby');
    await expect(standby.sql('INSERT INTO notes VALUES (4)')).rejects.toThrow(/read-only transaction/);
    await server.kill();
    await standby.promote();
    await standby.sql('INSERT INTO notes VALUES (4)');
    expect(await notes(standby)).toBe('1\n3\n4');
    await standby.stop();
  });
});
