import fc from 'fast-check';
import type { NewEvent, RecordedEvent } from '../../src/kernel/event.js';
import type { Fact } from '../../src/kernel/event-definition.js';
import { canonicalJson, sha256Hex } from '../../src/kernel/hash.js';
import { type IdentityState, newIdentity } from '../../projections/identities.js';
import { totalsIn } from '../../src/features/disc/action-tally.js';
import { reasonsOf } from '../../src/features/validation-policies/reasons.js';
import { Comparison, Summarizer, side } from '../../src/features/validation-policies/comparison.js';
import {
  type LensOwner,
  decidePromote,
  decideRollback,
  lensOwner,
  lensStackOf,
} from '../../src/features/lenses/domain/lens-stream.js';
import {
  type PolicyContent,
  VP_ID,
  contentHash,
  decideCreate,
  decideRetire,
  lensOf,
  policyOf,
  refuseUnsound,
  warningsOf,
  weightsOf,
} from '../../src/features/lenses/domain/validation-policy.js';
import { Problem } from '../../src/kernel/problems.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { CRITICALITIES, type Criticality, MODEL } from '../../src/scoring/model.js';
import { MODELS, type Scoring, scoringBy } from '../../src/scoring/models/all.js';
import { standingOf } from '../../src/scoring/score.js';
import { DAY, TODAY, action, evidenceOf } from '../scoring/evidence.js';

/** Facts as the log gives them back. */
function given(facts: readonly Fact[]): RecordedEvent[] {
  return facts.map(({ type, schema, data }, revision) => {
    const at = '2026-01-01T00:00:00.000Z';
    const metadata = { schema, occurred_at: at, recorded_at: at } as NewEvent['metadata'];
    return { id: String(revision), type, data, metadata, stream: 's', revision, position: revision + 1 };
  });
}

const weightOf = (criticality: Criticality) => MODEL.criticality_hundredths[criticality] / 100;
const policy = (inputs: [string, Criticality][], more: Partial<PolicyContent> = {}): PolicyContent => ({
  policy_id: 'VP_LEND_V1',
  tris_org: 'tris:lender',
  inputs: inputs.map(([metric, criticality]) => ({ metric, criticality, weight: weightOf(criticality) })),
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
  names: inputs.map(([metric]) => metric),
  ...more,
});
const LEND = policy([
  ['financial_loan_repayment_consistency', 'Critical'],
  ['security_multisig_participation', 'High'],
]);

function refusalOf(act: () => unknown): Problem | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    return error as Problem;
  }
}

describe('a policy', () => {
  test('is recorded completely in its stream, with the hash of its content', () => {
    const history = given(decideCreate(undefined, LEND));
    const { names: _, ...hashed } = LEND;
    const content_hash = sha256Hex(canonicalJson(hashed));
    expect(policyOf(history)).toEqual({
      ...LEND,
      content_hash,
      retired: false,
    });
    expect(contentHash(policyOf(history)!)).toBe(content_hash);
    expect(policyOf([])).toBeUndefined();
  });

  test('is retired once', () => {
    const created = decideCreate(undefined, LEND);
    const retired = decideRetire(policyOf(given(created))!);
    expect(retired.map(({ type }) => type)).toEqual(['ValidationPolicyRetired']);
    expect(decideRetire(policyOf(given([...created, ...retired]))!)).toEqual([]);
  });

  test('has exact sums of weights, in total and by category', () => {
    const many = policy(Array.from({ length: 7 }, (_, i) => [`financial_a${i}`, 'Critical']));
    expect(weightsOf(many.inputs)).toEqual({ computed_weight: 0.98, category_weights: { financial: 0.98 } });
    expect(refuseUnsound(many)).toBeUndefined();
  });

  test.each([
    ['100 of the least', Array.from({ length: 100 }, () => 'Minimal' as const), undefined],
    ['1.05', [...Array.from({ length: 7 }, () => 'Critical' as const), 'Moderate' as const], undefined],
    ['1.06', [...Array.from({ length: 7 }, () => 'Critical' as const), 'Moderate', 'Minimal'] as Criticality[], 422],
  ])('adds up to at most 1.05: %s', (_name, criticalities, status) => {
    const content = policy(criticalities.map((criticality, i) => [`social_m${i}`, criticality]));
    const refusal = refusalOf(() => refuseUnsound(content));
    expect(refusal?.status).toBe(status);
    if (status)
      expect(refusal?.extra.errors).toMatchObject([{ pointer: '/inputs', code: 'total_weight_out_of_range' }]);
  });

  test.each([
    [0.9499999, false],
    [0.95, true],
    [1.05, true],
    [1.0500001, false],
  ])('declares a total of %d: %p', (total_weight, accepted) => {
    const content = { ...LEND, metadata: { ...LEND.metadata, total_weight } };
    expect(refusalOf(() => refuseUnsound(content)) === undefined).toBe(accepted);
  });

  test('warns of a low sum, of a declared total that differs, and of a name that is nearly documented', () => {
    const near = policy([
      ['security_multisig_participatoin', 'High'],
      ['security_multisig_nothing_alike', 'High'],
    ]);
    expect(warningsOf(near).map(({ pointer, code }) => [pointer, code])).toEqual([
      ['/inputs/0/metric', 'similar_metric'],
      ['/inputs', 'computed_weight_low'],
    ]);
    expect(warningsOf(near)[0]!.message).toContain('security_multisig_participation');
    const differs = policy(Array.from({ length: 7 }, (_, i) => [`financial_a${i}`, 'Critical']));
    expect(warningsOf(differs).map(({ code }) => code)).toEqual(['total_weight_differs']);
  });

  test.each([
    ['VP_LEND_V1', true],
    ['VP_LEND_2_X_V12', true],
    ['VP_2_V1', true],
    ['VP_LEND_V0', false],
    ['VP_LEND_V01', false],
    ['VP__V1', false],
    ['VP_LEND', false],
    ['AP_LEND_V1', false],
    ['vp_lend_v1', false],
  ])('is named as %s: %p', (id, accepted) => expect(VP_ID.test(id)).toBe(accepted));
});

