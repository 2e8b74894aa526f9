import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { csvLine } from '../../src/cli/export-csv.js';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { SLOW, Store, action, actions, exported as exportOf } from './credence.js';

/** `credence export --csv`: what it writes is what HTTP answers. */

/** The rows of a CSV file without line breaks in its cells, by the names of its header. */
function parsed(text: string): Record<string, string>[] {
  expect(text.endsWith('\r\n')).toBe(true);
  const [header, ...lines] = text.slice(0, -2).split('\r\n');
  const names = header!.split(',');
  return lines.map((line) => {
    const cells = [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^",]*))/g)].map(
      ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain!,
    );
    expect(cells).toHaveLength(names.length);
    return Object.fromEntries(cells.map((cell, n) => [names[n]!, cell]));
  });
}

test('a cell with a comma, a quote or a line break is quoted; all others are the exact data', () => {
  expect(csvLine(['a,b', 'say "x"', 'one\r\ntwo', '=1+1', ' é', 0.5, true, null])).toBe(
    '"a,b","say ""x""","one\r\ntwo",=1+1, é,0.5,true,\r\n',
  );
});

describe('export --csv', () => {
  const AUDIENCE = 'https://a.example/?q="x",y';
  const LARGE = Array.from({ length: 80 }, (_, n) => action(n, { tris_id: 'tris:large', external_id: `large-${n}` }));
  let store: Store;
  let server: Server;

  beforeAll(async () => {
    store = await Store.create();
    await store.json('import', store.file('actions.ndjson', [...actions(400), ...LARGE]));
    server = await Server.start({ data: store.data });
    const post = async (path: string, body: object) => {
      const { status } = await server.post(path, body);
      expect([200, 201, 202]).toContain(status);
    };
    await post('/v1/identities/tris:member-3/bad-status', { level: 2, reason_code: 'fraud' });
    for (const [policy_id, rules] of [
      ['AP_LOW_V1', { disc_min: 1 }],
      ['AP_HIGH_V1', { tct_min: 1_000_000 }],
    ]) {
      await post('/v1/policies/ap', { policy_id, rules, ttl_seconds: 60 });
    }
    for (let n = 0; n < 60; n++) {
      const subject_tris = `tris:member-${n % 50}`;
      await post('/v1/policies/ap/check', { policy_id: 'AP_LOW_V1', subject_tris, audience: AUDIENCE });
      await post('/v1/policies/ap/check', { policy_id: 'AP_HIGH_V1', subject_tris });
    }
  }, SLOW);
  afterAll(async () => {
    await server?.end();
    await store?.remove();
  });

  const exported = async (table: string) => {
    const { code, stdout, stderr } = await store.run('export', '--csv', table);
    expect([code, stderr]).toEqual([0, expect.stringMatching(new RegExp(`^\\d+ ${table} in [\\d.]+ s\n$`))]);
    return stdout;
  };
  const get = async (path: string) => {
    const { status, json } = await server.get(path);
    expect(status).toBe(200);
    return json as Record<string, any>;
  };

  test(
    'writes every identity with the score that HTTP answers',
    async () => {
      const rows = parsed(await exported('identities'));
      expect(rows).toHaveLength(51);
      expect(new Set(rows.map(({ tris_id }) => tris_id)).size).toBe(51);
      for (const row of rows) {
        const { tris_id } = row as { tris_id: string };
        const score = await get(`/v1/disc/score/${tris_id}`);
        const { entries } = await get(`/v1/disc/score/${tris_id}/history?limit=1000`);
        const days = (entries as { event_type: string; occurred_at: string }[])
          .filter(({ event_type }) => event_type === 'ActionRelayed')
          .map(({ occurred_at }) => occurred_at.slice(0, 10))
          .sort();
        expect(row).toEqual({
          tris_id,
          score: String(score['score']),
          score_rating: score['score_rating'],
          total_tct: String(score['total_tct']),
          earned_tct: String(score['earned_tct']),
          forfeited_tct: String(score['forfeited_tct']),
          reliability: String(score['reliability']),
          bad_status_level: tris_id === 'tris:member-3' ? '2' : '',
          bad_status_reason: tris_id === 'tris:member-3' ? 'fraud' : '',
          actions: String(days.length),
          first_action_day: days[0],
          last_action_day: days.at(-1),
          incomplete: 'false',
          as_of: score['as_of'],
        });
      }
    },
    SLOW,
  );

  test('writes every recorded decision as HTTP answers it, the latest first', async () => {
    const rows = parsed(await exported('decisions'));
    expect(rows).toHaveLength(120);
    const pages: Record<string, any>[] = [];
    for (let cursor = ''; ;) {
      const page = await get(`/v1/access/decisions?limit=100${cursor}`);
      pages.push(...page['decisions']);
      if (page['next_cursor'] === null) break;
      cursor = `&cursor=${page['next_cursor']}`;
    }
    const text = (value: unknown) => (value === null ? '' : String(value));
    expect(rows).toEqual(
      pages.map((decision) =>
        Object.fromEntries(
          Object.keys(rows[0]!).map((name) => [
            name,
            name === 'reasons' ? decision['reasons'].map(({ rule }: any) => rule).join(' ') : text(decision[name]),
          ]),
        ),
      ),
    );
    expect(rows).toContainEqual(
      expect.objectContaining({ granted: 'true', audience: AUDIENCE, reasons: '', revoked: 'false' }),
    );
    expect(rows[0]).toMatchObject({ granted: 'false', audience: '', reasons: 'tct_min', expires_at: '' });
  });

  test('refuses another table, an identity, and a file that exists', async () => {
    const failed = async (...args: string[]) => {
      const { code, stdout, stderr } = await store.run('export', ...args);
      return [code, stdout + stderr];
    };
    expect(await failed('--csv', 'toString')).toEqual([
      2,
      'credence: --csv writes identities or decisions; there is no "toString".\n',
    ]);
    expect(await failed('tris:member-1', '--csv', 'identities')).toEqual([
      2,
      'credence: --csv writes all of a table, not one identity.\n',
    ]);
    const file = store.file('there.csv', []);
    expect(await failed('--csv', 'decisions', '--out', file)).toEqual([
      1,
      `credence: ${file} exists; --force replaces it.\n`,
    ]);
  });

  test(
    'carried out by a server or alone, it writes the same; without decisions, a header',
    async () => {
      const alone = await Store.create();
      try {
        await alone.json('import', alone.file('actions.ndjson', actions(3)));
        const out = join(alone.folder, 'identities.csv');
        expect((await alone.run('export', '--csv', 'identities', '--out', out)).code).toBe(0);
        const other = await Server.start({ data: alone.data });
        const { stdout } = await alone.run('export', '--csv', 'identities');
        await other.stop();
        expect(readFileSync(out, 'utf8')).toBe(stdout);
        expect(parsed(stdout)).toHaveLength(3);
        const { code, stdout: none } = await alone.run('export', '--csv', 'decisions');
        expect([code, parsed(none)]).toEqual([0, []]);
      } finally {
        await alone.remove();
      }
    },
    SLOW,
  );
});

