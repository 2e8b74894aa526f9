import { type Service, policyBody, relay, startService } from './service.fixture.js';

let service: Service;
beforeAll(async () => void (service = await startService()));
afterAll(() => service.close());

/** A published sample: declares 1.02 over inputs that add to 0.55. */
const SAMPLE = {
  policy_id: 'VP_LEND_V1',
  tris_org: 'tris@lender',
  inputs: [
    { metric: 'finance_loan_repayment_consistency', criticality: 'critical', weight: 0.14 },
    { metric: 'finance_liquidity_provision_duration', criticality: 'Critical', weight: 0.14 },
    { metric: 'governance_vote_participation', criticality: 'High', weight: 0.1 },
    { metric: 'security_multisig_participation', criticality: 'High', weight: 0.1 },
    { metric: 'compliance_kyc_verified', criticality: 'Moderate', weight: 0.07 },
  ],
  metadata: { total_weight: 1.02, visibility: 'public', version: 'v1.0' },
};

describe('POST /v1/policies/vp', () => {
  test('creates an immutable policy: the same content again is 200, other content 409', async () => {
    const first = await service.post('/v1/policies/vp', SAMPLE);
    expect([first.status, first.json]).toEqual([
      201,
      {
        policy_id: 'VP_LEND_V1',
        tris_org: 'tris@lender',
        status: 'available',
        content_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
        computed_weight: 0.55,
        category_weights: { financial: 0.28, behavioral: 0.1, security: 0.1, compliance: 0.07 },
        warnings: [expect.objectContaining({ pointer: '/inputs', code: 'computed_weight_low' })],
      },
    ]);
    const again = await service.post('/v1/policies/vp', SAMPLE);
    expect([again.status, again.json]).toEqual([200, first.json]);
    const other = await service.post('/v1/policies/vp', { ...SAMPLE, tris_org: 'tris@other' });
    expect([other.status, other.json.code]).toEqual([409, 'policy_conflict']);
    const { json } = await service.get('/v1/policies/vp/VP_LEND_V1');
    expect(json).toMatchObject({ ...first.json, active_for: [], history: [{ status: 'created' }] });
    expect(json.inputs[0]).toEqual({
      metric: 'finance_loan_repayment_consistency',
      criticality: 'Critical',
      weight: 0.14,
    });
  });

  test('names every broken weight rule at once', async () => {
    const { status, json } = await service.post('/v1/policies/vp', {
      ...SAMPLE,
      policy_id: 'VP_WRONG_V1',
      inputs: [...SAMPLE.inputs, { metric: 'financial_loan_repayment_consistency', criticality: 'Low', weight: 0.1 }],
      metadata: { ...SAMPLE.metadata, total_weight: 1.06 },
    });
    expect([status, json.code]).toEqual([422, 'weight_criticality_mismatch']);
    expect(json.errors.map(({ pointer, code }: Record<string, string>) => [pointer, code])).toEqual([
      ['/inputs/5/weight', 'weight_criticality_mismatch'],
      ['/inputs/5/metric', 'duplicate_metric'],
      ['/metadata/total_weight', 'total_weight_out_of_range'],
    ]);
  });

  test.each([
    [{ policy_id: 'VP_lend_V1' }, '/policy_id', 400],
    [{ policy_id: 'VP_LEND_V01' }, '/policy_id', 400],
    [{ policy_id: 'VP__V1' }, '/policy_id', 400],
    [{ policy_id: `VP_${'A'.repeat(123)}_V1` }, '/policy_id', 400],
    [{ inputs: [] }, '/inputs', 400],
    [{ inputs: [{ ...SAMPLE.inputs[0], metric: 'sports_goals' }] }, '/inputs/0/metric', 400],
    [{ inputs: [{ ...SAMPLE.inputs[0], criticality: 'Huge' }] }, '/inputs/0/criticality', 400],
    [{ metadata: { ...SAMPLE.metadata, visibility: 'private' } }, '/metadata/visibility', 400],
    [{ metadata: { ...SAMPLE.metadata, version: '1.0' } }, '/metadata/version', 400],
    [{ metadata: { ...SAMPLE.metadata, total_weight: 0.94 } }, '/metadata/total_weight', 422],
  ])('refuses %j', async (change, pointer, expected) => {
    const { status, json } = await service.post('/v1/policies/vp', { ...SAMPLE, ...change });
    expect([status, json.errors[0].pointer]).toEqual([expected, pointer]);
  });
});

