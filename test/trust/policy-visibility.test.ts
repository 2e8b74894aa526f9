import { randomUUID } from 'node:crypto';
import { SCOPES } from '../../src/credentials/caller.js';
import type { NewEvent } from '../../src/kernel/event.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { eventually } from '../contracts/harness.js';
import { type Service, as, policyBody, relay, seen, startServiceWithKeys } from '../policies/service.fixture.js';
import { bearer, claim, newAccount } from '../sessions/wallet.js';

/** The rules of an access policy are for its owner and for operators, unless it is public. Everybody may check by it. */

const KEYS = [
  { id: 'operator', scopes: SCOPES },
  { id: 'integrator', scopes: ['access:check', 'policies:write'] },
  { id: 'lendco', scopes: SCOPES, organization: 'tris:lendco' },
  { id: 'lendco-2', scopes: ['access:check'], organization: 'tris:lendco' },
  { id: 'other', scopes: SCOPES, organization: 'tris:other' },
];
const [OPERATOR, LENDCO, OTHER] = [as('operator'), as('lendco'), as('other')];

let service: Service;
let session: Record<string, string>;
beforeAll(async () => {
  service = await startServiceWithKeys(KEYS);
  session = bearer(await claim(service, newAccount()));
  await relay(
    service,
    [{ tris_id: 'tris:bob', category: 'finance', action_type: 'loan_repayment', criticality: 'high' }],
    OPERATOR,
  );
});
afterAll(() => service.close());

const rules = { disc_min: 55.5, verification: ['zk-KYH'] };
const create = (policy_id: string, by: Record<string, string>, more: object = {}) =>
  service.post('/v1/policies/ap', { policy_id, rules, ...more }, by);
/** The rules, or the refusal. */
const read = async (policy_id: string, by: Record<string, string> = {}) => {
  const { status, json } = await service.get(`/v1/policies/ap/${policy_id}`, by);
  return status === 200 ? json.rules : `${status} ${json.code}`;
};
const check = async (policy_id: string, by: Record<string, string>, subject_tris = 'tris:bob', key?: string) => {
  const headers = { ...by, ...(await seen(service)), ...(key && { 'idempotency-key': key }) };
  const { status, json } = await service.post('/v1/policies/ap/check', { policy_id, subject_tris }, headers);
  expect(status).toBe(200);
  return json;
};

