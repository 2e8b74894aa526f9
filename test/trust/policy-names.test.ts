import { SCOPES } from '../../src/credentials/caller.js';
import { fact } from '../../src/kernel/event-definition.js';
import { internalActor } from '../../src/commands/context.js';
import { Writer } from '../../src/commands/writer.js';
import { accessPolicyCreated } from '../../src/features/access/domain/ap.events.js';
import { type Service, as, policyBody, startServiceWithKeys } from '../policies/service.fixture.js';

/** Whoever creates the first version of a policy's name owns the name; no other organization creates further versions. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
  { id: 'lendco-2', scopes: ['policies:write'], organization: 'tris:lendco' },
  { id: 'other', scopes: SCOPES, organization: 'tris:other' },
];
const [OPERATOR, LENDCO, OTHER] = [as('operator'), as('lendco'), as('other')];

let service: Service;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
});
afterAll(() => service.close());

const ap = async (policy_id: string, by: Record<string, string>, disc_min = 10) => {
  const { status, json } = await service.post('/v1/policies/ap', { policy_id, rules: { disc_min } }, by);
  return status < 400 ? status : `${status} ${json.code}`;
};
const vp = async (policy_id: string, by: Record<string, string>, trisOrg: string) => {
  const body = policyBody(policy_id, { finance_loan_repayment: 'Critical' }, trisOrg);
  const { status, json } = await service.post('/v1/policies/vp', body, by);
  return status < 400 ? status : `${status} ${json.code}`;
};
const REFUSED = '403 policy_name_not_owned';

test('another organization cannot create a later version of an access policy', async () => {
  expect(await ap('AP_LENDCO_MAIN_V1', LENDCO)).toBe(201);
  expect(await ap('AP_LENDCO_MAIN_V2', OTHER)).toBe(REFUSED);
  expect(await ap('AP_LENDCO_MAIN_V2', LENDCO)).toBe(201);
  expect(await ap('AP_LENDCO_MAIN_V3', as('lendco-2'))).toBe(201);
});

test('another organization cannot create a later version of a validation policy', async () => {
  expect(await vp('VP_LENDCO_MAIN_V1', LENDCO, 'tris:lendco')).toBe(201);
  expect(await vp('VP_LENDCO_MAIN_V2', OTHER, 'tris:other')).toBe(REFUSED);
  expect(await vp('VP_LENDCO_MAIN_V2', LENDCO, 'tris:lendco')).toBe(201);
});

test('the first version may have any number, and names differ by more than the version', async () => {
  expect(await ap('AP_SHARED_V7', LENDCO)).toBe(201);
  expect(await ap('AP_SHARED_V1', OTHER)).toBe(REFUSED);
  expect(await ap('AP_SHARED_V7_V1', OTHER)).toBe(201);
  expect(await vp('VP_SHARED_V1', OTHER, 'tris:other')).toBe(201);
});

test('a policy that exists is a repetition or a conflict', async () => {
  expect(await ap('AP_REPEATED_V1', LENDCO)).toBe(201);
  expect(await ap('AP_REPEATED_V1', LENDCO)).toBe(200);
  expect(await ap('AP_REPEATED_V1', LENDCO, 20)).toBe('409 policy_conflict');
  expect(await ap('AP_REPEATED_V1', OTHER)).toBe('409 policy_conflict');
});

test('an operator’s key creates versions of any name; a name that it took first is the operators’', async () => {
  expect(await ap('AP_LENDCO_OPS_V1', LENDCO)).toBe(201);
  expect(await ap('AP_LENDCO_OPS_V2', OPERATOR)).toBe(201);
  expect(await ap('AP_LENDCO_OPS_V3', LENDCO)).toBe(201);
  expect(await ap('AP_PLATFORM_V1', OPERATOR)).toBe(201);
  expect(await ap('AP_PLATFORM_V2', LENDCO)).toBe(REFUSED);
  // A validation policy names its owner.
  expect(await vp('VP_OF_LENDCO_V1', OPERATOR, 'tris:lendco')).toBe(201);
  expect(await vp('VP_OF_LENDCO_V2', OTHER, 'tris:other')).toBe(REFUSED);
  expect(await vp('VP_OF_LENDCO_V2', LENDCO, 'tris:lendco')).toBe(201);
});

test('of two organizations that take a name at once, one gets it', async () => {
  for (let round = 1; round <= 20; round++) {
    const name = `AP_RACE_${round}`;
    const answers = await Promise.all([ap(`${name}_V1`, LENDCO), ap(`${name}_V2`, OTHER), ap(`${name}_V3`, OTHER)]);
    const [lendco, ...other] = answers;
    expect(other).toEqual(lendco === 201 ? [REFUSED, REFUSED] : [201, 201]);
    expect([201, REFUSED]).toContain(lendco);
    const events = await service.stores.eventStore.readStream(`policy-name-${name}`);
    expect(events.map(({ data }) => data['owner'])).toEqual([lendco === 201 ? 'tris:lendco' : 'tris:other']);
  }
});

test('a refused creation leaves nothing in the log', async () => {
  expect(await ap('AP_LENDCO_OWN_V1', LENDCO)).toBe(201);
  const head = await service.stores.eventStore.head();
  const body = { policy_id: 'AP_NOTHING_V1', rules: { disc_min: 1 }, vp: 'VP_UNKNOWN_V1' };
  expect((await service.post('/v1/policies/ap', body, { ...OTHER, 'idempotency-key': 'nothing' })).status).toBe(404);
  expect(await ap('AP_LENDCO_OWN_V9', { ...OTHER, 'idempotency-key': 'later' })).toBe(REFUSED);
  expect(await service.stores.eventStore.head()).toBe(head);
  expect(await ap('AP_OTHER_V1', { ...OTHER, 'idempotency-key': 'later' })).toBe(201);
  expect(await ap('AP_OTHER_V1', { ...OTHER, 'idempotency-key': 'later' })).toBe(201);
});

test('an operator reserves a name, or gives it to whom it belongs; the policies under it keep their owner', async () => {
  const assign = async (name: string, tris_org: string, by: Record<string, string>) =>
    (await service.post('/v1/policies/names', { name, tris_org }, by)).status;
  expect(await assign('AP_RESERVED', 'tris:lendco', OPERATOR)).toBe(200);
  expect(await ap('AP_RESERVED_V1', OTHER)).toBe(REFUSED);
  expect(await ap('AP_RESERVED_V1', LENDCO)).toBe(201);

  expect(await ap('AP_LENDCO_TAKEN_V1', OTHER)).toBe(201);
  expect(await ap('AP_LENDCO_TAKEN_V2', LENDCO)).toBe(REFUSED);
  expect(await assign('AP_LENDCO_TAKEN', 'tris:lendco', LENDCO)).toBe(403);
  expect(await assign('AP_LENDCO_TAKEN', 'tris:lendco', OPERATOR)).toBe(200);
  expect(await assign('AP_LENDCO_TAKEN', 'tris:lendco', OPERATOR)).toBe(200);
  expect(await ap('AP_LENDCO_TAKEN_V2', LENDCO)).toBe(201);
  expect(await ap('AP_LENDCO_TAKEN_V3', OTHER)).toBe(REFUSED);
  expect((await service.get('/v1/policies/ap/AP_LENDCO_TAKEN_V1', OPERATOR)).json.tris_org).toBe('tris:other');
  expect(await assign('AP_LENDCO_TAKEN_V1_', 'tris:lendco', OPERATOR)).toBe(200);
  expect(await assign('LENDCO', 'tris:lendco', OPERATOR)).toBe(400);
});

test('a name that was in use before ownership was recorded belongs to the owner of its oldest version', async () => {
  const writer = service.app.get(Writer);
  for (const [version, owner] of [
    [2, 'tris:lendco'],
    [1, 'tris:other'],
  ] as const) {
    const policy_id = `AP_OLD_V${version}`;
    const data = {
      policy_id,
      owner,
      rules: { disc_min: 1 },
      ttl_seconds: 600,
      vp: null,
      visibility: 'private' as const,
    };
    const context = { actor: internalActor('key:old'), correlation_id: '', idempotency: null, body_hash: policy_id };
    await writer.create(`ap-${policy_id}`, [fact(accessPolicyCreated, { ...data, content_hash: policy_id })], context);
  }
  expect(await ap('AP_OLD_V3', OTHER)).toBe(REFUSED);
  expect(await service.stores.eventStore.readStream('policy-name-AP_OLD')).toEqual([]);
  expect(await ap('AP_OLD_V3', LENDCO)).toBe(201);
  const [event] = await service.stores.eventStore.readStream('policy-name-AP_OLD');
  expect(event!.data).toEqual({ name: 'AP_OLD', owner: 'tris:lendco' });
});
