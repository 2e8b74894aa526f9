import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('operations', () => import('../../e2e/operations.test.js'));
