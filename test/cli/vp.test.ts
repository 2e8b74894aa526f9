import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { configuration } from '../policies/configuration.js';
import { SLOW, Store, action } from './credence.js';

const policy = (policy_id: string, criticality: string, weight: number) => ({
  policy_id,
  tris_org: 'tris:lender',
  inputs: configuration([{ metric: 'finance_loan_repayment', criticality, weight }]),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
});

const REPAID = { category: 'finance', action_type: 'loan_repayment' };

describe('credence vp', () => {
  let store: Store;
  const create = (name: string, content: object) => store.run('vp', 'create', store.file(`${name}.json`, [content]));
  beforeAll(async () => {
    store = await Store.create();
    const actions = Array.from({ length: 90 }, (_, n) =>
      action(n, { external_id: `n-${n}`, tris_id: `tris:p${n % 30}`, ...REPAID }),
    );
    await store.json('import', store.file('actions.ndjson', actions));
    expect((await create('a', policy('VP_A_V1', 'Minimal', 0.01))).code).toBe(0);
    expect((await create('b', policy('VP_B_V1', 'Critical', 0.14))).code).toBe(0);
  }, SLOW);
  afterAll(() => store.remove());

  test(
    'refuses what the service refuses',
    async () => {
      const other = await create('other', policy('VP_A_V1', 'Low', 0.03));
      expect([other.code, /exists with other content/.test(other.stderr)]).toEqual([1, true]);
      const unknown = await store.run('vp', 'evaluate', 'VP_NONE_V1');
      expect([unknown.code, /no validation policy VP_NONE_V1/.test(unknown.stderr)]).toEqual([1, true]);
      expect((await store.run('vp', 'promote', 'VP_A_V1', '--scope', 'world')).code).toBe(2);
      const few = { ...policy('VP_LOW_V1', 'Low', 0.03), inputs: policy('', 'Low', 0.03).inputs.slice(0, 1) };
      expect((await create('low', few)).code).toBe(0);
      const low = await store.run('vp', 'promote', 'VP_LOW_V1');
      expect([low.code, /add up to 0.03, not 0.95 to 1.05/.test(low.stderr)]).toEqual([1, true]);
      const inactive = await store.run('vp', 'rollback', 'VP_A_V1');
      expect([inactive.code, /model’s own lens/.test(inactive.stderr)]).toEqual([1, true]);
    },
    SLOW,
  );

  test(
    'retires a policy, which can then no longer be promoted',
    async () => {
      expect((await create('old', policy('VP_OLD_V1', 'Critical', 0.14))).code).toBe(0);
      for (let times = 0; times < 2; times++) {
        const retired = await store.run('vp', 'retire', 'VP_OLD_V1');
        expect([retired.code, retired.stdout.trim()]).toEqual([0, 'VP_OLD_V1 retired']);
      }
      const promoted = await store.run('vp', 'promote', 'VP_OLD_V1');
      expect([promoted.code, /retired/.test(promoted.stderr)]).toEqual([1, true]);
      const unknown = await store.run('vp', 'retire', 'VP_NONE_V1');
      expect([unknown.code, /no validation policy VP_NONE_V1/.test(unknown.stderr)]).toEqual([1, true]);
    },
    SLOW,
  );

  test(
    'draws what a policy would change, and writes every change to a file',
    async () => {
      const { stdout } = await store.run('vp', 'evaluate', 'VP_B_V1');
      expect(stdout).toMatch(/→ VP_B_V1: 30 identities/);
      expect(stdout).toMatch(/█/);
      const csv = join(store.folder, 'diff.csv');
      const diff = await store.json<{ count: number; up: number }>('vp', 'diff', 'VP_A_V1', 'VP_B_V1', '--csv', csv);
      const lines = readFileSync(csv, 'utf8').trim().split('\n');
      expect(diff.count).toBe(30);
      expect(lines).toHaveLength(1 + diff.up);
      expect(lines[1]).toMatch(/^tris:p\d+,[\d.]+,[A-Za-z ]+,\d+,[\d.]+,[A-Za-z ]+,\d+,[\d.]+$/);
      const ndjson = await store.run('vp', 'diff', 'VP_A_V1', 'VP_B_V1', '--ndjson', '-');
      const rows = ndjson.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      expect(rows.map(({ tris_id }) => tris_id)).toEqual(lines.slice(1).map((line) => line.split(',')[0]));
      expect(existsSync(join(store.folder, '-'))).toBe(false);
    },
    SLOW,
  );

  test.each([
    ['no-folder/diff.csv', /^credence: .*\/no-folder does not exist\.\n$/],
    ['.', /^credence: \/.* is a folder\.\n$/],
  ])(
    'says in a sentence that the changes cannot be written to %s',
    async (name, sentence) => {
      const csv = join(store.folder, name);
      const { code, stderr } = await store.run('vp', 'diff', 'VP_A_V1', 'VP_B_V1', '--csv', csv);
      expect([code, stderr]).toEqual([1, expect.stringMatching(sentence)]);
    },
    SLOW,
  );

  test(
    'replays, promotes on that and rolls back; the log says so and verifies',
    async () => {
      const replay = await store.json<{ replay_id: string; status: string }>('vp', 'replay', 'VP_B_V1');
      expect(replay.status).toBe('completed');
      const based = (id: string, ...more: string[]) =>
        store.run('vp', 'promote', id, '--replay', replay.replay_id, ...more);
      const other = await based('VP_A_V1');
      expect([other.code, /is not a replay of VP_A_V1/.test(other.stderr)]).toEqual([1, true]);
      const elsewhere = await based('VP_B_V1', '--scope', 'organization');
      expect([elsewhere.code, /not "organization"/.test(elsewhere.stderr)]).toEqual([1, true]);
      const promoted = await based('VP_B_V1');
      expect([promoted.code, promoted.stdout.trim()]).toEqual([0, 'the platform uses VP_B_V1']);
      const replayed = await store.json<{ score: { lens: { policy_id: string } } }>('replay', 'tris:p1');
      expect(replayed.score.lens.policy_id).toBe('VP_B_V1');
      expect((await store.run('vp', 'rollback', 'VP_B_V1')).stdout.trim()).toBe(
        'the platform uses the model’s own lens',
      );
      expect((await store.run('verify')).code).toBe(0);
    },
    SLOW,
  );
});
