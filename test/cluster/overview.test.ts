import { openProfile } from '../../src/stores/open.js';
import { type Service, relay, seen, startService } from '../policies/service.fixture.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';

const LONG = 240_000;

describeOnOwnCluster('the overview, where positions have gaps', () => {
  let cluster: Cluster;
  let service: Service;
  beforeAll(async () => {
    cluster = await Cluster.start();
    service = await startService(cluster.env, Date.now, (config) => openProfile(config, Date.now));
  }, LONG);
  afterAll(async () => {
    await service?.close();
    await cluster?.stop();
  }, LONG);

  test(
    'shows an identity of more events than it looks at',
    async () => {
      const action = { tris_id: 'tris:long', category: 'social', action_type: 'vote', criticality: 'low' };
      const key = { 'x-api-key': cluster.key };
      await relay(
        service,
        Array.from({ length: 70 }, () => action),
        key,
      );
      const headers = { ...key, ...(await seen(service)) };
      const { status, json } = await service.get('/v1/disc/overview', headers);
      expect([status, json]).toMatchObject([200, { identities: 1, rating_changes: expect.any(Array) }]);
    },
    LONG,
  );
});
