import { randomUUID } from 'node:crypto';
import { SLOW, Store, action } from './credence.js';

let store: Store;
let id: string;
beforeAll(async () => {
  store = await Store.create();
  store.variables['CREDENCE_ACTOR'] = 'anna';
  const lines = [action(1, { criticality: 'Critical' }), action(51, { action_type: 'default_flags' })];
  expect((await store.run('import', store.file('actions.ndjson', lines))).code).toBe(0);
  const { stdout } = await store.run('export', 'tris:member-1');
  const events = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { id: string; type: string; data: any });
  id = events.find(({ type, data }) => type === 'ActionRelayed' && data.metric.endsWith('_flags'))!.id;
}, SLOW);
afterAll(() => store.remove());

test(
  'an action is withdrawn after a dry run, shown, and reinstated',
  async () => {
    const dry = await store.run('actions', 'withdraw', id, '--reason', 'mistake', '--dry-run');
    expect([dry.code, dry.stdout]).toEqual([0, expect.stringMatching(/^when .*\nbefore .* BAD +0\nafter .* 140\n$/)]);
    expect(await store.json('actions', 'show', id)).toMatchObject({ state: 'counted', changes: [] });

    const first = await store.run('actions', 'withdraw', id, '--reason', 'mistake');
    expect([first.code, first.stdout]).toEqual([0, expect.stringMatching(new RegExp(`^${id}: withdrawn at \\d+\n$`))]);
    expect((await store.run('actions', 'withdraw', id, '--reason', 'duplicate')).stdout).toBe(first.stdout);
    expect(await store.json('replay', 'tris:member-1')).toMatchObject({ score: { total_tct: 140 } });

    expect((await store.run('actions', 'reinstate', id, '--reason', 'mistake')).code).toBe(0);
    expect(await store.json('actions', 'show', id)).toMatchObject({
      tris_id: 'tris:member-1',
      state: 'counted',
      changes: [
        { state: 'withdrawn', by: 'cli:anna', reason: 'mistake' },
        { state: 'counted', by: 'cli:anna', reason: 'mistake' },
      ],
    });
    expect((await store.run('actions', 'show', id)).stdout).toMatch(/counted\n.*\n.* withdrawn +mistake +cli:anna\n/);
    expect((await store.run('verify')).code).toBe(0);
  },
  SLOW,
);

test.each<[number, string, string[]]>([
  [2, 'reason', ['withdraw', randomUUID(), '--reason', 'because']],
  [2, '--reason', ['withdraw', randomUUID()]],
  [2, 'action_id', ['withdraw', '17', '--reason', 'mistake']],
  [1, 'There is no action', ['reinstate', randomUUID(), '--reason', 'mistake']],
  [1, 'is not applied yet; over HTTP, Credence-Min-Position waits for it.', ['show', randomUUID()]],
])('ends with %i and names %s for a wrong call', async (code, named, args) => {
  const ran = await store.run('actions', ...args);
  expect([ran.code, ran.stderr]).toEqual([code, expect.stringContaining(named)]);
});