test(
  'leaves out an identity that HTTP does not know yet, since all of its events occur later',
  async () => {
    const [from, to] = [await Store.create(), await Store.create()];
    try {
      await from.json('import', from.file('actions.ndjson', [action(1), action(2)]));
      const lines = (await from.run('export')).stdout.trim().split('\n').slice(0, -1);
      const later = lines.map((line) => line.replace('2020-01-01T02:00:00.000Z', '2999-01-01T00:00:00.000Z'));
      expect(later).not.toEqual(lines);
      await to.json('import', to.file('export.ndjson', exportOf(later)));
      const { code, stdout } = await to.run('export', '--csv', 'identities');
      expect([code, parsed(stdout).map(({ tris_id }) => tris_id)]).toEqual([0, ['tris:member-1']]);
    } finally {
      await from.remove();
      await to.remove();
    }
  },
  SLOW,
);

test(
  'an interrupted export leaves no file',
  async () => {
    const store = await Store.create({ isBuilt: true });
    try {
      const lines = Array.from({ length: 10_000 }, (_, n) => action(n, { tris_id: `tris:p${n}` }));
      await store.json('import', store.file('many.ndjson', lines));
      const out = join(store.folder, 'identities.csv');
      const child = store.spawn(['export', '--csv', 'identities', '--out', out]);
      const end = new Promise((settle) => child.once('close', settle));
      let stderr = '';
      child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      const begun = () => readdirSync(store.folder).filter((name) => name.includes('identities.csv.unfinished'));
      const isBegun = async () => begun().some((name) => statSync(join(store.folder, name)).size > 0);
      await eventually(isBegun, 'an export that writes');
      child.kill('SIGINT');
      expect(await end).toBe(1);
      expect(stderr).toBe('credence: The command was interrupted.\n');
      expect(existsSync(out)).toBe(false);
      expect(readdirSync(store.folder).filter((name) => name.startsWith('identities.csv'))).toEqual([]);
    } finally {
      await store.remove();
    }
  },
  SLOW,
);
