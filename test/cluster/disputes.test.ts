import { DisputeOutcomes } from '../../src/features/disputes/dispute-outcomes.js';
import { openProfile } from '../../src/stores/open.js';
import { eventually } from '../contracts/harness.js';
import { type Service, applied, startService } from '../policies/service.fixture.js';
import { Cluster, describeOnOwnCluster } from '../servers/cluster.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

const LONG = 240_000;
const DAY_MS = 86_400_000;
const DISPUTES = 20;

describeOnOwnCluster('disputes that nobody answers, with two workers', () => {
  let cluster: Cluster;
  let services: [Service, Service];
  let later = 0;
  const clock = () => Date.now() + later;
  const start = () =>
    startService({ ...cluster.env, CREDENCE_DISPUTE_DAYS: '1' }, clock, (config) => openProfile(config, clock));
  beforeAll(async () => {
    cluster = await Cluster.start();
    services = [await start(), await start()];
  }, LONG);
  afterAll(async () => {
    for (const service of services ?? []) await service.close();
    await cluster?.stop();
  }, LONG);

  test(
    'lapse once, however often both sweep, and a later rejection reinstates the action',
    async () => {
      const [one, other] = services;
      const key = { 'x-api-key': cluster.key };
      const { tris_id, ...person } = await claim(one, newAccount());
      const action = { tris_id, action_type: 'default', category: 'social', criticality: 'low', platform_id: 'app' };
      const opened = Array.from({ length: DISPUTES }, async () => {
        const { action_id } = (await one.post('/api/decision-relay', action, key)).json;
        const { dispute_id } = (await one.post('/v1/disputes', { action_id }, bearer(person))).json;
        return { action_id, dispute_id } as { action_id: string; dispute_id: string };
      });
      const all = await Promise.all(opened);
      await applied(one);
      later = DAY_MS;
      // Neither sees in the read models what the other has done.
      const releases = await Promise.all(services.map((service) => service.holdReadModels()));
      const sweep = ({ app }: Service) => app.get(DisputeOutcomes).sweep();
      await Promise.all(services.map(sweep));
      await sweep(other);
      for (const release of releases) await release();

      const changes = async (id: string, count: number) => {
        const read = async () => (await other.get(`/v1/actions/${id}`, key)).json.changes as { state: string }[];
        await eventually(async () => (await read()).length >= count, `the action has changed ${count} times`);
        return (await read()).map(({ state }) => state);
      };
      const types = async (id: string) =>
        (await one.stores.eventStore.readStream(`dispute-${id}`)).map(({ type }) => type);
      for (const { action_id, dispute_id } of all) {
        expect(await changes(action_id, 1)).toEqual(['withdrawn']);
        const { status } = await other.post(`/v1/disputes/${dispute_id}/answer`, { outcome: 'rejected' }, key);
        expect(status).toBe(200);
        expect(await changes(action_id, 2)).toEqual(['withdrawn', 'counted']);
        expect(await types(dispute_id)).toEqual(['DisputeOpened', 'DisputeLapsed', 'DisputeAnswered']);
      }
    },
    LONG,
  );
});
