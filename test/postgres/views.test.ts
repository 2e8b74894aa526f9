import { randomUUID } from 'node:crypto';
import { jest } from '@jest/globals';
import pg from 'pg';
import type { CredonationRow } from '../../projections/credonations.js';
import { positionOf, sortByPosition } from '../../src/kernel/positions.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { viewsOf } from '../../src/read-side/own-views.js';
import { EncodedRows } from '../../src/stores/ports/encoded-rows.js';
import type { Manifest, RowKey } from '../../src/stores/ports/read-models.js';
import { PostgresReadModels } from '../../src/stores/postgres/postgres-read-models.js';
import { eventually } from '../contracts/harness.js';
import { codes, read, section, tableRows } from '../docs/markdown.js';
import {
  RECORDED,
  about,
  accessPolicy,
  acknowledged,
  badStatus,
  checked,
  endorsed,
  granted,
  linked,
  platformOf,
  relayed,
  rowsAfter,
} from '../projections/log.js';
import { PostgresServer, type TestDatabase, describePostgres } from '../servers/postgres.js';

/** The views of docs/sql.md show the rows of the generations that serve, to whoever may read them and nothing else. */

const LOG = 'log-1';
const HOLDER = 'test';
const AT = '2026-03-01T10:00:00+00:00';
const SERVED = new Date(Date.parse(RECORDED) - 3_600_000).toISOString();

const EVENTS = [
  about('OrganizationRegistered', 'tris:bank'),
  about('OrganizationVetted', 'tris:bank'),
  platformOf('lender', 'tris:bank'),
  relayed('tris:alice', 'financial_swap', 'High', { occurred_at: '2026-02-27T23:59:59.999Z' }),
  relayed('tris:alice', 'financial_default_flags', 'Minimal'),
  badStatus('tris:alice', 3),
  granted('tris:alice', 'key:ops'),
  linked('tris:alice', '0xaa'),
  endorsed('tris:alice', 'lender', 70),
  ...Array.from({ length: 69 }, () => relayed('tris:large', 'social_vouch', 'Low')),
  relayed('tris:large', 'social_vouch', 'Low', {
    schema: 2,
    data: { ...relayed('tris:large', 'social_vouch', 'Low').data, source: 'unvouched', counterparty: 'tris:carol' },
  }),
  accessPolicy('AP_A_V1', 'tris:bank'),
  accessPolicy('AP_B_V1', null),
  checked('tris:alice', 'AP_A_V1', SERVED, 'j1'),
  checked('tris:alice', 'AP_B_V1', SERVED, 'j2'),
  { type: 'ActionRelayed', data: { tris_id: 'tris:bob', metric: null } },
  acknowledged('e84', 'tris:bob'),
  endorsed('tris:large', 'lender', 30),
  {
    type: 'ActionWithdrawn',
    data: {
      tris_id: 'tris:large',
      action_id: 'e10',
      metric: 'social_vouch',
      criticality: 'Low',
      platform_id: 'lender',
      source: 'vouched',
      endorser: 'tris:bank',
      amount: 30,
      credonation_id: 'e86',
      reason: 'mistake',
    },
  },
];

const manifest = (revision: number, id: string): Manifest => ({
  revision,
  lens: { policy_id: null, content_hash: 'a' },
  model_hash: 'm',
  lens_revision: -1,
  views: Object.fromEntries(PROJECTIONS.map(({ name }) => [name, id])),
  previous_views: null,
});