describe('a lens', () => {
  const platform = lensOwner('platform', 'tris:lender');
  const { inputs } = policy(Array.from({ length: 10 }, (_, i) => [`social_part_${i}`, 'High']));
  const A = { policy_id: 'VP_A_V1', content_hash: 'a', retired: false, inputs };
  const B = { policy_id: 'VP_B_V1', content_hash: 'b', retired: false, inputs };
  const stackAfter = (owner: LensOwner, ...facts: Fact[]) => lensStackOf(given(facts), owner);

  test('is the model’s own for the platform, and the platform’s for an organization, before any promotion', () => {
    expect(stackAfter(platform).at(-1)).toEqual({ policy_id: null, content_hash: MODEL_LENS.content_hash });
    const organization = lensOwner('organization', 'tris:lender');
    expect(stackAfter(organization).at(-1)).toEqual({ policy_id: null, content_hash: null });
  });

  test('is promoted with its replay and the previous lens', () => {
    const [first] = decidePromote(stackAfter(platform), platform, A, 'rpl_1');
    const [second] = decidePromote(stackAfter(platform, first!), platform, B, null);
    expect(first!.data).toMatchObject({ policy_id: 'VP_A_V1', replay_id: 'rpl_1', previous: { policy_id: null } });
    expect(second!.data).toMatchObject({ policy_id: 'VP_B_V1', previous: { policy_id: 'VP_A_V1', content_hash: 'a' } });
    expect(decidePromote(stackAfter(platform, first!), platform, A, null)).toEqual([]);
  });

  test('is not promoted once retired', () => {
    const act = () => decidePromote(stackAfter(platform), platform, { ...A, retired: true }, null);
    expect(refusalOf(act)?.code).toBe('policy_retired');
  });

  test('is rolled back to the previous lens, as often as there is one', () => {
    const facts: Fact[] = [];
    const stack = () => stackAfter(platform, ...facts);
    facts.push(...decidePromote(stack(), platform, A, null));
    facts.push(...decidePromote(stack(), platform, B, null));
    expect(refusalOf(() => decideRollback(stack(), platform, 'VP_A_V1'))?.code).toBe('policy_not_active');
    facts.push(...decideRollback(stack(), platform, 'VP_B_V1'));
    expect(stack().at(-1)!.policy_id).toBe('VP_A_V1');
    expect(facts.at(-1)!.data).toMatchObject({ reason: 'rolled_back', previous: { policy_id: 'VP_B_V1' } });
    facts.push(...decideRollback(stack(), platform, 'VP_A_V1'));
    expect(stack().at(-1)).toEqual({ policy_id: null, content_hash: MODEL_LENS.content_hash });
    expect(refusalOf(() => decideRollback(stack(), platform, 'VP_A_V1'))?.code).toBe('policy_not_active');
  });
});

const METRICS = ['financial_repaid', 'financial_late_flags', 'social_vouch', 'security_audit', 'creative_art'];
const states: fc.Arbitrary<IdentityState> = fc
  .record({
    actions: fc.array(
      fc.record({
        metric: fc.constantFrom(...METRICS),
        criticality: fc.constantFrom(...CRITICALITIES),
        at: fc.integer({ min: TODAY - 900 * DAY, max: TODAY }),
      }),
      { maxLength: 80 },
    ),
    level: fc.option(fc.integer({ min: 1, max: 6 }), { freq: 5 }),
  })
  .map(({ actions, level }) => ({
    ...newIdentity(),
    evidence: evidenceOf(actions),
    bad_status: level === null ? null : { level, reason_code: 'x', since: 0 },
  }));