describe('vp=', () => {
  test('computes every answer under the policy, whatever its status', async () => {
    const policy = policyBody('VP_SEEN_V1', { finance_repaid: 'Critical', security_odd_flags: 'Low' });
    expect((await service.post('/v1/policies/vp', policy)).status).toBe(201);
    const position = await relay(service, [
      { tris_id: 'tris:seen', category: 'finance', action_type: 'repaid', criticality: 'low' },
      { tris_id: 'tris:seen', category: 'social', action_type: 'greeted', criticality: 'critical' },
      { tris_id: 'tris:seen', category: 'security', action_type: 'odd_flags', criticality: 'critical' },
    ]);
    const min = { 'credence-min-position': position };
    const score = async (query: string) => (await service.get(`/v1/disc/score/tris:seen${query}`, min)).json;
    const own = await score('');
    expect(own).toMatchObject({ earned_tct: 170, forfeited_tct: 1400, lens: { policy_id: null } });
    expect(await score('?vp=model')).toEqual(own);
    const seen = await score('?vp=VP_SEEN_V1');
    expect(seen).toMatchObject({ earned_tct: 140, forfeited_tct: 300, lens: { policy_id: 'VP_SEEN_V1' } });
    const history = await service.get('/v1/disc/score/tris:seen/history?vp=VP_SEEN_V1', min);
    expect(history.json.entries.map(({ tct_delta }: { tct_delta: number }) => tct_delta)).toEqual([140, 0, -300]);
    const explained = await service.get('/v1/disc/score/tris:seen/explain?vp=VP_SEEN_V1', min);
    expect(explained.json).toMatchObject({ score: seen.score, lens: seen.lens });
    for (const path of ['score', 'metrics', 'report']) {
      const batch = await service.post(`/v1/disc/${path}/batch`, { tris_ids: ['tris:seen'], vp: 'VP_SEEN_V1' }, min);
      expect([path, batch.status]).toEqual([path, 200]);
    }
    expect((await service.get('/v1/disc/metrics/tris:seen?metrics=finance_repaid&vp=VP_SEEN_V1', min)).status).toBe(
      200,
    );
    expect((await service.post('/v1/policies/vp/VP_SEEN_V1/retire')).json.status).toBe('retired');
    expect(await score('?vp=VP_SEEN_V1')).toMatchObject({ earned_tct: 140 });
    const unknown = await service.get('/v1/disc/score/tris:seen?vp=VP_NONE_V1');
    expect([unknown.status, unknown.json.code]).toEqual([404, 'policy_not_found']);
  });

  test('accepts every metric that some policy weighs', async () => {
    await service.post('/v1/policies/vp', policyBody('VP_RARE_V1', { creative_rare_art: 'High' }));
    const position = await relay(service, [
      { tris_id: 'tris:rare', category: 'social', action_type: 'greeted', criticality: 'low' },
    ]);
    const min = { 'credence-min-position': position };
    const path = '/v1/disc/metrics/tris:rare?metrics=';
    expect((await service.get(`${path}creative_rare_art`, min)).json.payload).toEqual({ creative_rare_art: 0 });
    expect((await service.get(`${path}creative_never_seen`)).json.code).toBe('unknown_metric');
  });
});

test('lists policies in pages, and those of one organization', async () => {
  const create = (id: string, by: string) => service.post('/v1/policies/vp', policyBody(id, { social_a: 'Low' }, by));
  await create('VP_PAGE_A_V1', 'tris:a');
  await create('VP_PAGE_Z_V1', 'tris:z');
  const created = await create('VP_PAGE_B_V1', 'tris:a');
  const min = { 'credence-min-position': created.headers['credence-position'] as string };
  const ids: string[] = [];
  for (let cursor = ''; ;) {
    const { json } = await service.get(`/v1/policies/vp?limit=2${cursor}`, min);
    ids.push(...json.policies.map(({ policy_id }: { policy_id: string }) => policy_id));
    if (json.next_cursor === null) break;
    cursor = `&cursor=${json.next_cursor}`;
  }
  const own = ids.filter((id) => id.startsWith('VP_PAGE_'));
  expect(own).toEqual(['VP_PAGE_A_V1', 'VP_PAGE_B_V1', 'VP_PAGE_Z_V1']);
  const { json } = await service.get('/v1/policies/vp?tris_org=tris:z');
  expect(json.policies).toEqual([
    expect.objectContaining({ policy_id: 'VP_PAGE_Z_V1', status: 'available', version: 'v1.0' }),
  ]);
});
