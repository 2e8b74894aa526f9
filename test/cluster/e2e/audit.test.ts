import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('the audit of the log', () => import('../../e2e/audit.test.js'));