const lenses = fc
  .tuple(
    fc.oneof(
      fc.constant(MODEL_LENS),
      fc
        .dictionary(fc.constantFrom(...METRICS), fc.constantFrom(...CRITICALITIES))
        .map((weights) => lensOf({ ...policy(Object.entries(weights)), content_hash: JSON.stringify(weights) })),
    ),
    fc.constantFrom(...MODELS),
  )
  .map(([lens, model]) => scoringBy(lens, model));

const reasonsIn = (state: IdentityState, before: Scoring, after: Scoring) =>
  reasonsOf({ metricTotals: async () => totalsIn(state.evidence) }, state, before, after);

describe('a comparison of two lenses and models', () => {
  test('gives the same values as the scores themselves', async () => {
    await fc.assert(
      fc.asyncProperty(lenses, lenses, fc.array(states, { maxLength: 20 }), async (before, after, population) => {
        const comparison = new Comparison(before, after);
        for (const state of population) {
          comparison.compare(state);
          for (const [lens, tenths, net] of [
            [before, comparison.before, comparison.netBefore],
            [after, comparison.after, comparison.netAfter],
          ] as const) {
            const { score, score_rating, total_tct } = standingOf(
              lens.model.ledger(state.evidence, lens),
              state.bad_status?.level ?? null,
            );
            expect(side(tenths, net)).toEqual({ score, score_rating, total_tct });
          }
          const reasons = await reasonsIn(state, before, after);
          if (Object.keys(state.evidence).length > 5) continue;
          const moved = reasons.reduce((sum, { before_tct, after_tct }) => sum + after_tct - before_tct, 0);
          expect(moved).toBe(comparison.netAfter - comparison.netBefore);
        }
      }),
    );
  });

  test('lists the first twenty of equals by TRIS id, in whatever order they come', async () => {
    const [before, after] = [MODEL_LENS, lensOf({ ...LEND, content_hash: 'lend' })].map((lens) => {
      return scoringBy(lens, MODELS[0]!);
    }) as [Scoring, Scoring];
    const probe = {
      policy_id: 'AP_X_V1',
      lens: null,
      grants: (_state: IdentityState, lens: Scoring) => lens === after,
    };
    const fold = new Summarizer(before, after, [probe], TODAY);
    const ids = Array.from({ length: 30 }, (_, i) => `tris:${10 + i}`);
    const evidence = evidenceOf([action(LEND.inputs[0]!.metric, 'Low')]);
    for (const id of ids.toReversed()) fold.add(id, { ...newIdentity(), evidence }, async () => []);
    const { top_movers, access } = await fold.summary();
    expect(top_movers.up.map(({ tris_id }) => tris_id)).toEqual(ids.slice(0, 20));
    expect(access[0]).toMatchObject({ gained: 30, gained_by: ids.slice(0, 20) });
  });

  test('asks an access policy with a lens of its own by both versions of the model', async () => {
    const [before, after] = MODELS.map((model) => scoringBy(MODEL_LENS, model)) as [Scoring, Scoring];
    const grants = (_state: IdentityState, lens: Scoring) => lens.model === after.model;
    const fold = new Summarizer(before, after, [{ policy_id: 'AP_X_V1', lens: MODEL_LENS, grants }], TODAY);
    fold.add('tris:a', newIdentity(), async () => []);
    expect((await fold.summary()).access[0]).toMatchObject({ granted_before: 0, granted_after: 1, gained: 1 });
  });

  test('has the same summary in any order, with every identity once', async () => {
    await fc.assert(
      fc.asyncProperty(lenses, lenses, fc.array(states, { maxLength: 60 }), async (before, after, population) => {
        const probe = {
          policy_id: 'AP_X_V1',
          lens: null,
          grants: (state: IdentityState, lens: typeof before) =>
            standingOf(lens.model.ledger(state.evidence, lens), null).score >= 8,
        };
        const summarise = (order: number[]) => {
          const fold = new Summarizer(before, after, [probe], TODAY);
          for (const i of order) {
            const state = population[i]!;
            fold.add(`tris:${String(i).padStart(3, '0')}`, state, () => reasonsIn(state, before, after));
          }
          return fold.summary();
        };
        const order = population.map((_state, i) => i);
        const summary = await summarise(order);
        expect(await summarise(order.reverse())).toEqual(summary);
        const total = (counts: Record<string, number> | number[]) => Object.values(counts).reduce((a, b) => a + b, 0);
        for (const { by_rating, by_score } of Object.values(summary.histogram)) {
          expect([total(by_rating), total(by_score)]).toEqual([population.length, population.length]);
        }
        expect(summary.up + summary.down + summary.unchanged).toBe(population.length);
        expect(summary.top_movers.up.length).toBe(Math.min(20, summary.up));
        const sizes = summary.top_movers.down.map(({ delta }) => delta);
        expect(sizes).toEqual([...sizes].sort((a, b) => a - b));
      }),
      { numRuns: 50 },
    );
  });
});
