import fc from 'fast-check';
import { type DomainEvent, decodeEvent } from '../../projections/events.js';
import { type IdentityRow, evolve, identityRow, newIdentity } from '../../projections/identities.js';
import { subjectOf } from '../../projections/identity-events.js';
import { totalsIn } from '../../src/features/disc/action-tally.js';
import { EvidenceReader } from '../../src/features/disc/evidence-reader.js';
import { Summarizer } from '../../src/features/validation-policies/comparison.js';
import { reasonsOf } from '../../src/features/validation-policies/reasons.js';
import { CRITICALITIES } from '../../src/scoring/model.js';
import { categoryHealth } from '../../src/scoring/health.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { MODELS, scoringBy } from '../../src/scoring/models/all.js';
import { GrowingViews } from '../disc/growing-views.js';
import { repeated } from '../faults/faults.js';
import { badStatus, logOf, relayed } from '../projections/log.js';
import { vpLens } from '../scoring/evidence.js';

const ALICE = 'tris:alice';
const DAY = 86_400_000;
const NOW = Date.UTC(2026, 0, 1);
/** One of them is named like a total of the model's own lens. */
const METRICS = [
  'financial_earned',
  'financial_swap',
  'financial_default_flags',
  'social_vouch',
  'social_praise',
  'compliance_trade_flags',
];
const iso = (ms: number) => new Date(ms).toISOString();

const logs = fc
  .array(
    fc.oneof(
      {
        weight: 30,
        arbitrary: fc
          .tuple(fc.constantFrom(...METRICS), fc.constantFrom(...CRITICALITIES), fc.integer({ min: 0, max: 90 }))
          .map(([metric, criticality, days]) =>
            relayed(ALICE, metric, criticality, { occurred_at: iso(NOW - days * DAY) }),
          ),
      },
      fc.integer({ min: 1, max: 6 }).map((level) => badStatus(ALICE, level)),
    ),
    { minLength: 66, maxLength: 200, size: 'max' },
  )
  .map((events) => logOf(events).map(decodeEvent));

const weights = fc.dictionary(fc.constantFrom(...METRICS), fc.constantFrom(10, 30, 140), { minKeys: 1 });
const lenses = fc
  .tuple(fc.oneof(fc.constant(MODEL_LENS), weights.map(vpLens)), fc.constantFrom(...MODELS))
  .map(([lens, model]) => scoringBy(lens, model));

function folded(log: readonly DomainEvent[]) {
  const state = newIdentity();
  for (const event of log) evolve(state, subjectOf(event)!.event);
  return state;
}

test('a large identity compares under two lenses as the fold of all its events does, while events are applied', () => {
  return fc.assert(
    fc.asyncProperty(logs, lenses, lenses, fc.constantFrom(0, 1), async (log, before, after, perRead) => {
      const known = log.slice(0, 65 + Math.floor((log.length - 65) / 2));
      const views = new GrowingViews(log, perRead);
      await views.grow(known.length);
      const { position, results } = await views.read([{ get: identityRow(ALICE) }]);
      const row = structuredClone(results[0]) as unknown as IdentityRow;
      const reader = new EvidenceReader(views, ALICE, row, position);
      const whole = folded(known);
      const sides = [
        { state: await reader.state([before, after]), totals: reader },
        { state: whole, totals: { metricTotals: async () => totalsIn(whole.evidence) } },
      ].map(async ({ state, totals }) => {
        const fold = new Summarizer(before, after, [], NOW);
        const reasons = await reasonsOf(totals, state, before, after);
        fold.add(ALICE, state, async () => reasons);
        const measured = [before, after].map((lens) => [
          lens.model.assess(state.evidence, lens, NOW),
          categoryHealth(state.evidence, lens, NOW),
        ]);
        return { summary: await fold.summary(), measured, reasons };
      });
      expect(await sides[0]).toEqual(await sides[1]);
    }),
    { numRuns: repeated(30, 200) },
  );
});
