import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { StartError } from '../../kernel/start-error.js';
import { PostgresConnection, StatementRefused } from './connection.js';

/** The tables of the service, made and changed by the files of `migrations/` in the order of their numbers. */

const FOLDER = join(import.meta.dirname, 'migrations');
/** Any number that no other program takes a lock by. */
const LOCK = 0x43_52_45_44;

/** Any migration ends within this, ms. */
const TIMEOUT_MS = 6 * 3_600_000;

/** Applies what is missing. @throws StartError if the tables are of a newer build, or may not be made */
export async function migrate(url: string): Promise<void> {
  const connection = await PostgresConnection.open(url, { most: 1, timeoutMs: TIMEOUT_MS });
  try {
    await migrateOn(connection);
  } finally {
    await connection.close();
  }
}

async function migrateOn(connection: PostgresConnection): Promise<void> {
  const files = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort();
  const latest = await latestOf(connection);
  if (latest > files.length) throw newer(latest, files.length);
  if (latest === files.length) return;
  try {
    await connection.transaction(async (client) => {
      // Another process may be at it.
      await client.query('SET LOCAL lock_timeout = 0');
      await client.query(`SELECT pg_advisory_xact_lock(${LOCK})`);
      // Whoever owns the schema need not be allowed to create one.
      const { rows: schemas } = await client.query("SELECT FROM pg_namespace WHERE nspname = 'credence_store'");
      if (schemas.length === 0) await client.query('CREATE SCHEMA credence_store');
      await client.query(
        `CREATE TABLE IF NOT EXISTS credence_store.migrations (
          number integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
      );
      const { rows } = await client.query<{ number: number; made: boolean }>(
        `SELECT coalesce(max(number), 0) AS number, to_regclass('credence_store.manifest') IS NOT NULL AS made
        FROM credence_store.migrations`,
      );
      const { number: applied, made } = rows[0]!;
      if (applied > files.length) throw newer(applied, files.length);
      if (applied === 0 && made) throw new StartError(UNKNOWN_VERSION);
      for (const [n, file] of files.entries()) {
        if (n < applied) continue;
        await client.query(await readFile(join(FOLDER, file), 'utf8'));
        await client.query('INSERT INTO credence_store.migrations (number) VALUES ($1)', [n + 1]);
      }
    });
  } catch (error) {
    if (!(error instanceof StatementRefused) || error.code !== NOT_PERMITTED) throw error;
    throw new StartError(
      `${error.message}: the user of CREDENCE_DATABASE_URL needs the right CREATE on the database, or has to own the schema credence_store (docs/cluster.md).`,
    );
  }
}

const NOT_PERMITTED = '42501';
const UNKNOWN_VERSION =
  'The database of CREDENCE_DATABASE_URL has the tables of the service, but credence_store.migrations is gone or empty, ' +
  'so that nothing says of which version they are: make it again, as docs/runbook.md says.';

/** The number of the last migration; 0: none. Needs no right but to read. */
async function latestOf(connection: PostgresConnection): Promise<number> {
  const text = "SELECT to_regclass('credence_store.migrations') IS NOT NULL";
  const [[exists] = []] = await connection.rows<[boolean]>({ text });
  if (!exists) return 0;
  const [[latest] = []] = await connection.rows<[number | null]>({
    text: 'SELECT max(number) FROM credence_store.migrations',
  });
  return latest ?? 0;
}

function newer(found: number, known: number): StartError {
  return new StartError(
    `The database of CREDENCE_DATABASE_URL was migrated to version ${found} by a newer build; this one knows ${known}: ` +
      'start a build that is as new.',
  );
}
