import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('several processes', () => import('../../e2e/processes.test.js'));
