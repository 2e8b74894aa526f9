import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import CountsReporter from '../reporter.js';

/** A run that touched somebody's data has failed, whatever its tests say. */

const RESULTS = { numPassedTests: 1, numFailedTests: 0, numPendingTests: 0, numRuntimeErrorTestSuites: 0 };
const DATA = join('data', 'log');

let root: { path: string; remove(): Promise<void> };
beforeEach(async () => void (root = await temporaryFolder()));
afterEach(() => root.remove());

function errorAfter(run: () => void): Error | undefined {
  const reporter = new CountsReporter({ rootDir: root.path });
  run();
  // Neither of this run's own lines.
  const lines = (import.meta as unknown as { jest: typeof jest }).jest;
  const once = lines.spyOn(process, 'once').mockReturnThis();
  const write = lines.spyOn(process.stderr, 'write').mockReturnValue(true);
  reporter.onRunComplete(undefined, RESULTS);
  once.mockRestore();
  write.mockRestore();
  return reporter.getLastError();
}

test('a run that does not change the data folder passes, whether the folder exists or not', () => {
  expect(errorAfter(() => undefined)).toBeUndefined();
  mkdirSync(join(root.path, DATA), { recursive: true });
  writeFileSync(join(root.path, DATA, 'data.mdb'), 'log');
  expect(errorAfter(() => undefined)).toBeUndefined();
});

test('a run fails if the data folder is created, or anything in it is added, written or removed', () => {
  expect(errorAfter(() => mkdirSync(join(root.path, DATA), { recursive: true }))?.message).toContain(DATA);
  const file = join(root.path, DATA, 'data.mdb');
  expect(errorAfter(() => writeFileSync(file, 'log'))?.message).toContain(file);
  expect(errorAfter(() => writeFileSync(file, 'more'))?.message).toContain(file);
});

test.each([
  [0, 0],
  [1, 1],
])('with %i failed tests the process ends with code %i', (numFailedTests, code) => {
  const script = `
    const { default: CountsReporter } = await import('./test/reporter.js');
    const { rootDir, results } = JSON.parse(process.argv[1]);
    new CountsReporter({ rootDir }).onRunComplete(undefined, results);
    // As the runner does, which is told of the failure here.
    process.on('exit', () => (process.exitCode = results.numFailedTests));`;
  const asked = JSON.stringify({ rootDir: root.path, results: { ...RESULTS, numFailedTests } });
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script, asked], {
    encoding: 'utf8',
  });
  expect([status, stdout]).toEqual([code, `1 passed, ${code} failed, 0 skipped\n`]);
});

test('each failure is named above the counts, with the beginning of its message', () => {
  const script = `
    const { default: CountsReporter } = await import('./test/reporter.js');
    const { rootDir, results } = JSON.parse(process.argv[1]);
    new CountsReporter({ rootDir }).onRunComplete(undefined, results);`;
  const long = Array.from({ length: 100 }, (_, n) => `line ${n}`).join('\n');
  const testResults = [
    {
      testFilePath: join(root.path, 'test', 'one.test.ts'),
      testResults: [
        { status: 'passed', fullName: 'holds', failureMessages: [] },
        { status: 'failed', fullName: 'breaks', failureMessages: [`\u001b[31mexpected 1\u001b[39m\n${long}`] },
      ],
    },
    { testFilePath: join(root.path, 'two.test.ts'), testResults: [], testExecError: { message: 'no such module' } },
  ];
  const results = { ...RESULTS, numFailedTests: 1, numRuntimeErrorTestSuites: 1, testResults };
  const asked = JSON.stringify({ rootDir: root.path, results });
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script, asked], { encoding: 'utf8' });
  const lines = stdout.split('\n');
  expect(lines.slice(0, 3)).toEqual(['failed: test/one.test.ts › breaks', 'failed: expected 1', 'failed: line 0']);
  expect(lines.slice(-4)).toEqual([
    'failed: two.test.ts',
    'failed: no such module',
    '1 passed, 2 failed, 0 skipped',
    '',
  ]);
  expect(lines.length).toBeLessThan(30);
});