describe('a private policy', () => {
  const ID = 'AP_PRIVATE_V1';
  beforeAll(async () => {
    const { status, json } = await create(ID, LENDCO);
    expect([status, json.visibility]).toEqual([201, 'private']);
  });

  test('shows its rules to keys of its owner and to keys with ops', async () => {
    for (const by of [LENDCO, as('lendco-2'), OPERATOR]) expect(await read(ID, by)).toEqual(rules);
  });

  test('refuses its rules to everybody else', async () => {
    expect(await read(ID)).toBe('401 unauthorized');
    for (const by of [OTHER, as('integrator'), session]) expect(await read(ID, by)).toBe('403 forbidden');
  });

  test('is listed without rules, and with its hash only for those who may read them', async () => {
    const listed = async (by: Record<string, string>) => {
      const { json } = await service.get('/v1/policies/ap', { ...(await seen(service)), ...by });
      return json.policies.find((policy: { policy_id: string }) => policy.policy_id === ID);
    };
    for (const by of [{}, OTHER, as('integrator'), session]) {
      expect(await listed(by)).toMatchObject({ visibility: 'private', tris_org: 'tris:lendco', content_hash: null });
      expect(await listed(by)).not.toHaveProperty('rules');
    }
    const { json } = await service.get(`/v1/policies/ap/${ID}`, LENDCO);
    for (const by of [LENDCO, as('lendco-2'), OPERATOR]) {
      expect((await listed(by)).content_hash).toBe(json.content_hash);
    }
  });

  test('explains a denial to those who may read the rules', async () => {
    for (const by of [LENDCO, as('lendco-2'), OPERATOR]) {
      const { granted, reasons, how_to_pass } = await check(ID, by);
      expect(granted).toBe(false);
      expect(reasons).toHaveLength(2);
      expect(how_to_pass).toHaveLength(2);
    }
  });

  test('is a yes or a no to others, also when they repeat the check', async () => {
    for (const by of [OTHER, as('integrator')]) {
      const key = randomUUID();
      for (const once of [undefined, key, key]) {
        const answer = await check(ID, by, 'tris:bob', once);
        expect(answer).toMatchObject({
          granted: false,
          eligibility_token: null,
          reasons: [],
          how_to_pass: [],
          codes: [],
        });
        // The time of the check may contain the digits of the threshold.
        expect(JSON.stringify({ ...answer, checked_at: null })).not.toMatch(/55\.5|zk-KYH|disc_min/);
      }
      const unknown = await check(ID, by, 'tris:nobody-known');
      expect(unknown.reasons).toEqual([expect.objectContaining({ rule: 'identity' })]);
      expect(unknown).toMatchObject({ how_to_pass: [], codes: ['identity_unknown'] });
    }
  });

  test('records the whole reasons of every decision', async () => {
    const { headers } = await service.post(
      '/v1/policies/ap/check',
      { policy_id: ID, subject_tris: 'tris:bob' },
      { ...OTHER, ...(await seen(service)) },
    );
    const position = Number(String(headers['credence-position']).split('.')[1]);
    for await (const slice of service.stores.eventStore.readAll(position - 1)) {
      const event = slice.find((one) => one.position === position)!;
      expect(event.data['reasons']).toHaveLength(2);
      return;
    }
    throw new Error('the decision is not in the log');
  });

  test('is in no preview of a key that may not read its rules', async () => {
    const inputs = { finance_loan_repayment: 'High' } as const;
    const [policy, own] = [
      policyBody('VP_OTHER_V1', inputs, 'tris:other'),
      policyBody('VP_LENDCO_V1', inputs, 'tris:lendco'),
    ];
    for (const [body, by] of [
      [policy, OTHER],
      [own, LENDCO],
    ] as const) {
      expect((await service.post('/v1/policies/vp', body, by)).status).toBe(201);
    }
    const headers = await seen(service);
    const preview = async (body: object, by: Record<string, string>, access_policies?: string[]) => {
      const evaluated = { policy: body, access_policies, subjects: ['tris:bob'] };
      return (await service.post('/v1/policies/vp/evaluate', evaluated, { ...by, ...headers })).status;
    };
    expect(await preview(policy, OTHER, [ID])).toBe(403);
    expect(await preview(policy, as('integrator'), [ID])).toBe(403);
    expect(await preview(own, LENDCO, [ID])).toBe(200);
    expect(await preview(policy, OPERATOR, [ID])).toBe(200);

    const replay = async (id: string, by: Record<string, string>, body: object = {}) => {
      const { status, json } = await service.post(`/v1/policies/vp/${id}/replay`, body, { ...by, ...headers });
      if (status !== 202) return status;
      let result: { access: { policy_id: string }[] } | null = null;
      await eventually(async () => {
        ({ result } = (await service.get(`/v1/replays/${json.replay_id}`, by)).json);
        return result !== null;
      });
      return result!.access.map(({ policy_id }) => policy_id).includes(ID);
    };
    expect(await replay('VP_OTHER_V1', OTHER, { access_policies: [ID] })).toBe(403);
    expect(await replay('VP_OTHER_V1', OTHER)).toBe(false);
    expect(await replay('VP_LENDCO_V1', LENDCO)).toBe(true);
    expect(await replay('VP_OTHER_V1', OPERATOR)).toBe(true);
  });

  test('is in no answer about a replay that others started, unless the key may read its rules', async () => {
    const body = policyBody('VP_OTHER_V2', { finance_loan_repayment: 'High' }, 'tris:other');
    expect((await service.post('/v1/policies/vp', body, OTHER)).status).toBe(201);
    const by = { ...OPERATOR, ...(await seen(service)) };
    const { replay_id } = (await service.post('/v1/policies/vp/VP_OTHER_V2/replay', {}, by)).json;
    await eventually(async () => (await service.get(`/v1/replays/${replay_id}`, OPERATOR)).json.result !== null);
    const read: (readonly ['get' | 'delete', string])[] = [
      ['get', `/v1/replays/${replay_id}`],
      ['get', `/v1/jobs/${replay_id}`],
      ['get', `/v1/jobs/${replay_id}/result`],
      ['delete', `/v1/replays/${replay_id}`],
      ['delete', `/v1/jobs/${replay_id}`],
    ];
    for (const [method, path] of read) {
      const access = async (key: Record<string, string>) => {
        const { status, text } = await service[method](path, key);
        expect(status).toBe(200);
        expect(text).toContain('"access":');
        return text.includes(ID);
      };
      const shown = [await access(OPERATOR), await access(OTHER), await access(as('integrator'))];
      expect([method, path, shown]).toEqual([method, path, [true, false, false]]);
    }
  });

  test('does not confirm a guess of its rules', async () => {
    for (const by of [OTHER, as('integrator')]) {
      const right = await create(ID, by);
      const wrong = await create(ID, by, { rules: { disc_min: 1 } });
      expect(right.status).toBe(409);
      expect(right.json.detail).toBe(wrong.json.detail);
    }
  });
});

