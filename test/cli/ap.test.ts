import { SLOW, Store, action } from './credence.js';

describe('credence ap', () => {
  let store: Store;
  const RULES = { disc_min: 7.5 };
  const policy = (policy_id: string, more: object = {}) =>
    store.file(`${policy_id}.json`, [{ policy_id, rules: RULES, ...more }]);
  beforeEach(async () => {
    store = await Store.create();
    const actions = Array.from({ length: 5 }, (_, n) =>
      action(n, {
        external_id: `n-${n}`,
        tris_id: 'tris:able',
        category: 'finance',
        action_type: 'loan_repayment',
        criticality: 'Critical',
      }),
    );
    await store.json('import', store.file('actions.ndjson', actions));
  }, SLOW);
  afterEach(() => store.remove());

  test(
    'creates, lists, shows and retires a policy',
    async () => {
      expect((await store.json<object[]>('ap', 'list')).length).toBe(0);
      const file = policy('AP_LOAN_V1', { ttl_seconds: 60 });
      const created = await store.run('ap', 'create', file);
      expect([created.code, created.stdout]).toEqual([0, expect.stringMatching(/^AP_LOAN_V1 created [0-9a-f]{64}\n$/)]);
      expect((await store.run('ap', 'create', file)).stdout).toMatch(/^AP_LOAN_V1 exists /);
      const other = await store.run('ap', 'create', policy('AP_LOAN_V1', { ttl_seconds: 61 }));
      expect([other.code, other.stderr]).toEqual([1, expect.stringMatching(/exists with other content/)]);
      const wrong = await store.run('ap', 'create', policy('AP_WRONG_V1', { rules: { any: [{ disc_min: 101 }] } }));
      expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/\/rules\/any\/0\/disc_min/)]);

      expect(await store.run('ap', 'create', '/nowhere.json')).toMatchObject({
        code: 2,
        stderr: 'credence: /nowhere.json does not exist.\n',
      });

      const broken = store.file('broken.json', ['{']);
      expect(await store.run('ap', 'create', broken)).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^credence: \S+broken\.json is not JSON: /),
      });

      expect(await store.json('ap', 'list')).toMatchObject([
        { policy_id: 'AP_LOAN_V1', status: 'active', tris_org: null },
      ]);
      expect((await store.run('ap', 'list')).stdout).toMatch(/AP_LOAN_V1 +active +the operators +private/);
      expect(JSON.parse((await store.run('ap', 'show', 'AP_LOAN_V1')).stdout)).toMatchObject({
        rules: RULES,
        ttl_seconds: 60,
      });
      expect((await store.run('ap', 'retire', 'AP_LOAN_V1')).stdout).toBe('AP_LOAN_V1 retired\n');
      expect(await store.json('ap', 'list')).toMatchObject([{ status: 'retired' }]);
      const refused = await store.run('ap', 'check', 'AP_LOAN_V1', 'tris:able');
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/retired/)]);
      expect((await store.run('ap', 'show', 'AP_NONE_V1')).stderr).toMatch(/no access policy AP_NONE_V1/);
    },
    SLOW,
  );

  test(
    'checks a subject, records the decision, and says why it is denied',
    async () => {
      await store.run('ap', 'create', policy('AP_OPEN_V1'));
      const granted = await store.run('ap', 'check', 'AP_OPEN_V1', 'tris:able');
      expect([granted.code, granted.stdout]).toEqual([
        0,
        expect.stringMatching(/^tris:able granted by AP_OPEN_V1 \(score \d/),
      ]);
      const denied = await store.run('ap', 'check', 'AP_OPEN_V1', 'tris:nobody');
      expect(denied.code).toBe(1);
      expect(denied.stdout).toMatch(
        /^tris:nobody denied by AP_OPEN_V1 \(unknown\)\n {2}identity: unknown, required known/,
      );
      expect(denied.stdout).toMatch(/would pass with net_tct \d+, is 0/);
      const verified = [{ status: 'zk-KYH', issuers: ['tris:bank', 'tris:notary'] }];
      await store.run('ap', 'create', policy('AP_BANK_V1', { rules: { verification: verified } }));
      expect((await store.run('ap', 'check', 'AP_BANK_V1', 'tris:able')).stdout).toContain(
        'would pass with verification.zk-KYH true by tris:bank or tris:notary, is false\n',
      );
      expect(JSON.parse((await store.run('ap', 'check', 'AP_OPEN_V1', 'tris:able', '--json')).stdout)).toMatchObject({
        granted: true,
        eligibility_token: expect.stringMatching(/^ey/),
      });
      const audited = await store.json<{ decisions: object[]; agrees: boolean }>('access', 'audit', 'tris:able');
      expect([audited.decisions.length, audited.agrees]).toEqual([3, true]);
      expect(await store.run('ap', 'check', 'AP_OPEN_V1', 'nobody')).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/^credence: "nobody" is not a TRIS id: it starts with "tris@", /),
      });
    },
    SLOW,
  );
});
