import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { eventually } from '../contracts/harness.js';
import { ended } from '../servers/launch.js';
import { action, actions, exported, SLOW, Store } from './credence.js';

let store: Store;
beforeEach(async () => void (store = await Store.create()));
afterEach(() => store.remove());

interface Counts {
  lines: number;
  wrong: number;
  recorded: number;
  already_present: number;
  conflicts: number;
}
const head = async () => (await store.json<{ events: number }>('status')).events;

test(
  'the Bitcoin-OTC excerpt is imported once, however often it is given',
  async () => {
    const ndjson = execFileSync('node', ['examples/otc-to-ndjson.mjs', 'examples/bitcoin-otc-excerpt.csv']).toString();
    const file = store.file('otc.ndjson', ndjson.trimEnd().split('\n'));

    const first = await store.json<Counts>('import', file);
    expect(first).toMatchObject({ lines: 2003, recorded: 2003, already_present: 0, conflicts: 0, wrong: 0 });
    const events = await head();
    const again = await store.run('import', file);
    expect(again.stdout).toMatch(/^2,003 lines: 0 recorded, 2,003 already present, in .* lines\/s\)/);
    expect(again.code).toBe(0);
    expect(await head()).toBe(events);

    const { entries, score } = await store.json<{ entries: object[]; score: object }>('replay', 'tris:otc:905');
    expect(entries).toHaveLength(57);
    expect(score).toMatchObject({ earned_tct: 1660, score: 4, score_rating: 'BAD' });
  },
  SLOW,
);

test('one invalid line prevents the whole import; the first twenty errors are listed', async () => {
  const wrong = [
    action(1),
    '{"tris_id":',
    '',
    action(2, { criticality: 'Extreme', tris_id: 'alice' }),
    action(3, { occurred_at: '2999-01-01T00:00:00Z' }),
    '[]',
    action(4, { more: 1 }),
    `{"pad":"${'x'.repeat(1_100_000)}"}`,
    ...Array.from({ length: 30 }, () => action(5, { category: 'x' })),
  ];
  const { code, stdout, stderr } = await store.run('import', store.file('wrong.ndjson', wrong));
  expect(code).toBe(1);
  expect(stdout).toBe('36 of 37 lines are invalid; nothing was recorded.\n');
  const lines = stderr.trimEnd().split('\n');
  expect(lines).toHaveLength(20);
  expect(lines.slice(0, 7)).toEqual([
    expect.stringMatching(/^line 2: The line is not JSON/),
    expect.stringMatching(/^line 4 \/tris_id: /),
    expect.stringMatching(/^line 4 \/criticality: /),
    expect.stringMatching(/^line 5 \/occurred_at: .* future/),
    expect.stringMatching(/^line 6: the line must be a JSON object/),
    expect.stringMatching(/^line 7 \/more: "more" is unknown/),
    expect.stringMatching(/^line 8: the line is longer than/),
  ]);
  expect(existsSync(store.data)).toBe(false);
});

test('a conflicting external_id is reported with its line, and the other lines are recorded', async () => {
  const lines = [action(1), action(2), action(1, { criticality: 'High' }), action(2)];
  const { code, stdout, stderr } = await store.run('import', store.file('conflict.ndjson', lines));
  expect(stderr).toMatch(/^line 3 \/external_id: was used for another action\n$/);
  expect(stdout).toMatch(/^4 lines: 2 recorded, 1 already present, 1 in conflict/);
  expect(code).toBe(1);
});

test('reads a file with the byte order mark and the line ends of Windows', async () => {
  const lines = [action(1), action(2)].map((line) => `${JSON.stringify(line)}\r`);
  const { code, stdout } = await store.run('import', store.file('windows.ndjson', [`\ufeff${lines[0]}`, lines[1]!]));
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^2 lines: 2 recorded/)]);
});

test('a compressed file is refused with the command that reads it', async () => {
  const zstd = Buffer.from('28b52ffd2400', 'hex');
  for (const [program, bytes, command] of [
    ['gzip', gzipSync('{}'), 'import'],
    ['zstd', zstd, 'import aave'],
  ] as const) {
    const file = join(store.folder, 'actions.ndjson');
    writeFileSync(file, bytes);
    const { code, stderr } = await store.run(...command.split(' '), file);
    expect([code, stderr]).toEqual([
      2,
      `credence: ${file} is compressed with ${program}: use ${program} -dc ${file} | credence ${command} -\n`,
    ]);
  }
});

test('reads standard input in place of a file', async () => {
  const { code, stdout } = await ended(store.spawn(['import', '-']), `${JSON.stringify(action(1))}\n`);
  expect(stdout).toMatch(/^1 lines: 1 recorded/);
  expect(code).toBe(0);
});

test('Ctrl-C leaves no copy of standard input', async () => {
  const copies = join(store.folder, 'copies');
  mkdirSync(copies);
  store.variables['TMPDIR'] = copies;
  const child = store.spawn(['import', '-']);
  child.stdin!.write(`${JSON.stringify(action(1))}\n`);
  await eventually(() => readdirSync(copies).length === 1, 'it is read');
  const end = new Promise((settle) => child.once('close', (_, signal) => settle(signal)));
  child.kill('SIGINT');
  expect(await end).toBe('SIGINT');
  expect(readdirSync(copies)).toEqual([]);
});

