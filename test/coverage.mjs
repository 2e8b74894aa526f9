/**
 * `npm run coverage`: runs all tests and says how many lines of the sources they reach, in the processes that they start
 * as well. Fails below the share of lines in GATE. coverage/ holds the report of each file: coverage/index.html.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

/** Percent. */
const GATE = 95;
const ROOT = join(import.meta.dirname, '..');
const require = createRequire(import.meta.url);
const PROCESSES = 'coverage/processes';

function run(args, env = {}) {
  return spawnSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } }).status;
}

rmSync(join(ROOT, 'coverage'), { recursive: true, force: true });
run(['scripts/install.mjs', 'test', 'contracts', 'circuits']);
if (run(['scripts/build.mjs']) !== 0) process.exit(1);
const jest = '--experimental-vm-modules --no-warnings test/node_modules/jest/bin/jest.js';
const options = '--coverage --coverageProvider=v8 --coverageReporters=json --coverageDirectory=coverage/tests';
const sources = '--collectCoverageFrom=src/**/*.ts --collectCoverageFrom=projections/**/*.ts';
// test/servers/launch.ts passes the folder on to the processes that it starts, as NODE_V8_COVERAGE.
const folder = { COVERAGE_OF_PROCESSES: join(ROOT, PROCESSES) };
const failed = run([...`${jest} ${options} ${sources}`.split(' '), ...process.argv.slice(2)], folder);
const report = `report --temp-directory ${PROCESSES} --reports-dir ${PROCESSES} --reporter json`;
run([
  require.resolve('c8/bin/c8.js'),
  ...`${report} --exclude-after-remap --include src/** --include projections/**`.split(' '),
]);

// Installed by now.
const { createCoverageMap } = require('istanbul-lib-coverage');
const { createContext } = require('istanbul-lib-report');
const reports = require('istanbul-reports');

/** How often each line ran in either: a file's lines are the same, whatever way it was compiled. */
const lines = new Map();
for (const folder of ['coverage/tests', PROCESSES]) {
  const map = createCoverageMap(JSON.parse(readFileSync(join(ROOT, folder, 'coverage-final.json'), 'utf8')));
  for (const file of map.files()) {
    const known = lines.get(file) ?? new Map();
    for (const [line, hits] of Object.entries(map.fileCoverageFor(file).getLineCoverage())) {
      known.set(line, (known.get(line) ?? 0) + hits);
    }
    lines.set(file, known);
  }
}
const both = createCoverageMap({});
for (const [path, hits] of lines) {
  const statement = ([line]) => ({ start: { line: Number(line), column: 0 }, end: { line: Number(line), column: 1 } });
  const statementMap = Object.fromEntries([...hits].map((entry) => [entry[0], statement(entry)]));
  const s = Object.fromEntries(hits);
  both.addFileCoverage({ path, statementMap, s, fnMap: {}, f: {}, branchMap: {}, b: {} });
}
const context = createContext({ coverageMap: both, dir: join(ROOT, 'coverage') });
for (const reporter of ['text', 'html']) reports.create(reporter).execute(context);

const { pct } = both.getCoverageSummary().lines;
console.log(`${pct} % of lines, at least ${GATE} %`);
process.exitCode = failed === 0 && pct >= GATE ? 0 : 1;
