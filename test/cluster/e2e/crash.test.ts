import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('crash', () => import('../../e2e/crash.test.js'));
