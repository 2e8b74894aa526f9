/**
 * `npm test`: builds, then runs all tests and beside them the checks. The last line counts tests and checks. Options:
 *   --faults  the tests of faults alone, in their long forms (FAULTS_TIMES=20 repeats twenty times as often); all but
 *             LONGER run here only
 *   --short   with --faults: in their short forms, each kind of fault once
 *   --all     all tests in their short forms, without the checks
 *   --stress  two processes that do nothing but use a core each run beside it
 * All else goes to jest: `npm test -- test/cli` runs one folder, without the checks; with --faults, in its long forms.
 */
import '../src/node-version.mjs';
import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
/** Each file of tests loads much that is kept: with less space for new objects, V8 copies it twice as often. */
const NODE = ['--experimental-vm-modules', '--no-warnings', '--max-semi-space-size=64'];
const JEST = [...NODE, 'test/node_modules/jest/bin/jest.js'];
/**
 * Folders and files that are run by --faults alone, since they take long: they start many servers and commands, stop, kill
 * and replace them, damage files, fold long histories, make proofs, ask a chain, repeat suites on the cluster profile,
 * drive a browser, or install packages. `npm test` has the rest, so that it ends within five minutes on two cores.
 */
const FAULTS = [
  'test/audit/python.test',
  'test/checkpoints/',
  'test/cli/built.test',
  'test/cli/compare.test',
  'test/cli/export-csv.test',
  'test/cli/import.test',
  'test/cli/operations.test',
  'test/cli/owner.test',
  'test/cli/policies.test',
  'test/cli/verify.test',
  'test/client/browser.test',
  'test/client/csharp.test',
  'test/client/retries.test',
  'test/cluster/',
  'test/console/',
  'test/deploy/',
  'test/disc/sums.test',
  'test/disputes/killed.test',
  'test/docs/policies.test',
  'test/docs/runbook.test',
  'test/docs/tour.test',
  'test/e2e/crash.test',
  'test/e2e/example.test',
  'test/e2e/examples.test',
  'test/e2e/lifecycle.test',
  'test/e2e/log-checkpoint.test',
  'test/e2e/operations.test',
  'test/e2e/operators.test',
  'test/e2e/restart.test',
  'test/e2e/start.test',
  'test/e2e/vp.test',
  'test/embedded/build.test',
  'test/embedded/owner.test',
  'test/eventstoredb/faults.test',
  'test/eventstoredb/replaced.test',
  'test/eventstoredb/three-nodes.test',
  'test/examples/',
  'test/faults/',
  'test/ingestion/ingestion.test',
  'test/ingestion/long-history.test',
  'test/policies/vp-promotion.test',
  'test/postgres/faults.test',
  'test/postgres/postgres-connection.test',
  'test/postgres/replaced.test',
  'test/postgres/views.test',
  'test/projections/wide-identity.test',
  'test/redis/failover.test',
  'test/redis/redis-connection.test',
  'test/scripts/packages.test',
  'test/scripts/scripts.test',
  'test/servers/anvil.test',
  'test/servers/postgres.test',
  'test/sessions/contract-wallets.test',
  'test/tracing/',
  'test/trust/metric-limit.test',
  'test/trust/nonces.test',
  'test/verifications/verifications.test',
  'test/verifications/verifier.test',
  'test/vouchers/verifier.test',
  'test/webhooks/messages.test',
  'test/webhooks/receiver-names.test',
  'test/withdrawals/killed.test',
];
/** Short in `npm test`, long here. */
const LONGER = ['test/audit/proofs.test', 'test/disc/past-states.test', 'test/embedded/lmdb-environment.test'];
/** Run by --faults and --all after the others and one at a time, since they measure how long the service does not answer. */
const MEASURED = [
  'test/cluster/load.test',
  'test/eventstoredb/load.test',
  'test/faults/hot-identity.test',
  'test/faults/many.test',
  'test/trust/connections.test',
];

/** What the files of the tests may take together, with room to spare. */
const MEMORY_BYTES = 4 * 2 ** 30;

const given = process.argv.slice(2);
const option = (name) => given.includes(name);
const selection = given.filter((argument) => !['--faults', '--short', '--all', '--stress'].includes(argument));
const withChecks = !option('--faults') && !option('--all') && selection.length === 0;
// These come last: jest would take the names of files after them for further paths to ignore.
const without = (paths) => ['/node_modules/', ...paths].map((path) => `--testPathIgnorePatterns=${path}`);
const measured = ['--runInBand', '--verbose', ...MEASURED];

/** Groups of processes that run. */
const running = new Set();

