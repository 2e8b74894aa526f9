/**
 * `npm run coverage`: runs all tests and says how many lines of the sources they reach, in the processes that they start
 * as well. Fails below the share of lines in GATE. coverage/ holds the report of each file: coverage/index.html.
 * `npm run coverage -- test/cli` runs one folder.
 */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Percent. */
const GATE = 95;
/** Milliseconds. */
const BETWEEN_REDUCTIONS = 10_000;
const require = createRequire(import.meta.url);
const ROOT = join(import.meta.dirname, '..');
/** Where processes write what they ran, at their end. */
const RAW = join(ROOT, 'coverage/raw');
/** The same of the sources alone, and with source maps only where these are no files: a tenth of the size. */
const PROFILES = join(ROOT, 'coverage/profiles');
const SOURCES = ['src', 'projections'];

rmSync(join(ROOT, 'coverage'), { recursive: true, force: true });
for (const folder of [RAW, PROFILES]) mkdirSync(folder, { recursive: true });

const selection = process.argv.slice(2);
// test/servers/launch.ts passes the folder on to the processes that it starts, as NODE_V8_COVERAGE.
const tests = spawn(
  process.execPath,
  [
    'scripts/test.mjs',
    ...(selection.length > 0 ? selection : ['--all']),
    `--testEnvironment=${fileURLToPath(new URL('./coverage-environment.mjs', import.meta.url))}`,
  ],
  { cwd: ROOT, stdio: 'inherit', env: { ...process.env, COVERAGE: RAW } },
);
const timer = setInterval(reduce, BETWEEN_REDUCTIONS);
const failed = await new Promise((resolve) => tests.once('close', resolve));
clearInterval(timer);
reduce();
// What is left is of processes that were killed as they wrote it.
rmSync(RAW, { recursive: true });
const status = report();
process.exitCode = failed || status ? 1 : 0;

/** Moves what is finished from RAW to PROFILES. */
function reduce() {
  const ours = [...SOURCES, 'dist/src', 'dist/projections'].map(
    (folder) => pathToFileURL(`${join(ROOT, folder)}/`).href,
  );
  const isOurs = ({ url }) => ours.some((folder) => url.startsWith(folder));
  // The fields of a class that is never made, as those of answers in *.dto.ts: declarations alone.
  const isRun = ({ functionName }) => functionName !== '<instance_members_initializer>';
  for (const name of readdirSync(RAW)) {
    let profile;
    try {
      profile = JSON.parse(readFileSync(join(RAW, name), 'utf8'));
    } catch {
      // Not written to its end yet.
      continue;
    }
    const maps = name.startsWith('coverage-tests-') ? profile['source-map-cache'] : {};
    const result = profile.result.filter(isOurs);
    for (const script of result) script.functions = script.functions.filter(isRun);
    const reduced = { result, 'source-map-cache': maps };
    writeFileSync(join(PROFILES, name), JSON.stringify(reduced));
    rmSync(join(RAW, name));
  }
}

/** Writes the report. @returns {number} not 0 if less is reached than has to be */
function report() {
  const c8 = require.resolve('c8/bin/c8.js');
  const included = SOURCES.map((folder) => `--include=${folder}/**`);
  const excluded = SOURCES.flatMap(withoutCode).map((path) => `--exclude=${path}`);
  const options = [
    `--temp-directory=${PROFILES}`,
    '--merge-async',
    '--exclude-after-remap',
    '--all',
    ...SOURCES.map((folder) => `--src=${folder}`),
    '--reports-dir=coverage',
    '--reporter=text',
    '--skip-full',
    '--reporter=html',
    '--check-coverage',
    `--lines=${GATE}`,
  ];
  return spawnSync(process.execPath, [c8, 'report', ...options, ...included, ...excluded], {
    cwd: ROOT,
    stdio: 'inherit',
  }).status;
}

/** @returns {string[]} the sources in a folder that hold types alone: no process loads them */
function withoutCode(folder) {
  return readdirSync(join(ROOT, 'dist', folder), { recursive: true })
    .filter(
      (name) =>
        name.endsWith('.js') &&
        /^export \{\};\s*(\/\/#.*\s*)?$/.test(readFileSync(join(ROOT, 'dist', folder, name), 'utf8')),
    )
    .map((name) => relative(ROOT, join(ROOT, folder, name.replace(/\.js$/, '.ts'))));
}
