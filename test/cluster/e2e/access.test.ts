import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('access', () => import('../../e2e/access.test.js'));
