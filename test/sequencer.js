import { createRequire } from 'node:module';
import { relative } from 'node:path';

const ofJest = createRequire(createRequire(import.meta.url).resolve('jest'));
const { default: Sequencer } = ofJest('@jest/test-sequencer');

/**
 * The suites that take longest, the longest first. They begin in this order, whatever the runner has recorded of earlier
 * runs. Without such a record it would begin with the largest files, which are others: the last suites would then run
 * while most of the machine is idle.
 */
const LONGEST = [
  'test/cluster/faults.test.ts',
  'test/faults/disk.test.ts',
  'test/faults/memory.test.ts',
  'test/faults/damage.test.ts',
  'test/console/lab.test.ts',
  'test/console/console.test.ts',
  'test/cluster/e2e/restart.test.ts',
  'test/console/operations.test.ts',
  'test/cluster/e2e/operations.test.ts',
  'test/cluster/e2e/one-store.test.ts',
  'test/cluster/e2e/vp.test.ts',
];

/** After those, the runner's own order: by recorded durations where it has them, else by size. */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const place = ({ path, context }) => {
      const at = LONGEST.indexOf(relative(context.config.rootDir, path));
      return at < 0 ? LONGEST.length : at;
    };
    return super.sort(tests).sort((a, b) => place(a) - place(b));
  }
}