test('a public policy shows its rules and explains denials to everybody', async () => {
  expect((await create('AP_PUBLIC_V1', LENDCO, { visibility: 'public' })).status).toBe(201);
  for (const by of [{}, OTHER, session]) expect(await read('AP_PUBLIC_V1', by)).toEqual(rules);
  expect((await check('AP_PUBLIC_V1', OTHER)).how_to_pass).toHaveLength(2);
});

test('a public policy of another owner cannot be created again', async () => {
  expect((await create('AP_SHOWN_V1', LENDCO, { visibility: 'public' })).status).toBe(201);
  const { status, json } = await create('AP_SHOWN_V1', OTHER, { visibility: 'public' });
  expect([status, json.detail]).toEqual([409, 'AP_SHOWN_V1 belongs to another owner.']);
});

test('the operators’ own policies are for every key that is bound to no organization', async () => {
  expect((await create('AP_OPERATORS_V1', OPERATOR)).status).toBe(201);
  expect(await read('AP_OPERATORS_V1', as('integrator'))).toEqual(rules);
  expect(await read('AP_OPERATORS_V1', LENDCO)).toBe('403 forbidden');
  expect(await read('AP_OPERATORS_V1', session)).toBe('403 forbidden');
  expect(await read('AP_OPERATORS_V1')).toBe('401 unauthorized');
});

test('the visibility is part of the content', async () => {
  expect((await create('AP_CONTENT_V1', LENDCO)).status).toBe(201);
  expect((await create('AP_CONTENT_V1', LENDCO, { visibility: 'private' })).status).toBe(200);
  expect((await create('AP_CONTENT_V1', LENDCO, { visibility: 'public' })).json.code).toBe('policy_conflict');
  expect((await create('AP_CONTENT_V2', LENDCO, { visibility: 'secret' })).json.code).toBe('validation_failed');
});

test('a policy from before there was a visibility is private, and keeps its hash', async () => {
  const at = new Date().toISOString();
  const policy_id = 'AP_BEFORE_V1';
  const content_hash = (await create('AP_HASH_V1', LENDCO)).json.content_hash;
  expect(content_hash).toBe(
    sha256Hex(`{"policy_id":"AP_HASH_V1","rules":${JSON.stringify(rules)},"ttl_seconds":600,"vp":null}`),
  );
  const data = { policy_id, owner: 'tris:lendco', rules, ttl_seconds: 600, vp: null, content_hash: 'old' };
  const metadata = { schema: 1, occurred_at: at, recorded_at: at, correlation_id: 'old', actor: 'key:lendco' };
  const event: NewEvent = {
    id: randomUUID(),
    type: 'AccessPolicyCreated',
    data,
    metadata: { ...metadata, body_hash: 'old', index: 0, size: 1 },
  };
  await service.stores.eventStore.append(`ap-${policy_id}`, 'no-stream', [event]);
  expect(await read(policy_id, LENDCO)).toEqual(rules);
  expect(await read(policy_id, OTHER)).toBe('403 forbidden');
  expect(await read(policy_id)).toBe('401 unauthorized');
});
