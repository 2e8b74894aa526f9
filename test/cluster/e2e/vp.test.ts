import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('vp', () => import('../../e2e/vp.test.js'));
