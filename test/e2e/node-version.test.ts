import { spawnSync } from 'node:child_process';

/** What somebody with an old Node reads: one sentence, without a stack trace. */

function runOn(version: string, ...args: string[]) {
  const pretend = `Object.defineProperty(process.versions, 'node', { value: '${version}' })`;
  const options = { encoding: 'utf8', env: { PATH: process.env['PATH'] } } as const;
  return spawnSync(
    process.execPath,
    ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`, ...args],
    options,
  );
}

test.each(['dist/src/main.js', 'dist/src/cli.js', 'scripts/build.mjs', 'scripts/install.mjs', 'scripts/test.mjs'])(
  '%s says which Node it needs',
  (entry) => {
    const { status, stderr } = runOn('18.20.8', entry);
    expect([status, stderr]).toEqual([
      1,
      'credence: This is Node 18.20.8; Credence needs Node 20.15 or 22.2 or later.\n',
    ]);
  },
);

test.each([
  ['20.14.0', 1],
  ['20.15.0', 0],
  ['21.7.3', 1],
  ['22.1.0', 1],
  ['22.2.0', 0],
  ['24.0.0', 0],
])('Node %s ends it with %i', (version, status) => {
  expect(runOn(version, 'src/node-version.mjs').status).toBe(status);
});
