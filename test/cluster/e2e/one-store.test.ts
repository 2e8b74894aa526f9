import { describeOnCluster } from './on-cluster.js';

await describeOnCluster('relay, scores and access', async () => {
  await import('../../e2e/relay.test.js');
  await import('../../e2e/scores.test.js');
  await import('../../e2e/access.test.js');
});