test(
  'a large file has the same counts and line numbers as a small one',
  async () => {
    const anonymous = action(0, { external_id: undefined, platform_id: `platform-${'x'.repeat(80)}` });
    // Equal lines without an external_id are as many actions; a blank line counts as a line of the file only.
    const lines: object[] = [...actions(12_000), ...Array.from({ length: 20 }, () => anonymous)];
    lines[11_000] = action(5);
    lines[11_500] = action(5, { criticality: 'High' });
    const run = (path: string) => ended(store.spawn(['import', path]));
    const file = store.file('large.ndjson', ['', ...lines]);
    const { code, stdout, stderr } = await run(file);
    expect(stdout).toMatch(/^12,020 lines: 12,018 recorded, 1 already present, 1 in conflict/);
    expect(stderr).toMatch(/line 11502 \/external_id: was used for another action\n$/);
    expect(code).toBe(1);
    const again = await run(file);
    expect(again.stdout).toMatch(/^12,020 lines: 0 recorded, 12,019 already present, 1 in conflict/);

    const wrong = await run(store.file('wrong.ndjson', [...lines, '{', ...lines, '[]']));
    expect(wrong.stdout).toBe('2 of 24,042 lines are invalid; nothing was recorded.\n');
    expect(wrong.stderr).toMatch(/line 12021: The line is not JSON.*\nline 24042: the line must be a JSON object.*\n$/);
  },
  SLOW,
);

test.each([
  ['an error', 'rmSync(file)', /^Error: ENOENT/],
  [
    'lines that have changed since they were checked',
    "writeFileSync(file, '{')",
    /^CommandFailed: Line 1 is not valid/,
  ],
])(
  '%s in a large file ends the import',
  async (_what, change, message) => {
    const file = store.file('large.ndjson', actions(12_000));
    const built = (path: string) => JSON.stringify(join(process.cwd(), 'dist/src', path));
    const script = `
      import { rmSync, writeFileSync } from 'node:fs';
      import { ActionLines } from ${built('cli/action-lines.js')};
      import { recordActions } from ${built('cli/import-actions.js')};
      import { closeStores, openStores } from ${built('stores/open.js')};
      const stores = await openStores(${JSON.stringify(store.data)}, Date.now);
      const file = ${JSON.stringify(file)};
      const checking = new ActionLines(file);
      const { lines } = await checking.check();
      ${change};
      await recordActions(stores, checking.read(), lines).catch((error) => {
        console.log(\`\${error.name}: \${error.message}\`);
      });
      await closeStores(stores);`;
    const output = execFileSync(process.execPath, [store.file('import.mjs', [script])]).toString();
    expect(output).toMatch(message);
  },
  SLOW,
);

test('an id that is an address has one spelling in actions; an export has what its log has', async () => {
  const [own, other] = [
    'tris:0x9d85ca56217d2bb651b00f15e694eb7e713637d4',
    'tris:0x9D85ca56217D2bb651b00f15e694EB7E713637D4',
  ];
  const { code, stderr } = await store.run('import', store.file('wrong.ndjson', [action(1, { tris_id: other })]));
  expect([code, stderr]).toEqual([1, expect.stringMatching(`^line 1 /tris_id: tris_id must be ${own}: `)]);

  await store.json('import', store.file('right.ndjson', [action(1, { tris_id: own })]));
  for (const command of [
    ['export', other],
    ['access', 'audit', other],
    ['replay', other],
  ]) {
    expect(await store.run(...command)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`Its id is ${own}: `),
    });
  }
  const options = ['--id', 'k', '--scopes', 'reads', '--organization', other];
  expect((await store.run('keys', 'create', ...options)).stderr).toContain(`Its id is ${own}: `);

  const { stdout } = await store.run('export');
  const old = await Store.create();
  try {
    const file = old.file('old.ndjson', stdout.trimEnd().replaceAll(own, other).split('\n').slice(0, -1));
    expect((await old.run('import', file, '--incomplete')).code).toBe(0);
    expect((await old.json<{ entries: object[] }>('replay', other)).entries).toHaveLength(1);
  } finally {
    await old.remove();
  }
});

test('an export with a wrong line in its middle says that what is before it is in the log', async () => {
  await store.json('import', store.file('actions.ndjson', actions(3)));
  const { stdout } = await store.run('export');
  const lines = stdout.trimEnd().split('\n').slice(0, -1);
  const wrong = lines.with(2, lines[2]!.replace('"index":0', '"index":1'));
  const copy = await Store.create();
  try {
    const { code, stderr } = await copy.run('import', copy.file('wrong.ndjson', exported(wrong)));
    expect([code, stderr]).toEqual([
      1,
      'credence: Line 3 is not the next event of its append. The events before it are in the log.\n',
    ]);
    expect((await copy.run('import', copy.file('right.ndjson', exported(lines)))).stdout).toMatch(
      new RegExp(`^${lines.length} events, ${lines.length - 2} of them new`),
    );
    const again = await copy.run('import', copy.file('wrong.ndjson', exported(wrong)));
    expect(again.stderr).toBe('credence: Line 3 is not the next event of its append.\n');
  } finally {
    await copy.remove();
  }
});
