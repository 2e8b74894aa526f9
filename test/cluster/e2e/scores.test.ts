import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('scores', () => import('../../e2e/scores.test.js'));
