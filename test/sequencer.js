import { createRequire } from 'node:module';
import { relative } from 'node:path';

const ofJest = createRequire(createRequire(import.meta.url).resolve('jest'));
const { default: Sequencer } = ofJest('@jest/test-sequencer');

/**
 * The suites that take longest, the longest first of each command. They begin in this order, whatever the runner has recorded of earlier
 * runs. Without such a record it would begin with the largest files, which are others: the last suites would then run
 * while most of the machine is idle.
 */
const LONGEST = [
  // of npm run test:faults
  'test/faults/memory.test.ts',
  'test/faults/disk.test.ts',
  'test/cluster/faults.test.ts',
  'test/cli/owner.test.ts',
  'test/console/console.test.ts',
  'test/faults/damage.test.ts',
  'test/faults/owner.test.ts',
  'test/e2e/start.test.ts',
  'test/console/operations.test.ts',
  'test/cluster/e2e/one-store.test.ts',
  'test/eventstoredb/faults.test.ts',
  'test/postgres/postgres-connection.test.ts',
  'test/console/lab.test.ts',
  'test/tracing/tracing.test.ts',
  'test/postgres/faults.test.ts',
  'test/cluster/chaos.test.ts',
  'test/checkpoints/checkpoints.test.ts',
  'test/cli/import.test.ts',
  'test/cluster/hidden-streams.test.ts',
  'test/cluster/e2e/operations.test.ts',
  'test/cli/verify.test.ts',
  'test/postgres/replaced.test.ts',
  'test/cluster/e2e/restart.test.ts',
  'test/cluster/e2e/vp.test.ts',
  // of npm test
  'test/eventstoredb/eventstoredb-event-store.test.ts',
  'test/postgres/postgres-read-models.test.ts',
  'test/redis/bullmq-jobs.test.ts',
  'test/embedded/lmdb-event-store.test.ts',
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
