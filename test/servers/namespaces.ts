import { spawnSync } from 'node:child_process';

/** A process in PID, network and mount namespaces of its own, as in another container on the same volume. */
export const ANOTHER_CONTAINER = ['unshare', '--pid', '--net', '--mount', '--mount-proc', '--fork', '--kill-child'];

const isPossible = spawnSync(ANOTHER_CONTAINER[0]!, [...ANOTHER_CONTAINER.slice(1), 'true']).status === 0;
if (!isPossible) process.stderr.write('namespaces cannot be made here, which takes root: their tests are skipped\n');

/** A test that needs namespaces. */
export const namespaceTest = isPossible ? test : test.skip;
