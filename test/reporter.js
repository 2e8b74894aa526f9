import { lstatSync, readdirSync, writeSync } from 'node:fs';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/**
 * Ends a run with each failure and then one plain line of counts, below everything that the runner prints. A run in which the data folder of
 * the repository came into being or changed has failed: every server and command of a test gets a folder of its own.
 */
export default class CountsReporter {
  /** @param {{ rootDir: string }} config of the runner */
  constructor({ rootDir }) {
    this.rootDir = rootDir;
    this.folder = join(rootDir, 'data');
    this.before = stateOf(this.folder);
  }

  onRunComplete(
    _contexts,
    { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites, testResults = [] },
  ) {
    const changed = changes(this.before, stateOf(this.folder));
    if (changed.length > 0) {
      this.error = new Error(`the tests, or a service that runs here, changed ${changed.join(', ')}`);
      process.stderr.write(`${this.error.message}\n`);
    }
    const failed = numFailedTests + numRuntimeErrorTestSuites + (this.error ? 1 : 0);
    const failures = testResults.flatMap((suite) => failuresOf(suite, this.rootDir)).join('');
    const line = `${numPassedTests} passed, ${failed} failed, ${numPendingTests} skipped\n`;
    process.once('exit', () => {
      writeSync(1, failures + line);
      // Node 20 may otherwise never end: it cleans up, and may wait without end for a request on a closed socket.
      process.exit(failed === 0 ? process.exitCode : 1);
    });
  }

  /** The runner fails where a reporter has an error. */
  getLastError() {
    return this.error;
  }
}

/** @returns {string[]} for each failure of a file of tests its name and the beginning of its message, each line marked */
function failuresOf({ testFilePath, testResults, testExecError }, rootDir) {
  const file = relative(rootDir, testFilePath);
  const failed = testResults.filter(({ status }) => status === 'failed');
  const all = failed.map(({ fullName, failureMessages }) => `${file} › ${fullName}\n${failureMessages.join('\n')}`);
  if (testExecError) all.push(`${file}\n${testExecError.message}`);
  const plain = (text) => stripVTControlCharacters(text).split('\n').slice(0, 20);
  return all.map((text) =>
    plain(text)
      .map((line) => `failed: ${line}\n`)
      .join(''),
  );
}

/** @returns {Map<string, string>} size and time of change of a file or folder and of everything in it, by path */
function stateOf(path) {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return new Map();
  const state = new Map([[path, `${found.size} ${found.mtimeMs}`]]);
  if (found.isDirectory()) {
    for (const name of readdirSync(path)) for (const entry of stateOf(join(path, name))) state.set(...entry);
  }
  return state;
}

/** @param {Map<string, string>} before @param {Map<string, string>} after */
function changes(before, after) {
  return [...new Set([...before.keys(), ...after.keys()])].filter((path) => before.get(path) !== after.get(path));
}
