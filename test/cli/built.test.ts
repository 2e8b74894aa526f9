import { existsSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { SLOW, Store, action, actions } from './credence.js';

/** The other suites run commands in their own process; here each runs once as it is shipped. */

let store: Store;
beforeAll(async () => {
  store = await Store.create({ isBuilt: true });
  expect((await store.run('import', store.file('actions.ndjson', actions(20)))).code).toBe(0);
  expect((await store.run('vp', 'create', store.file('policy.json', [POLICY]))).code).toBe(0);
}, SLOW);
afterAll(() => store.remove());

const POLICY = {
  policy_id: 'VP_TRADE_V1',
  tris_org: 'tris:org:t',
  inputs: [{ metric: 'social_trade_rating', criticality: 'Critical', weight: 0.14 }],
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
};

test(
  'the built program runs every command',
  async () => {
    const exported = join(store.folder, 'export.ndjson');
    const calls: [string[], RegExp][] = [
      [['import', store.file('more.ndjson', [action(20)])], /^1 lines: 1 recorded/],
      [['status'], /^log \S+: \d+ events/],
      [['replay', 'tris:member-1'], /\ntris:member-1: score /],
      [['verify'], /identical\n$/],
      [['rebuild', 'all', '--swap'], /^g2 is ready: .* g2 serves now\.\n$/],
      [['rollback'], /identities: g1\n/],
      [['dead-letters', 'list'], /./],
      [['export', '--out', exported], /^$/],
      [['backup', join(store.folder, 'copy')], /./],
      [['keys', 'list'], /./],
      [['signing-keys', 'create'], /./],
      [['access', 'audit', 'tris:stranger'], /^no decisions about tris:stranger\n$/],
      [['vp', 'replay', 'VP_TRADE_V1'], /\nreplay rpl_\w+\n$/],
      [['orgs', 'list'], /./],
    ];
    for (const [args, output] of calls) {
      const { code, stdout, stderr } = await store.run(...args);
      expect({ args, code, stdout, stderr }).toEqual({ args, code: 0, stdout: expect.stringMatching(output), stderr });
    }
    expect(readFileSync(exported, 'utf8')).toContain('tris:member-1');
    expect(existsSync(join(store.folder, 'copy'))).toBe(true);
  },
  SLOW,
);

test('reports wrong usage with its exit code and one sentence', async () => {
  const unknown = await store.run('frobnicate');
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringMatching(/^credence: [^\n]+\n/)]);
  const nobody = await store.run('replay', 'tris:never-heard-of');
  expect([nobody.code, nobody.stderr]).toEqual([1, expect.stringMatching(/^credence: [^\n]+\n$/)]);
});

test('exits with 0 if the reader of its output closes the pipe, as head does', async () => {
  const child = store.spawn(['export']);
  const code = new Promise((settle) => child.once('close', settle));
  child.stdout!.destroy();
  expect(await code).toBe(0);
});

test('works on and ends with its own exit code if nobody reads what it reports', async () => {
  const other = store.file('checkpoint.txt', ['credence.example/log', '3', `${'A'.repeat(43)}=`]);
  for (const [stream, args, expected] of [
    ['stdout', ['compare', other], 1],
    ['stderr', ['export', '--out', join(store.folder, 'unread.export.ndjson')], 0],
  ] as const) {
    const child = store.spawn(args);
    const code = new Promise((settle) => child.once('close', settle));
    child[stream]!.destroy();
    expect([args[0], await code]).toEqual([args[0], expected]);
  }
  expect(existsSync(join(store.folder, 'unread.export.ndjson'))).toBe(true);
});

test('refuses a line that is longer than any text can be', async () => {
  const file = store.file('long.ndjson', []);
  truncateSync(file, 600 * 2 ** 20);
  const { code, stdout, stderr } = await store.run('import', file);
  expect([code, stdout, stderr]).toEqual([
    1,
    '1 of 1 lines are invalid; nothing was recorded.\n',
    expect.stringMatching(/^line 1: the line is longer than 1048576 bytes$/m),
  ]);
});

const onLinux = process.platform === 'linux' ? test : test.skip;
onLinux('says in one sentence that its output cannot be written', async () => {
  for (const command of ['export', 'status']) {
    const { code, stderr } = await store.runInto('/dev/full', command);
    expect([command, code, stderr]).toEqual([
      command,
      1,
      expect.stringMatching(/^credence: the output cannot be written: ENOSPC[^\n]+\n$/),
    ]);
  }
});
