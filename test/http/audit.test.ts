import { base64Of, leafOf } from '../../src/kernel/merkle.js';
import { becomes } from '../contracts/harness.js';
import { applied, relay, seen, startService } from '../policies/service.fixture.js';

const RELAYED = { tris_id: 'tris:alice', category: 'financial', action_type: 'swap', criticality: 'High' };

test('an action whose row is ahead of the tree has no proof until the tree has its leaf', async () => {
  const service = await startService();
  const { eventStore, readModels } = service.stores;
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  try {
    await relay(service, [RELAYED]);
    const rebuild = await service.post('/v1/ops/rebuild', { views: ['log_tree'], swap: true });
    await becomes(
      async () => (await service.get(`/v1/jobs/${rebuild.json.job_id}`, { 'x-api-key': service.key })).json.status,
      (status) => status === 'completed',
    );
    await applied(service);
    const { views } = (await readModels.manifest())!;
    expect(views['log_tree']).not.toBe(views['actions']);

    const apply = readModels.apply.bind(readModels);
    readModels.apply = async (id, batch) => {
      if (id === views['log_tree']) await released;
      return apply(id, batch);
    };
    const { json: relayed } = await service.post('/api/decision-relay', { platform_id: 'lender', ...RELAYED });
    const query = `/v1/audit/inclusion?event_id=${relayed.action_id}`;
    const early = await service.get(query);
    expect([early.status, early.json.code]).toEqual([503, 'projection_behind']);
    release();
    const { json } = await service.get(query, await seen(service));
    const event = (await eventStore.readAt(Number(json.position.split('.')[1])))!;
    expect([event.id, base64Of(leafOf(event))]).toEqual([relayed.action_id, json.leaf]);
  } finally {
    release();
    await service.close();
  }
});

test('the entries of a tile with an event that is damaged, or that an operator has deleted, are refused', async () => {
  const service = await startService();
  const { eventStore } = service.stores;
  const readAt = eventStore.readAt.bind(eventStore);
  try {
    await relay(service, [RELAYED]);
    await applied(service);
    const entries = () => service.get('/log/tile/entries/000.p/2', { 'x-api-key': service.key });
    expect((await entries()).status).toBe(200);
    const damage = { reason: 'its checksum is that of another text', tris_id: null };
    for (const [found, said] of [
      [{ ...(await readAt(1))!, damage }, 'damaged'],
      [undefined, 'no longer in the log'],
    ] as const) {
      eventStore.readAt = async (position) => (position === 1 ? found : readAt(position));
      const { status, json } = await entries();
      const detail = `The event at ${eventStore.logId}.1, which has a leaf, is ${said}.`;
      expect([status, json]).toEqual([500, expect.objectContaining({ code: 'history_unreadable', detail })]);
    }
  } finally {
    await service.close();
  }
});
