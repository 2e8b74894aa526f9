import { onCluster } from '../../e2e/server.js';
import { noCluster } from '../../servers/cluster.js';

/** Runs a file of end-to-end tests on the cluster profile; skipped, with one line saying so, where it cannot be had. */
export async function describeOnCluster(name: string, load: () => Promise<unknown>): Promise<void> {
  if (noCluster !== undefined) {
    process.stderr.write(`skipped: ${name} on the cluster profile: ${noCluster}\n`);
    describe.skip(`${name} on the cluster profile`, () => test('is not run here', () => undefined));
    return;
  }
  onCluster();
  // Each server is four processes, one of them a database that takes its time to start.
  (import.meta as unknown as { jest: typeof jest }).jest.setTimeout(240_000);
  await load();
}
