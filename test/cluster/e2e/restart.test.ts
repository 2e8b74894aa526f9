import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('restart', () => import('../../e2e/restart.test.js'));
