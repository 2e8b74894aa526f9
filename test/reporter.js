import { writeSync } from 'node:fs';

/** Ends a run with one plain line of counts, below everything that the runner prints. */
export default class CountsReporter {
  onRunComplete(_contexts, { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites }) {
    const failed = numFailedTests + numRuntimeErrorTestSuites;
    const line = `${numPassedTests} passed, ${failed} failed, ${numPendingTests} skipped\n`;
    process.once('exit', () => writeSync(1, line));
  }
}
