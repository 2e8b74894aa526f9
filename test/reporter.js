/** Ends a run with one plain line of counts, whatever the runner prints. */
export default class CountsReporter {
  onRunComplete(_contexts, { numPassedTests, numFailedTests, numPendingTests, numRuntimeErrorTestSuites }) {
    const failed = numFailedTests + numRuntimeErrorTestSuites;
    process.stdout.write(`${numPassedTests} passed, ${failed} failed, ${numPendingTests} skipped\n`);
  }
}