/** Runs a program to its end. @returns {Promise<{ isGood: boolean, output: string }>} what it printed where `stdio` keeps it */
function run(command, args, stdio, env = {}) {
  // A group of its own, so that all that it starts can be ended with it.
  const child = spawn(command, args, { cwd: ROOT, stdio, env: { ...process.env, ...env }, detached: true });
  running.add(child.pid);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', (text) => (output += text));
  return new Promise((resolve) => {
    child.once('close', (code, signal) => {
      running.delete(child.pid);
      if (signal) process.stderr.write(`${signal} ended ${command} ${args.join(' ')}\n`);
      resolve({ isGood: code === 0, output });
    });
  });
}
const node = (args, stdio = 'inherit', env = undefined) => run(process.execPath, args, stdio, env);

/** To what was started, and what that has started. */
function sendAll(signal) {
  for (const group of running) {
    try {
      process.kill(-group, signal);
    } catch (error) {
      if (error.code !== 'ESRCH') throw error; // It has ended.
    }
  }
}

/**
 * A folder for the files of the tests, in memory where that has enough space: much of their time they would wait for a
 * disk. What a killed process has written stays there, too. Tests of faults use the disk.
 */
function folderInMemory() {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm');
    const mayExecute = !/^\S+ \/dev\/shm \S+ \S*noexec/m.test(readFileSync('/proc/mounts', 'utf8'));
    if (bavail * bsize < MEMORY_BYTES || !mayExecute) return undefined;
    const folder = mkdtempSync('/dev/shm/credence-tests-');
    chmodSync(folder, 0o755); // PostgreSQL may run as another user.
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    return folder;
  } catch {
    return undefined; // There is none on this system.
  }
}

/** @returns {Promise<boolean>} shows what a check prints only if it fails */
async function check(name) {
  const { isGood, output } = await run('npm', ['run', '--silent', `check:${name}`], ['ignore', 'pipe', 'pipe']);
  process.stderr.write(isGood ? `check:${name} passed\n` : `check:${name} failed:\n${output}\n`);
  return isGood;
}

async function main() {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const count = (isGood) => (isGood ? counts.passed++ : counts.failed++);
  let failures = '';
  const finish = () => {
    process.stdout.write(failures);
    console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
    process.exitCode = counts.failed === 0 ? 0 : 1;
  };

  const packages = ['test', 'contracts', 'circuits', 'console', 'clients/typescript', 'tracing'];
  const install = node(['scripts/install.mjs', ...packages]);
  // The service needs none of them: its build goes beside. A second one builds the rest.
  const service = await node(['scripts/build.mjs']);
  const installed = await install;
  // The longest check goes beside the rest of the build, most others beside the tests, one at a time.
  const types = withChecks && installed.isGood ? check('types') : undefined;
  if (!installed.isGood || !service.isGood || !(await node(['scripts/build.mjs'])).isGood) {
    counts.failed++;
    return finish();
  }
  const checks = (async () => {
    if (!types) return;
    count(await types);
    for (const name of ['lint', 'format', 'dependencies', 'unused', 'changelog', 'openapi']) count(await check(name));
  })();

  const faults = option('--faults');
  const long = faults && !option('--short');
  let runs = [withChecks ? without([...FAULTS, ...MEASURED]) : []];
  if (faults && selection.length > 0) runs = [['--verbose']];
  else if (faults) runs = [['--verbose', ...FAULTS, ...(long ? LONGER : []), ...without(MEASURED)], measured];
  if (option('--all')) runs = [without(MEASURED), measured];
  const memory = withChecks ? folderInMemory() : undefined;
  const env = { ...(long && { FAULTS: 'long' }), ...(memory && { TMPDIR: memory }) };
  for (const args of runs) {
    const tests = await node([...JEST, ...selection, ...args], ['inherit', 'pipe', 'inherit'], env);
    // test/reporter.js ends its output with the counts.
    const [line, passed, failed, skipped] = /^(\d+) passed, (\d+) failed, (\d+) skipped\n$/m.exec(tests.output) ?? [];
    failures += (tests.output.match(/^failed: .*\n/gm) ?? []).join('');
    process.stdout.write(tests.output.replace(/^failed: .*\n/gm, '').replace(line ?? '', ''));
    counts.passed += Number(passed ?? 0);
    counts.failed += Math.max(Number(failed ?? 0), tests.isGood ? 0 : 1);
    counts.skipped += Number(skipped ?? 0);
  }
  await checks;
  // Alone: what requests run depends on what else the machine does.
  if (withChecks) count(await check('size'));
  finish();
}

const loops = option('--stress') ? [1, 2].map(() => spawn(process.execPath, ['-e', 'for (;;);'])) : [];
process.once('exit', () => {
  sendAll('SIGKILL');
  loops.forEach((loop) => loop.kill('SIGKILL'));
});
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    sendAll('SIGTERM');
    setTimeout(() => process.exit(1), 1_000);
  });
}
await main();
loops.forEach((loop) => loop.kill('SIGKILL'));