describePostgres('the views for people', () => {
  let postgres: PostgresServer;
  let database: TestDatabase;
  let models: PostgresReadModels;
  let analystUrl: string;
  const analysts: pg.Client[] = [];

  beforeAll(async () => {
    postgres = await PostgresServer.start();
    await postgres.sql('CREATE ROLE analyst LOGIN');
  });
  afterAll(() => postgres?.stop());
  beforeEach(async () => {
    database = await postgres.database();
    models = await PostgresReadModels.open({ url: database.url, folder: postgres.folder });
    analystUrl = database.url.replace('credence@', 'analyst@');
    for (const grant of GRANTS) await postgres.sql(grant, database.url);
  });
  afterEach(async () => {
    await Promise.all(analysts.splice(0).map((client) => client.end()));
    await models.close();
    await database.drop();
  });

  /** Makes a generation with these rows that is ready. */
  async function generation(id: string, rows: { row: RowKey; value: unknown }[]): Promise<void> {
    await models.createGeneration(id, viewsOf(PROJECTIONS), LOG);
    expect(await models.acquireLease(id, HOLDER, 60_000)).toBe(true);
    const base = { log: LOG, position: 0, event_id: null };
    const next = { log: LOG, position: EVENTS.length, event_id: 'e' };
    const batch = { id: randomUUID(), base, holder: HOLDER, next, puts: EncodedRows.of(rows), deletes: [] };
    expect(await models.apply(id, batch)).toBe('applied');
    await models.setStatus(id, 'ready');
    await models.releaseLease(id, HOLDER);
  }

  async function folded(): Promise<{ row: RowKey; value: unknown }[]> {
    const { texts } = await rowsAfter(EVENTS);
    return [...texts].map(([name, text]) => {
      const [view, key, sort] = name.split('|') as [string, string, string?];
      return { row: { view, key, ...(sort !== undefined && { sort }) }, value: JSON.parse(text) as unknown };
    });
  }

  const somebody = (id: string, more: object = {}) => ({
    row: { view: 'identities', key: id },
    value: { events: 1, actions: 1, bad_status: null, verifications: [], dead_letters: [], ...more },
  });

  async function analyst(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: analystUrl });
    analysts.push(client);
    await client.connect();
    await client.query("SET TimeZone TO 'UTC'");
    return client;
  }

  /** The rows of a view, as an analyst sees them. */
  async function rowsOf(view: string, order: string): Promise<object[]> {
    const { rows } = await (
      await analyst()
    ).query<{ row: object }>(`SELECT row_to_json(v) AS row FROM credence.${view} v ORDER BY ${order}`);
    return rows.map(({ row }) => row);
  }

  const idsOf = async () => (await rowsOf('identities', 'tris_id')).map((row) => (row as { tris_id: string }).tris_id);

  test('have the same of a generation of an earlier build, as long as it serves', async () => {
    const before = (sort: string) => String(positionOf(sort)).padStart(16, '0');
    const earlier = (await folded()).map(({ row, value }) => {
      const { view, sort = '' } = row;
      if (view === 'decisions') return { row: { ...row, sort: sort.slice(0, 15) + before(sort.slice(15)) }, value };
      if (view === 'timeline' || view === 'dead_letters') return { row: { ...row, sort: before(sort) }, value };
      if (view !== 'credonations') return { row, value };
      const [from, amount, occurred_at, category, id, change] = value as CredonationRow;
      const object = { from, amount, occurred_at, category, id, ...(change !== undefined && { change }) };
      return { row: { ...row, sort: before(sort) }, value: object };
    });
    const views = ['events', 'credonations', 'decisions', 'dead_letters'];
    const shown = async () => Promise.all(views.map((view) => rowsOf(view, 'position')));
    await generation('g1', earlier);
    await models.swapManifest(manifest(1, 'g1'));
    const then = await shown();
    await generation('g2', await folded());
    await models.swapManifest(manifest(2, 'g2'));
    expect(await shown()).toEqual(then);
    expect(then.map((rows) => rows.length)).toEqual([80, 1, 2, 1]);
  });

  test('have what the folds have stored', async () => {
    await generation('g1', await folded());
    await models.swapManifest(manifest(1, 'g1'));
    const alice = {
      tris_id: 'tris:alice',
      actions: 2,
      events: 5,
      earned_tct: 100,
      flagged_tct: 10,
      bad_status_level: 3,
      bad_status_reason: 'fraud',
      bad_status_since: AT,
      verifications: [{ status: 'zk-KYH', issuer: 'key:ops', scheme: 'operator', operator: true, expires_at: null }],
      wallets: 1,
      incomplete: false,
      last_occurred_at: AT,
      last_recorded_at: AT,
      last_position: 8,
    };
    const large = { actions: 69, events: 71, earned_tct: 2_070, flagged_tct: 0, wallets: 0, bad_status_level: null };
    expect(await rowsOf('identities', 'tris_id')).toEqual([
      alice,
      expect.objectContaining({ tris_id: 'tris:bank', actions: 0, events: 2 }),
      expect.objectContaining({ tris_id: 'tris:bob', incomplete: false, actions: 0 }),
      expect.objectContaining({ tris_id: 'tris:large', ...large, bad_status_since: null, last_position: 87 }),
    ]);
    const events = await rowsOf('events', 'position');
    expect(events).toHaveLength(80);
    expect(events.slice(2, 5)).toEqual([
      {
        tris_id: 'tris:alice',
        position: 4,
        event_id: 'e4',
        type: 'ActionRelayed',
        occurred_at: '2026-02-27T23:59:59.999+00:00',
        recorded_at: AT,
        metric: 'financial_swap',
        criticality: 'High',
        platform_id: 'lender',
        data: null,
        source: 'vouched',
        counterparty: null,
      },
      expect.objectContaining({ metric: 'financial_default_flags', criticality: 'Minimal' }),
      {
        tris_id: 'tris:alice',
        position: 6,
        event_id: 'e6',
        type: 'BadStatusSet',
        occurred_at: AT,
        recorded_at: AT,
        metric: null,
        criticality: null,
        platform_id: null,
        source: null,
        counterparty: null,
        data: { tris_id: 'tris:alice', level: 3, reason_code: 'fraud' },
      },
    ]);
    expect(events.filter((event) => (event as { source: unknown }).source === 'unvouched')).toEqual([
      expect.objectContaining({ type: 'ActionRelayed', platform_id: 'lender', counterparty: 'tris:carol' }),
    ]);
    expect(events.filter((event) => (event as { type: unknown }).type === 'ActionWithdrawn')).toEqual([
      expect.objectContaining({ metric: 'social_vouch', data: expect.objectContaining({ action_id: 'e10' }) }),
    ]);
    const credonation = { position: 9, sender: 'tris:bank', amount: 70, category: 'financial', occurred_at: AT };
    expect(await rowsOf('credonations', 'position')).toEqual([{ tris_id: 'tris:alice', ...credonation }]);
    const denied = { checked_at: '2026-03-01T09:00:00+00:00', subject_tris: 'tris:alice', granted: false };
    expect(await rowsOf('decisions', 'position')).toEqual([
      { jti: 'j1', position: 82, ...denied, policy_id: 'AP_A_V1', owner: 'tris:bank' },
      { jti: 'j2', position: 83, ...denied, policy_id: 'AP_B_V1', owner: null },
    ]);
    expect(await rowsOf('organizations', 'tris_org')).toEqual([
      { tris_org: 'tris:bank', registered_at: AT, vetted: true },
    ]);
    expect(await rowsOf('platforms', 'platform_id')).toEqual([
      { platform_id: 'lender', tris_org: 'tris:bank', registered_at: AT },
    ]);
    const policy = {
      validation_policy_id: null,
      ttl_seconds: 600,
      visibility: 'private',
      content_hash: 'c',
      created_at: AT,
      retired: false,
    };
    expect(await rowsOf('access_policies', 'policy_id')).toEqual([
      { policy_id: 'AP_A_V1', owner: 'tris:bank', ...policy },
      { policy_id: 'AP_B_V1', owner: null, ...policy },
    ]);
    expect(await rowsOf('validation_policies', 'policy_id')).toEqual([]);
    expect(await rowsOf('dead_letters', 'position')).toEqual([
      {
        position: 84,
        event_id: 'e84',
        event_type: 'ActionRelayed',
        stream: 'stream-84',
        tris_id: 'tris:bob',
        reason: expect.any(String),
        acknowledged_at: AT,
        acknowledged_by: 'key:ops',
        acknowledged_reason: 'lost_for_good',
      },
    ]);
    const served = PROJECTIONS.map(({ name }) => ({ view: name, generation: 'g1', position: EVENTS.length }));
    expect(await rowsOf('read_models', 'view')).toEqual(served.sort((a, b) => (a.view < b.view ? -1 : 1)));
  });

  test('show a validation policy', async () => {
    const policy = { policy_id: 'VP_A_V1', tris_org: 'tris:bank', content_hash: 'c', version: '1.0' };
    const value = { ...policy, created_at: Date.parse(RECORDED), retired: true };
    await generation('g1', [{ row: { view: 'policies', key: 'all', sort: 'VP_A_V1' }, value }]);
    await models.swapManifest(manifest(1, 'g1'));
    expect(await rowsOf('validation_policies', 'policy_id')).toEqual([{ ...policy, created_at: AT, retired: true }]);
  });

  test('are empty before anything serves, follow a swap, and show neither a building nor a damaged generation', async () => {
    expect(await idsOf()).toEqual([]);
    await generation('g1', [somebody('tris:one')]);
    await generation('g2', [somebody('tris:two')]);
    await models.swapManifest(manifest(1, 'g1'));
    expect(await idsOf()).toEqual(['tris:one']);
    await models.swapManifest(manifest(2, 'g2'));
    expect(await idsOf()).toEqual(['tris:two']);
    await models.setStatus('g2', 'building');
    expect(await idsOf()).toEqual([]);
    await models.setStatus('g2', 'damaged');
    expect(await idsOf()).toEqual([]);
  });

  test('read the table of the serving generation only, one identity by its key', async () => {
    for (const id of ['g1', 'g2', 'g3']) await generation(id, [somebody('tris:one')]);
    await models.swapManifest(manifest(1, 'g2'));
    const explain = 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off)';
    const { rows } = await (
      await analyst()
    ).query<{ 'QUERY PLAN': string }>(`${explain} SELECT actions FROM credence.identities WHERE tris_id = 'tris:one'`);
    const scans = rows.map((row) => row['QUERY PLAN']).filter((line) => line.includes('on rows_'));
    expect(scans).toHaveLength(3);
    expect(scans.filter((line) => !line.includes('never executed'))).toEqual([
      expect.stringMatching(/Index Scan using rows_2_pkey on rows_2 .*rows=1/),
    ]);
  });

  test('show what PostgreSQL does not read as U+FFFD, and nothing else differently', async () => {
    const reasons = ['a\0\0b', 'half \ud83d', 'whole \u{1f600}', 'backslash \\u0000', 'both \\\0', '\u0001"\\\n'];
    const rows = reasons.map((reason, position) => ({
      row: { view: 'dead_letters', key: 'open', sort: sortByPosition(position) },
      value: { reason, acknowledged: null },
    }));
    await generation('g1', rows);
    await models.swapManifest(manifest(1, 'g1'));
    expect((await rowsOf('dead_letters', 'position')).map((row) => (row as { reason: string }).reason)).toEqual([
      'a\ufffd\ufffdb',
      'half \ufffd',
      'whole \u{1f600}',
      'backslash \\u0000',
      'both \\\ufffd',
      '\u0001"\\\n',
    ]);
  });

  test('are all that a role with the documented rights can read', async () => {
    const client = await analyst();
    const refused = (text: string) => expect(client.query(text)).rejects.toThrow(/permission denied|must be owner/);
    await generation('g1', [somebody('tris:one')]);
    for (const table of ['rows', 'rows_1', 'manifest', 'generations', 'parts', 'entries', 'serving']) {
      await refused(`SELECT * FROM credence_store.${table}`);
    }
    await refused("SELECT credence_store.read_json('1')");
    await refused('DELETE FROM credence.platforms');
    await refused("INSERT INTO credence.platforms (platform_id) VALUES ('a')");
    await refused('CREATE VIEW credence.mine AS SELECT 1');
    await refused('DROP VIEW credence.identities');
  });

  test('are described with all their columns', async () => {
    const { rows } = await (
      await analyst()
    ).query<{ view: string; columns: string[] }>(`
      SELECT table_name AS view, array_agg(column_name::text || ' ' || data_type ORDER BY ordinal_position) AS columns
      FROM information_schema.columns WHERE table_schema = 'credence' GROUP BY table_name`);
    const described = rows.map(({ view }) => {
      const columns = tableRows(section(SQL, `credence.${view}`)).map(([name, type]) => `${codes(name!)[0]} ${type}`);
      return { view, columns: columns.map((each) => each.replace('timestamptz', 'timestamp with time zone')) };
    });
    expect(described).toEqual(rows);
    expect(rows.length).toBeGreaterThan(5);
  });

  describe('while a transaction has read them', () => {
    /** What is tried again each minute is tried again soon. */
    const soonAgain = () => {
      const { setTimeout: later } = globalThis;
      const soon = (work: () => void, ms?: number) => later(work, ms === 60_000 ? 300 : ms);
      jest.spyOn(globalThis, 'setTimeout').mockImplementation(soon as typeof setTimeout);
    };
    afterEach(() => jest.restoreAllMocks());

    const partsLeft = () =>
      postgres.sql("SELECT relname FROM pg_class WHERE relname ~ '^rows_[0-9]+$' ORDER BY 1", database.url);

    test('swaps and drops go on; the tables go once it has ended', async () => {
      soonAgain();
      for (const id of ['g1', 'g2', 'g3']) await generation(id, [somebody(`tris:${id}`)]);
      await models.swapManifest(manifest(1, 'g1'));
      const client = await analyst();
      await client.query('BEGIN');
      const ids = async () => (await client.query('SELECT tris_id FROM credence.identities')).rows;
      expect(await ids()).toEqual([{ tris_id: 'tris:g1' }]);

      await models.swapManifest(manifest(2, 'g3'));
      const { restarts } = models;
      for (const id of ['g2', 'g1']) {
        const started = performance.now();
        await models.dropGeneration(id);
        expect(performance.now() - started).toBeLessThan(10_000);
      }
      expect(await partsLeft()).toBe('rows_1\nrows_2\nrows_3');
      // Others read, write and build meanwhile, and so does this transaction.
      expect(await ids()).toEqual([{ tris_id: 'tris:g3' }]);
      expect(await idsOf()).toEqual(['tris:g3']);
      await generation('g4', [somebody('tris:g4')]);
      await models.swapManifest(manifest(3, 'g4'));
      expect(await ids()).toEqual([{ tris_id: 'tris:g4' }]);
      expect([models.restarts, models.main.isUnavailable]).toEqual([restarts, false]);

      await client.query('COMMIT');
      await eventually(async () => (await partsLeft()) === 'rows_3\nrows_4', 'the tables of what was dropped go');
    });
  });
});

const SQL = read('docs/sql.md');
/** As documented. */
const GRANTS = section(SQL, 'A role that may read')
  .match(/```sql\n([\s\S]*?)```/)![1]!
  .split(';\n')
  .filter((statement) => /^\s*GRANT/.test(statement));
