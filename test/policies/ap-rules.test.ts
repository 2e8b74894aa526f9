import fc from 'fast-check';
import { FALSE, TRUE, UNKNOWN, evaluate, outcomesOf, reasonsFor } from '../../src/features/access/evaluate.js';
import { type Facts, type Measured, SubjectFacts, factsFrom } from '../../src/features/access/facts.js';
import type { FactChangeDto } from '../../src/features/access/ap.dto.js';
import { type Advice, howToPass } from '../../src/features/access/how-to-pass.js';
import type { NoticeReasonDto } from '../../src/features/access/notice.dto.js';
import { noticeReasons } from '../../src/features/access/notice.js';
import { MAX_NODES, type Rule, STATUSES, parseRules } from '../../src/features/access/rules.js';
import { newIdentity } from '../../projections/identities.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { type Category, MODEL } from '../../src/scoring/model.js';
import { scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { smallestNet } from '../../src/scoring/score.js';

type Health = Record<Category, number | null>;

const NOTHING: Measured = {
  incomplete: false,
  net_tct: 0,
  actions: 0,
  bad_level: null,
  reliability: null,
  health: () => null,
  verified: new Set(),
};

function factsWith(changes: Partial<Omit<Measured, 'health'>> & { health?: Partial<Health> } = {}): Facts {
  return factsFrom({ ...NOTHING, ...changes, health: (category) => changes.health?.[category] ?? null });
}

function parsed(rules: unknown): Rule {
  const result = parseRules(rules);
  if ('errors' in result) throw new Error(JSON.stringify(result.errors));
  return result.rule;
}

const outcome = (rules: unknown, facts: Facts) => evaluate(parsed(rules), facts);

function errorsOf(rules: unknown): string[] {
  const result = parseRules(rules);
  return 'errors' in result ? result.errors.map(({ pointer, code }) => `${pointer} ${code}`) : [];
}

describe('parsing rules', () => {
  const nested = (levels: number): unknown => (levels === 1 ? { disc_min: 5 } : { not: nested(levels - 1) });
  const conditions = (count: number) => Array.from({ length: count }, () => ({ disc_min: 1 }));

  it.each<[unknown, string[]]>([
    [null, ['/rules is_object']],
    [[], ['/rules is_object']],
    ['disc_min', ['/rules is_object']],
    [{}, ['/rules empty']],
    [{ disc: 5 }, ['/rules/disc unknown_field']],
    [{ 'a/b~c': 5, disc_min: 1 }, ['/rules/a~1b~0c unknown_field']],
    [{ disc_min: -1 }, ['/rules/disc_min min']],
    [{ disc_min: 100.1 }, ['/rules/disc_min max']],
    [{ disc_min: '60' }, ['/rules/disc_min is_number']],
    [{ disc_min: null }, ['/rules/disc_min is_number']],
    [{ disc_min: NaN }, ['/rules/disc_min min']],
    [{ tct_min: -5 }, ['/rules/tct_min min']],
    [{ tct_min: Infinity }, ['/rules/tct_min max']],
    [{ rating_min: 'good' }, ['/rules/rating_min is_in']],
    [{ reliability_min: 1.5 }, ['/rules/reliability_min max']],
    [{ metrics: {} }, ['/rules/metrics empty']],
    [{ metrics: [] }, ['/rules/metrics is_object']],
    [{ metrics: { finance: 60 } }, ['/rules/metrics/finance max']],
    [{ metrics: { finance: 0.6, money: 0.5 } }, ['/rules/metrics/money unknown_category']],
    [{ metrics: { finance: 0.6, financial: 0.5 } }, ['/rules/metrics/financial duplicate']],
    [{ verification: [] }, ['/rules/verification empty']],
    [{ verification: 'zk-KYH' }, ['/rules/verification is_array']],
    [{ verification: ['zk-KYH', 'KYC'] }, ['/rules/verification/1 is_in']],
    [{ verification: ['zk-KYH', 'zk-KYH'] }, ['/rules/verification/1 duplicate']],
    [{ all: [] }, ['/rules/all empty']],
    [{ any: {} }, ['/rules/any is_array']],
    [{ any: [{ disc_min: 5 }, { metrics: { finance: 2 } }] }, ['/rules/any/1/metrics/finance max']],
    [{ all: [{ disc_min: 5 }, {}] }, ['/rules/all/1 empty']],
    [{ all: [{ disc_min: 5 }, null, 7] }, ['/rules/all/1 is_object', '/rules/all/2 is_object']],
    [{ not: [] }, ['/rules/not is_object']],
    [{ not: { not: { disc_min: 'x' } } }, ['/rules/not/not/disc_min is_number']],
    [{ all: [{ disc_min: 5 }], disc_min: 5 }, ['/rules/disc_min stands_alone']],
    [{ all: [{ disc_min: 5 }], any: [{ disc_min: 5 }] }, ['/rules/any stands_alone']],
    [{ not: { disc_min: 5 }, of: [] }, ['/rules/of stands_alone']],
    [{ at_least: 1 }, ['/rules/of required']],
    [{ of: [{ disc_min: 5 }] }, ['/rules/at_least required']],
    [{ at_least: 0, of: [{ disc_min: 5 }] }, ['/rules/at_least min']],
    [{ at_least: 1.5, of: [{ disc_min: 5 }] }, ['/rules/at_least min']],
    [{ at_least: 2, of: [{ disc_min: 5 }] }, ['/rules/at_least max']],
    [{ at_least: 1, of: [{ disc_min: 5 }], disc_min: 5 }, ['/rules/disc_min stands_alone']],
    [
      { any: [{ at_least: 3, of: [{ disc_min: 5 }, { not: {} }] }] },
      ['/rules/any/0/of/1/not empty', '/rules/any/0/at_least max'],
    ],
    [
      { disc_min: 101, metrics: { social: -1 }, verification: [1] },
      ['/rules/disc_min max', '/rules/metrics/social min', '/rules/verification/0 is_in'],
    ],
    [nested(8), []],
    [nested(9), ['/rules/not/not/not/not/not/not/not/not too_deep']],
    [{ any: conditions(MAX_NODES - 1) }, []],
    [{ any: conditions(MAX_NODES) }, ['/rules too_many_nodes']],
    [JSON.parse('{"__proto__": {"disc_min": 5}}'), ['/rules/__proto__ unknown_field']],
  ])('%j has the errors %j', (rules, expected) => {
    expect(errorsOf(rules)).toEqual(expected);
  });

  it('never throws, points into its input, and accepts only rules that can be evaluated', () => {
    const names = fc.constantFrom(
      'all',
      'any',
      'not',
      'at_least',
      'of',
      'disc_min',
      'metrics',
      'verification',
      'finance',
      'x',
    );
    const { rules } = fc.letrec((tie) => ({
      rules: fc.oneof(
        { maxDepth: 6 },
        fc.oneof(fc.jsonValue(), fc.constantFrom('zk-KYH', 1, 0.5, 'Good')),
        fc.dictionary(names, tie('rules'), { maxKeys: 3 }),
        fc.array(tie('rules'), { maxLength: 4 }),
      ),
    }));
    fc.assert(
      fc.property(fc.oneof(rules, fc.anything()), (value) => {
        const result = parseRules(value);
        if ('rule' in result) expect([FALSE, UNKNOWN, TRUE]).toContain(evaluate(result.rule, factsWith()));
        else {
          expect(result.errors.length).toBeGreaterThan(0);
          for (const { pointer, message } of result.errors) {
            expect(pointer).toMatch(/^\/rules(\/|$)/);
            expect(message.length).toBeLessThan(400);
          }
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('takes time in proportion to the size, also of hostile rules', () => {
    const cpuOf = (size: number) => {
      const wide = { any: Array.from({ length: 2 * size }, () => null) };
      const fields = Object.fromEntries(Array.from({ length: size }, (_, i) => [`k${i}`, 1]));
      const before = process.cpuUsage();
      expect(errorsOf(wide).length).toBeLessThanOrEqual(100);
      expect(errorsOf(fields)).toHaveLength(100);
      expect(errorsOf({ metrics: fields }).length).toBeLessThanOrEqual(100);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    cpuOf(10_000);
    // The least of several: a single one may contain a collection of garbage, or more.
    const least = (size: number) => Math.min(...Array.from({ length: 5 }, () => cpuOf(size)));
    // Ten times the size; a quadratic reader would take a hundred times as long.
    expect(least(100_000)).toBeLessThan(40 * Math.max(least(10_000), 2_000));
  });
});

describe('outcomes', () => {
  // One condition for each of Kleene's values.
  const T = { disc_min: 1 };
  const F = { disc_min: 90 };
  const U = { metrics: { finance: 0.1 } };

  it.each<[unknown, number]>([
    [T, TRUE],
    [F, FALSE],
    [U, UNKNOWN],
    [{ not: T }, FALSE],
    [{ not: F }, TRUE],
    [{ not: U }, UNKNOWN],
    [{ not: { not: U } }, UNKNOWN],
    [{ all: [T, T] }, TRUE],
    [{ all: [T, F] }, FALSE],
    [{ all: [T, U] }, UNKNOWN],
    [{ all: [U, F] }, FALSE],
    [{ all: [U, U] }, UNKNOWN],
    [{ any: [T, F] }, TRUE],
    [{ any: [U, T] }, TRUE],
    [{ any: [F, F] }, FALSE],
    [{ any: [F, U] }, UNKNOWN],
    [{ at_least: 2, of: [T, T, F] }, TRUE],
    [{ at_least: 2, of: [T, F, F] }, FALSE],
    [{ at_least: 2, of: [T, U, F] }, UNKNOWN],
    [{ at_least: 2, of: [U, F, F] }, FALSE],
    [{ at_least: 2, of: [T, U, T] }, TRUE],
    [{ disc_min: 1, tct_min: 0 }, TRUE],
    [{ disc_min: 1, tct_min: 10 }, FALSE],
  ])('of %j is %j', (rules, expected) => {
    expect(outcome(rules, factsWith())).toBe(expected);
  });

  it.each<[unknown, Facts, number]>([
    [{ disc_min: 62.7 }, factsWith({ net_tct: 13_704 }), TRUE],
    [{ disc_min: 62.8 }, factsWith({ net_tct: 13_704 }), FALSE],
    [{ rating_min: 'Very Good' }, factsWith({ net_tct: 13_704 }), TRUE],
    [{ rating_min: 'Excellent' }, factsWith({ net_tct: 13_704 }), FALSE],
    [{ rating_min: 'Poor' }, factsWith({ net_tct: -1 }), FALSE],
    [{ rating_min: 'BAD' }, factsWith({ net_tct: -1 }), TRUE],
    [{ tct_min: 500 }, factsWith({ net_tct: 500 }), TRUE],
    [{ tct_min: 500.5 }, factsWith({ net_tct: 500 }), FALSE],
    [{ tct_min: 0 }, factsWith({ net_tct: -700 }), TRUE],
    [{ disc_min: 50 }, factsWith({ net_tct: 90_000, bad_level: 3 }), FALSE],
    [{ reliability_min: 0 }, factsWith(), UNKNOWN],
    [{ reliability_min: 0.5 }, factsWith({ reliability: 0.5 }), TRUE],
    [{ metrics: { governance: 0.2 } }, factsWith({ health: { behavioral: 0.2 } }), TRUE],
    [{ metrics: { financial: 0 } }, factsWith(), UNKNOWN],
    [{ metrics: { financial: 0 } }, factsWith({ health: { financial: 0 } }), TRUE],
    [{ verification: ['zk-KYH'] }, factsWith({ verified: new Set(['zk-KYH']) }), TRUE],
    [{ verification: ['zk-KYH', 'zk-KYC (ID only)'] }, factsWith({ verified: new Set(['zk-KYH']) }), FALSE],
    [{ verification: ['BAD Status validation'] }, factsWith(), FALSE],
    [{ verification: ['BAD Status validation'] }, factsWith({ actions: 1 }), TRUE],
    [{ verification: ['BAD Status validation'] }, factsWith({ actions: 1, net_tct: -1 }), FALSE],
    [{ verification: ['BAD Status validation'] }, factsWith({ actions: 1, bad_level: 6 }), FALSE],
    [{ disc_min: 0 }, factsWith({ incomplete: true }), UNKNOWN],
    [{ not: { disc_min: 90 } }, factsWith({ incomplete: true }), UNKNOWN],
  ])('%j', (rules, facts, expected) => {
    expect(outcome(rules, facts)).toBe(expected);
  });
});

describe('reasons', () => {
  it('name every condition that prevents a grant, with the required and the actual value', () => {
    const rules = parsed({
      all: [
        { disc_min: 5 },
        {
          any: [
            { tct_min: 900, metrics: { finance: 0.3 } },
            { at_least: 1, of: [{ verification: ['zk-KYH'] }] },
          ],
        },
        { not: { disc_min: 1 } },
        { rating_min: 'Good' },
      ],
    });
    expect(reasonsFor(rules, factsWith({ net_tct: 100, actions: 1 }))).toEqual([
      { pointer: '/all/1/any/0/tct_min', rule: 'tct_min', required: 900, actual: 100, outcome: 'failed' },
      { pointer: '/all/1/any/0/metrics/finance', rule: 'metrics', required: 0.3, actual: null, outcome: 'unknown' },
      { pointer: '/all/1/any/1/at_least', rule: 'at_least', required: 1, actual: 0, outcome: 'failed' },
      {
        pointer: '/all/1/any/1/of/0/verification/0',
        rule: 'verification',
        required: 'zk-KYH',
        actual: false,
        outcome: 'failed',
      },
      { pointer: '/all/2/not', rule: 'not', required: false, actual: true, outcome: 'failed' },
      { pointer: '/all/3/rating_min', rule: 'rating_min', required: 'Good', actual: 'Poor', outcome: 'failed' },
    ]);
    expect(reasonsFor(parsed({ disc_min: 5 }), factsWith())).toEqual([]);
    expect(reasonsFor(parsed({ disc_min: 5 }), factsWith({ incomplete: true }))).toMatchObject([
      { pointer: '', rule: 'identity', outcome: 'unknown' },
    ]);
  });
});

// Few values each, so that thresholds meet facts often.
const NET = [-2_000, -1, 0, 10, 300, 2_000, 9_000, 40_000];
const PART = [0, 0.2, 0.5, 0.9];
const aFact = <T>(values: readonly T[]) => fc.option(fc.constantFrom(...values), { nil: null });
const facts = fc
  .record({
    incomplete: fc.constant(false),
    net_tct: fc.constantFrom(...NET),
    actions: fc.constantFrom(1, 5),
    bad_level: fc.oneof({ weight: 3, arbitrary: fc.constant(null) }, fc.constantFrom(1, 3, 6)),
    reliability: aFact(PART),
    health: fc.record(
      Object.fromEntries(MODEL.categories.map((name) => [name, aFact(PART)])) as Record<
        Category,
        fc.Arbitrary<number | null>
      >,
    ),
    verified: fc.subarray(STATUSES.slice(0, 3)).map((held) => new Set<string>(held)),
  })
  .chain((measured) => fc.constantFrom(measured, ...(measured.net_tct === 0 ? [{ ...measured, actions: 0 }] : [])))
  .map(({ health, ...measured }) => factsFrom({ ...measured, health: (category) => health[category] }));

const condition = fc.oneof(
  fc.constantFrom(0, 3, 5, 7, 20, 62, 80).map((disc_min) => ({ disc_min })),
  fc.constantFrom(0, 1, 300, 1_999.5, 9_000, 20_000).map((tct_min) => ({ tct_min })),
  fc.constantFrom('BAD', 'Poor', 'Fair', 'Good', 'Excellent').map((rating_min) => ({ rating_min })),
  fc.constantFrom(...PART, 0.7).map((reliability_min) => ({ reliability_min })),
  fc
    .tuple(fc.constantFrom('finance', 'social', 'security'), fc.constantFrom(...PART, 0.7))
    .map(([name, least]) => ({ metrics: { [name]: least } })),
  fc.constantFrom(...STATUSES).map((status) => ({ verification: [status] })),
);
/** The same as a version of the model sees them that measures evidence. */
const measuredFacts = fc.tuple(facts, fc.constantFrom(0, 0.5, 1, 3)).map(([known, evidence]) => {
  return factsFrom({ ...known, evidence, reliability: evidence < 1 ? null : (known.reliability ?? 0.5) });
});
const measuredCondition = fc.oneof(
  fc.constantFrom(0, 1, 2.5).map((evidence_min) => ({ evidence_min })),
  fc.constantFrom(...PART, 0.7).map((reliability_min) => ({ reliability_min })),
);

test('where evidence is measured, the changes that advice names pass', () => {
  const part = fc.oneof(
    measuredCondition,
    measuredCondition.map((not) => ({ not })),
    fc.constantFrom(0, 7, 20).map((disc_min) => ({ disc_min })),
  );
  const rules = fc.array(part, { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(
      fc.oneof(
        rules.map((all) => ({ all })),
        rules.map((any) => ({ any })),
      ),
      measuredFacts,
      (asked, before) => {
        const rule = parsed(asked);
        const changes = howToPass(rule, before);
        if (changes.length > 0) expect(evaluate(rule, changed(before, changes))).toBe(TRUE);
      },
    ),
    { numRuns: 2_000 },
  );
});

function rulesOf(depth: number): fc.Arbitrary<object> {
  if (depth === 0) return condition;
  const parts = fc.array(rulesOf(depth - 1), { minLength: 1, maxLength: 4 });
  return fc.oneof(
    condition,
    parts.map((all) => ({ all })),
    parts.map((any) => ({ any })),
    parts.chain((of) => fc.integer({ min: 1, max: of.length }).map((at_least) => ({ at_least, of }))),
    rulesOf(depth - 1).map((not) => ({ not })),
  );
}
const someRules = rulesOf(3).filter((rules) => 'rule' in parseRules(rules));

/** The facts after exactly these changes. Net TCT can only rise by an action. */
function changed(before: Facts, changes: readonly FactChangeDto[]): Facts {
  const raised: Partial<Health> = {};
  const health = (category: Category) => raised[category] ?? before.health(category);
  const after = { ...before, health, verified: new Set(before.verified) };
  for (const { fact, required } of changes) {
    const [kind, name] = fact.split(/\.(.*)/s) as [string, string];
    if (kind === 'net_tct') Object.assign(after, { net_tct: required, actions: Math.max(1, before.actions) });
    else if (kind === 'health') raised[name as Category] = required as number;
    else if (kind === 'reliability') after.reliability = required as number;
    else if (kind === 'evidence') after.evidence = required as number;
    else if (kind === 'verification') after.verified.add(name);
    else if (kind === 'bad_status') after.bad_level = null;
    else throw new Error(fact);
  }
  return factsFrom(after);
}

/** What it takes to earn a value today with nothing flagged, by the formulas of docs/scoring.md. */
const tctTo = (isEnough: (tct: number) => boolean) => {
  let tct = 0;
  while (!isEnough(tct)) tct++;
  return tct;
};
const four = (value: number) => Math.round(value * 10_000) / 10_000;
const healthCost = new Map([0, ...PART, 0.7].map((h) => [h, tctTo((tct) => four(1 - Math.exp(-tct / 600)) >= h)]));
const reliabilityCost = new Map(
  [0, ...PART, 0.7].map((r) => [r, tctTo((tct) => four((tct / 1_000 + 0.05) / (tct / 1_000 + 0.055)) >= r)]),
);

function costOf({ fact, required, actual }: FactChangeDto): number {
  const [from, to] = [Number(actual ?? 0), Number(required)];
  if (fact === 'net_tct') return Math.max(10, to - from);
  if (fact.startsWith('verification')) return 1_000;
  const costs = fact === 'reliability' ? reliabilityCost : healthCost;
  return Math.max(10, costs.get(to)! - costs.get(from)!);
}
const costOfAll = (changes: readonly FactChangeDto[]) => changes.reduce((sum, change) => sum + costOf(change), 0);

/** Size and cost of the smallest, cheapest set of changes that grants, by trying all; undefined if none does. */
function bruteForce(rule: Rule, before: Facts): { size: number; cost: number } | undefined {
  const grants = (known: Facts) => evaluate(rule, known);
  const raise = (fact: string, actual: number | null, values: readonly number[]) =>
    [undefined, ...values.filter((value) => actual === null || value > actual)].map((required) =>
      required === undefined ? [] : [{ fact, required, actual, pointers: [] } as FactChangeDto],
    );
  // Every net TCT at which some condition of the generator changes.
  const nets = [...[3, 5, 7, 20, 40, 62, 80].map(smallestNet), 0, 1, 300, 2_000, 9_000, 20_000];
  const parts = [0, 0.2, 0.5, 0.7, 0.9];
  let options: FactChangeDto[][] = [[]];
  for (const axis of [
    raise('net_tct', before.net_tct, nets),
    raise('reliability', before.reliability, parts),
    ...(['financial', 'social', 'security'] as const).map((name) =>
      raise(`health.${name}`, before.health(name), parts),
    ),
    ...STATUSES.slice(0, 3).map((status) => raise(`verification.${status}`, before.verified.has(status) ? 1 : 0, [1])),
    before.bad_level === null
      ? [[]]
      : [[], [{ fact: 'bad_status', required: null, actual: 1, pointers: [] } as FactChangeDto]],
  ]) {
    options = options.flatMap((chosen) => axis.map((change) => [...chosen, ...change]));
    // Sets of up to three changes are enough to compare with: larger answers are checked for sufficiency only.
    options = options.filter((chosen) => chosen.length <= 3);
  }
  let best: { size: number; cost: number } | undefined;
  for (const option of options) {
    const size = option.length;
    if (best && size > best.size) continue;
    const cost = costOfAll(option.filter(({ fact }) => fact !== 'bad_status'));
    if (best && size === best.size && cost >= best.cost) continue;
    if (grants(changed(before, option)) === TRUE) best = { size, cost };
  }
  return best;
}

describe('how to pass', () => {
  it.each<[unknown, Facts, unknown[]]>([
    [{ disc_min: 5 }, factsWith(), []],
    [
      { disc_min: 62.7 },
      factsWith({ net_tct: 300 }),
      [{ fact: 'net_tct', required: 13_684, actual: 300, pointers: ['/disc_min'] }],
    ],
    [{ tct_min: 999.5 }, factsWith(), [{ fact: 'net_tct', required: 1000, actual: 0, pointers: ['/tct_min'] }]],
    [
      { disc_min: 20, tct_min: 100, metrics: { governance: 0.4 }, verification: ['zk-KYH'] },
      factsWith(),
      [
        { fact: 'net_tct', required: 2_250, actual: 0, pointers: ['/disc_min', '/tct_min'] },
        { fact: 'health.behavioral', required: 0.4, actual: null, pointers: ['/metrics/governance'] },
        { fact: 'verification.zk-KYH', required: true, actual: false, pointers: ['/verification/0'] },
      ],
    ],
    [
      { any: [{ disc_min: 20, metrics: { social: 0.1 } }, { verification: ['zk-KYH'] }] },
      factsWith(),
      [{ fact: 'verification.zk-KYH', required: true, actual: false, pointers: ['/any/1/verification/0'] }],
    ],
    [{ not: { disc_min: 5 } }, factsWith(), []],
    [{ not: { metrics: { finance: 0.5 } } }, factsWith({ health: { financial: 0.5 } }), []],
    [
      { not: { metrics: { finance: 0.5 } } },
      factsWith(),
      [{ fact: 'health.financial', required: 0, actual: null, below: 0.5, pointers: ['/not/metrics/finance'] }],
    ],
    [
      { all: [{ reliability_min: 0.5 }, { not: { reliability_min: 0.7 } }] },
      factsWith(),
      [
        {
          fact: 'reliability',
          required: 0.5,
          actual: null,
          below: 0.7,
          pointers: ['/all/0/reliability_min', '/all/1/not/reliability_min'],
        },
      ],
    ],
    [{ disc_min: 50 }, factsWith({ incomplete: true }), []],
    [
      { all: [{ tct_min: 500 }, { not: { tct_min: 800 } }] },
      factsWith(),
      [{ fact: 'net_tct', required: 500, actual: 0, below: 800, pointers: ['/all/0/tct_min'] }],
    ],
    [
      { verification: ['BAD Status validation'] },
      factsWith(),
      [{ fact: 'net_tct', required: 1, actual: 0, pointers: ['/verification/0'] }],
    ],
    [
      { rating_min: 'Fair' },
      factsWith({ net_tct: 50_000, bad_level: 2 }),
      [{ fact: 'bad_status', required: null, actual: 2, pointers: ['/rating_min'] }],
    ],
    [
      {
        all: [
          { disc_min: 20, tct_min: 10 },
          { not: { disc_min: 90 } },
          { verification: ['BAD Status validation', 'zk-KYH'] },
        ],
      },
      factsWith({ net_tct: 300, actions: 3, bad_level: 2 }),
      [
        {
          fact: 'bad_status',
          required: null,
          actual: 2,
          pointers: ['/all/0/disc_min', '/all/2/verification/0'],
        },
        { fact: 'net_tct', required: 2_250, actual: 300, below: 33_376, pointers: ['/all/0/disc_min'] },
        { fact: 'verification.zk-KYH', required: true, actual: false, pointers: ['/all/2/verification/1'] },
      ],
    ],
    [
      { all: [{ not: { disc_min: 5 } }, { tct_min: 0 }] },
      factsWith({ net_tct: -3_000, bad_level: 6 }),
      [{ fact: 'bad_status', required: null, actual: 6, pointers: ['/all/0/not/disc_min'] }],
    ],
  ])('%j', (rules, before, expected) => {
    expect(howToPass(parsed(rules), before)).toEqual(expected);
  });

  it.each<[unknown, Facts, unknown[]]>([
    [
      // 20 health in security takes 134 TCT, a score of 90 more than 30,000.
      { any: [{ disc_min: 90 }, { metrics: { security: 0.2 } }] },
      factsWith(),
      [{ fact: 'health.security', required: 0.2, actual: null, pointers: ['/any/1/metrics/security'] }],
    ],
    [
      { any: [{ disc_min: 90 }, { verification: ['zk-KYH'] }] },
      factsWith(),
      [{ fact: 'verification.zk-KYH', required: true, actual: false, pointers: ['/any/1/verification/0'] }],
    ],
    [
      { any: [{ tct_min: 900 }, { verification: ['zk-KYH'] }] },
      factsWith(),
      [{ fact: 'net_tct', required: 900, actual: 0, pointers: ['/any/0/tct_min'] }],
    ],
    [
      // As dear as each other: what comes first.
      { any: [{ verification: ['zk-KYC (ID only)'] }, { tct_min: 1_000 }, { verification: ['zk-KYH'] }] },
      factsWith(),
      [{ fact: 'net_tct', required: 1_000, actual: 0, pointers: ['/any/1/tct_min'] }],
    ],
  ])('is the cheapest of the smallest: %j', (rules, before, expected) => {
    expect(howToPass(parsed(rules), before)).toEqual(expected);
  });

  it('uses the old algorithm for decisions that were recorded with it', () => {
    const rule = parsed({ any: [{ disc_min: 90 }, { metrics: { security: 0.2 } }] });
    expect(howToPass(rule, factsWith(), 1)).toMatchObject([{ fact: 'net_tct' }]);
    expect(howToPass(rule, factsWith(), 2)).toMatchObject([{ fact: 'health.security' }]);
    const bad = factsWith({ net_tct: 50_000, bad_level: 2 });
    expect([2, 3].map((advice) => howToPass(parsed({ disc_min: 8 }), bad, advice as Advice)[0]!.pointers)).toEqual([
      [],
      ['/disc_min'],
    ]);
  });

  describe('where many alternatives have to be tried', () => {
    const by = (issuer: number) => ({ verification: [{ status: 'zk-KYH', issuers: [`tris:issuer-${issuer}`] }] });
    const anyOf = (least: number, count: number) => ({
      at_least: least,
      of: Array.from({ length: count }, (_, i) => by(i)),
    });
    const pairs = Array.from({ length: 20 }, (_, i) => ({ all: [by(2 * i), by((2 * i + 7) % 37)] }));

    it.each([
      [5, anyOf(5, 40)],
      [31, anyOf(31, 62)],
      [16, { at_least: 8, of: pairs }],
    ])('finds %i changes that pass, of which none can be left out', (count, rules) => {
      const rule = parsed(rules);
      const changes = howToPass(rule, factsWith());
      expect(changes).toHaveLength(count);
      const grantsAfter = (made: typeof changes) => {
        const grants = made.map(({ issuers }) => ({ status: 'zk-KYH', issuer: issuers![0]!, scheme: 'operator' }));
        return evaluate(rule, factsWith({ grants })) === TRUE;
      };
      expect(grantsAfter(changes)).toBe(true);
      expect(changes.filter((left) => grantsAfter(changes.filter((change) => change !== left)))).toEqual([]);
    });

    it('finds none by the algorithm of earlier decisions, as was recorded', () => {
      expect(howToPass(parsed(anyOf(5, 40)), factsWith(), 3)).toEqual([]);
    });

    it('finds nothing where nothing passes', () => {
      const never = { all: [{ tct_min: 100 }, { not: { tct_min: 50 } }, anyOf(10, 40)] };
      expect(howToPass(parsed(never), factsWith())).toEqual([]);
    });
  });

  it('clears a BAD status only if that takes fewer changes', () => {
    const bad = factsWith({ net_tct: 50_000, bad_level: 2 });
    const either = {
      any: [{ verification: ['zk-KYH', 'zk-KYC (ID only)'] }, { disc_min: 8, verification: ['zk-KYC (ID + AML)'] }],
    };
    const factsOf = (rules: object) => howToPass(parsed(rules), bad).map(({ fact }) => fact);
    expect(factsOf(either)).toEqual(['verification.zk-KYH', 'verification.zk-KYC (ID only)']);
    expect(factsOf({ any: [either.any[0], { disc_min: 8 }] })).toEqual(['bad_status']);
  });

  it('is sufficient, and no smaller set of changes is, nor a cheaper one of that size', () => {
    let denied = 0;
    let compared = 0;
    fc.assert(
      fc.property(someRules, facts, (rules, before) => {
        const rule = parsed(rules);
        const grants = (known: Facts) => evaluate(rule, known);
        const changes = howToPass(rule, before);
        if (grants(before) === TRUE) return expect(changes).toEqual([]);
        if (changes.length > 0) expect(grants(changed(before, changes))).toBe(TRUE);
        const clearing = changes.find(({ fact }) => fact === 'bad_status');
        if (clearing) expect(clearing.pointers).not.toEqual([]);
        for (const { required, actual } of changes)
          if (typeof actual === 'number' && required !== null) expect(required).toBeGreaterThan(actual);
        const smallest = bruteForce(rule, before);
        if (changes.length > 3) return expect(smallest).toBeUndefined();
        denied++;
        expect(changes.length === 0 ? undefined : changes.length).toBe(smallest?.size);
        if (changes.length === 0 || before.bad_level !== null) return;
        compared++;
        expect(costOfAll(changes)).toBe(smallest!.cost);
      }),
      { numRuns: 400 },
    );
    expect(denied).toBeGreaterThan(50);
    expect(compared).toBeGreaterThan(50);
  });

  it('stays below the bound it names', () => {
    fc.assert(
      fc.property(someRules, facts, (rules, before) => {
        const rule = parsed(rules);
        const changes = howToPass(rule, before);
        for (const change of changes) {
          if (change.below === undefined) continue;
          const tooHigh = changes.map((other) => (other === change ? { ...other, required: change.below! } : other));
          expect(evaluate(rule, changed(before, tooHigh))).not.toBe(TRUE);
        }
      }),
      { numRuns: 500 },
    );
  });

  it('takes bounded time on the largest rules', () => {
    let slowest = 0;
    fc.assert(
      fc.property(fc.array(rulesOf(2), { minLength: 12, maxLength: 20 }), facts, fc.nat(), (of, before, n) => {
        const result = parseRules({ at_least: 1 + (n % of.length), of });
        if ('errors' in result) return;
        const started = process.cpuUsage(); // and not the clock: the processor may be busy with something else
        howToPass(result.rule, before);
        const { user, system } = process.cpuUsage(started);
        slowest = Math.max(slowest, user + system);
      }),
      { numRuns: 1_000 },
    );
    expect(slowest).toBeLessThan(400_000); // microseconds
  });
});

describe('the reasons of a notice', () => {
  const DAY = 86_400_000;
  const causesOf = fc.record({
    as_of: fc.constant(1_000 * DAY),
    forfeited: fc.constantFrom(0, 700, 5_000, 50_000),
    last_negative: fc.constantFrom(-Infinity, 100 * DAY, 950 * DAY),
    last: fc.constantFrom(-Infinity, 100 * DAY, 950 * DAY),
    verifications: fc
      .subarray(STATUSES.slice(0, 3))
      .map((held) => held.map((status) => ({ status, expires_at: '1972-01-01T00:00:00Z' }) as never)),
  });

  /** The change that a code asks for: what is taken away is all of the negative evidence. */
  function remedy({ code, fact, actual, required }: NoticeReasonDto, forfeited: number): FactChangeDto {
    if (code.startsWith('negative_evidence')) {
      return { fact: 'net_tct', actual: actual as number, required: Number(actual) + forfeited, pointers: [] };
    }
    return { fact: fact!, actual: actual as number, required: required as number, pointers: [] };
  }
  const FACTS = {
    net_tct: /^(?:score_below_minimum|tct_below_minimum|negative_evidence_(?:recent|severe))$/,
    reliability: /^(?:reliability_below_minimum|evidence_not_enough|evidence_old)$/,
    health: /^category_(?:below_minimum|without_evidence)$/,
    verification: /^verification_(?:missing|expired|issuer_not_accepted)$/,
    bad_status: /^bad_status$/,
  };

  it('alone, applied, would pass: of ten thousand decisions', () => {
    let applied = 0;
    const codes = new Set<string>();
    fc.assert(
      fc.property(someRules, facts, causesOf, (rules, before, causes) => {
        const rule = parsed(rules);
        const how_to_pass = howToPass(rule, before);
        const denial = { score: before.score, reasons: reasonsFor(rule, before), how_to_pass };
        const told = noticeReasons(denial, disc1, causes, true);
        expect(told.length).toBeLessThanOrEqual(4);
        if (denial.reasons.length > 0) expect(told.length).toBeGreaterThan(0);
        for (const { code } of told) codes.add(code);
        if (how_to_pass.length === 0 || how_to_pass.length > 4) return;
        applied++;
        for (const { code, fact } of told) expect(code).toMatch(FACTS[fact!.split('.')[0] as keyof typeof FACTS]);
        const changes = told.map((reason) => remedy(reason, causes.forfeited));
        expect(evaluate(rule, changed(before, changes))).toBe(TRUE);
      }),
      { numRuns: 10_000 },
    );
    expect(applied).toBeGreaterThan(1_000);
    expect(codes.size).toBeGreaterThan(9);
  });

  it('are ordered by what they cost, and name thresholds to readers of the rules only', () => {
    const before = factsWith({ actions: 1, net_tct: 0 });
    const rule = parsed({ disc_min: 20, verification: ['zk-KYH'], metrics: { finance: 0.2 } });
    const denial = { score: 7, reasons: reasonsFor(rule, before), how_to_pass: howToPass(rule, before) };
    const told = noticeReasons(denial, disc1, null, true);
    expect(told.map(({ code }) => code)).toEqual([
      'score_below_minimum',
      'verification_missing',
      'category_without_evidence',
    ]);
    expect(told[0]!.sentence).toMatch(/^The score is below the minimum: the score was 7, .* which is a score of 20\.$/);
    const others = noticeReasons(denial, disc1, null, false);
    expect(others.map(({ code, actual }) => [code, actual])).toEqual(told.map(({ code, actual }) => [code, actual]));
    for (const reason of others) {
      expect(reason).not.toHaveProperty('required');
      expect(reason.sentence).not.toMatch(/asks for|20|0\.2/);
    }
  });
});

describe('rules without a `not`', () => {
  it('never change from granting to refusing when a fact rises', () => {
    const monotone = rulesOf(3).filter(
      (rules) => !JSON.stringify(rules).includes('"not"') && 'rule' in parseRules(rules),
    );
    const rise = fc.constantFrom<Partial<Measured>>(
      { net_tct: 60_000, actions: 6 },
      { reliability: 1 },
      { bad_level: null },
    );
    fc.assert(
      fc.property(monotone, facts, rise, (rules, before, up) => {
        // Clearing a BAD status is a rise only where the score rises by it.
        const raised = factsFrom({ ...before, ...up, ...(up.bad_level === null && { net_tct: 60_000, actions: 6 }) });
        const rule = parsed(rules);
        expect(evaluate(rule, raised)).toBeGreaterThanOrEqual(evaluate(rule, before));
      }),
    );
  });
});

describe('facts of an identity', () => {
  it('measures an unknown reliability only once, too', () => {
    let measurements = 0;
    const evidence = new Proxy({}, { ownKeys: () => (measurements++, []) });
    const facts = new SubjectFacts({ ...newIdentity(), evidence }, scoringBy(MODEL_LENS, disc1), 0, () => true);
    expect([facts.reliability, facts.reliability]).toEqual([null, null]);
    expect(measurements).toBe(1);
  });
});

describe('a verification of an identity', () => {
  const held = { status: 'zk-KYH', issuer: 'tris:bank', scheme: 'manual', operator: true };
  const verifications = [{ ...held, expires_at: '2026-01-01T00:00:00.000Z' }];
  it.each([
    ['the last millisecond before it expires', -1, true],
    ['the time at which it expires', 0, false],
  ])('as of %s counts (by %p ms): %p', (_name, ms, counts) => {
    const at = Date.UTC(2026, 0, 1) + ms;
    const facts = new SubjectFacts({ ...newIdentity(), verifications }, scoringBy(MODEL_LENS, disc1), at, () => true);
    expect(facts.holds['zk-KYH']).toBe(counts);
    expect(outcome({ verification: [{ status: 'zk-KYH', issuers: ['tris:bank'] }] }, facts) === TRUE).toBe(counts);
  });
});

describe('the outcome of every node', () => {
  const short = (rules: unknown, facts: Facts | null) =>
    outcomesOf(parsed(rules), facts).map(({ pointer, rule, required, actual, outcome }) => [
      pointer,
      rule,
      required,
      actual,
      outcome,
    ]);
  const rules = {
    at_least: 2,
    of: [{ disc_min: 5, metrics: { social: 0.5 } }, { not: { verification: ['zk-KYH'] } }, { tct_min: 1 }],
  };

  it('comes in the order of the rules, also of what is met and of what is inside a `not`', () => {
    expect(short(rules, factsWith({ actions: 1, verified: new Set(['zk-KYH']) }))).toEqual([
      ['/at_least', 'at_least', 2, 0, 'failed'],
      ['/of/0', 'all', null, null, 'unknown'],
      ['/of/0/disc_min', 'disc_min', 5, 7, 'met'],
      ['/of/0/metrics/social', 'metrics', 0.5, null, 'unknown'],
      ['/of/1/not', 'not', null, null, 'failed'],
      ['/of/1/not/verification/0', 'verification', 'zk-KYH', true, 'met'],
      ['/of/2/tct_min', 'tct_min', 1, 0, 'failed'],
    ]);
  });

  it('is unknown for an unknown subject and for one with an undecodable event', () => {
    for (const facts of [null, factsWith({ incomplete: true })]) {
      expect(outcomesOf(parsed(rules), facts).map(({ outcome, actual }) => [outcome, actual])).toEqual(
        Array.from({ length: 7 }, () => ['unknown', null]),
      );
    }
  });

  it('of the root is the outcome of the rules', () => {
    for (const each of [rules, { not: rules }, { any: [rules, { disc_min: 99 }] }]) {
      for (const facts of [factsWith(), factsWith({ net_tct: 500, actions: 3, health: { social: 0.6 } })]) {
        const names = { [TRUE]: 'met', [FALSE]: 'failed', [UNKNOWN]: 'unknown' };
        expect(outcomesOf(parsed(each), facts)[0]!.outcome).toBe(names[outcome(each, facts)]);
      }
    }
  });
});
