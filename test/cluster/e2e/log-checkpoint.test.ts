import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('checkpoints of the log', () => import('../../e2e/log-checkpoint.test.js'));
