import { eventually } from '../contracts/harness.js';
import { type Service, as, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';
import { Receiver } from '../webhooks/receiver.js';

/** Modules without those that usually come with them: the read models have what they read. */

const KEYS = [
  { id: 'operator', scopes: ['trove:review', 'policies:write', 'access:check', 'webhooks:write', 'ops'] },
  { id: 'submitter', scopes: ['trove:write'] },
];
const OPERATOR = as('operator');

let service: Service;
afterEach(() => service.close());

/** An action that follows from a record; `review` decides on it again. */
async function approved(tris_id: string) {
  const record = {
    tris_id,
    record_type: 'milestone',
    metric: 'creative_code_contribution',
    criticality: 'High',
    title: 'A release',
    content_hash: 'a'.repeat(64),
    occurred_at: new Date().toISOString(),
  };
  const { record_id } = (await service.post('/v1/trove/submit', record, as('submitter'))).json;
  const review = (body: object) => service.post(`/v1/trove/${record_id}/review`, body, OPERATOR);
  expect((await review({ decision: 'approve', platform_id: 'app' })).status).toBe(200);
  const { json } = await service.get(`/v1/trove/${record_id}`, { ...OPERATOR, ...(await seen(service)) });
  return { action_id: json.decision.action_id as string, review };
}

test('a webhook tells which decisions a withdrawal changes where withdrawals are not served', async () => {
  const env = { CREDENCE_MODULES: 'policies,trove,webhooks', CREDENCE_WEBHOOK_LOOPBACK: 'on' };
  service = await startServiceWithKeys(KEYS, env);
  const receiver = new Receiver();
  await receiver.start();
  try {
    const { review } = await approved('tris:bob');
    await service.post('/v1/policies/ap', { policy_id: 'AP_TCT_V1', rules: { tct_min: 50 } }, OPERATOR);
    const check = { policy_id: 'AP_TCT_V1', subject_tris: 'tris:bob' };
    const { json } = await service.post('/v1/policies/ap/check', check, { ...OPERATOR, ...(await seen(service)) });
    expect(json.granted).toBe(true);
    const hook = { url: receiver.url, events: ['decision.would_differ'] };
    expect((await service.post('/v1/webhooks', hook, OPERATOR)).status).toBe(201);
    expect((await review({ decision: 'revoke', reason_code: 'mistake' })).status).toBe(200);
    await eventually(() => receiver.received.length > 0);
    expect(receiver.received[0]!.message).toMatchObject({
      type: 'decision.would_differ',
      data: { tris_id: 'tris:bob' },
    });
  } finally {
    await receiver.stop();
  }
});

test('an action is disputed where nothing else reads identities', async () => {
  service = await startServiceWithKeys(KEYS, { CREDENCE_MODULES: 'sessions,wallets,trove,disputes' });
  const tokens = await claim(service, newAccount());
  const { action_id } = await approved(tokens.tris_id);
  const headers = { ...bearer(tokens), ...(await seen(service)) };
  const { status, json } = await service.post('/v1/disputes', { action_id, statement: 'Not mine.' }, headers);
  expect([status, json.code]).toEqual([200, undefined]);
});
