import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('relay', () => import('../../e2e/relay.test.js'));
