import fc from 'fast-check';
import { decodeEvent } from '../../projections/events.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { MODELS, type Scoring, scoringBy } from '../../src/scoring/models/all.js';
import { CRITICALITIES } from '../../src/scoring/model.js';
import {
  type Given,
  badStatus,
  endorsed,
  granted,
  logOf,
  platformOf,
  relayed,
  withChanges,
} from '../projections/log.js';
import { vpLens } from '../scoring/evidence.js';

/**
 * Logs of one identity's actions, most of them within one day, with their withdrawals and reinstatements, other
 * statements, and events of others.
 */

export const ALICE = 'tris:alice';
export const DAY = 86_400_000;
export const START = Date.UTC(2026, 0, 1);
export const BUSY = START - 40 * DAY + 45_296_789;
const METRICS = ['financial_swap', 'financial_default_flags', 'social_vouch', 'security_audit'];
export const PLATFORMS = ['lender', 'market', 'game'];
export const LENSES: Scoring[] = [
  MODEL_LENS,
  vpLens({ financial_swap: 140, financial_default_flags: 30, creative_none: 70 }),
].flatMap((lens) => MODELS.map((model) => scoringBy(lens, model)));

export const iso = (ms: number) => new Date(ms).toISOString();
/** Around one time, most of them at that very time; or on any day. */
export const occurrences = fc.oneof(
  { weight: 16, arbitrary: fc.constant(BUSY) },
  { weight: 3, arbitrary: fc.integer({ min: BUSY - 2, max: BUSY + 2 }) },
  { weight: 1, arbitrary: fc.integer({ min: BUSY - 90, max: BUSY + 90 }) },
  { weight: 1, arbitrary: fc.integer({ min: BUSY - 5_000, max: BUSY + 5_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: BUSY - 1_000_000, max: BUSY + 1_000_000 }) },
  { weight: 2, arbitrary: fc.integer({ min: BUSY - 400 * DAY, max: START + DAY }) },
);
const mostly = <T>(usual: T, all: readonly T[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, fc.constantFrom(...all));
/** Mostly none or one; else any of so many that none has many actions. */
const counterparties = fc.oneof(
  { weight: 3, arbitrary: fc.constant(null) },
  { weight: 2, arbitrary: fc.constant('tris:carol') },
  { weight: 3, arbitrary: fc.integer({ min: 1, max: 400 }).map((n) => `tris:member-${n}`) },
);
const actions = fc
  .tuple(
    mostly(METRICS[0]!, METRICS),
    fc.constantFrom(...CRITICALITIES),
    occurrences,
    mostly(PLATFORMS[0]!, PLATFORMS),
    fc.integer({ min: 1, max: 140 }),
    fc.boolean(),
    fc.record(
      { source: fc.constantFrom('vouched', 'unvouched'), counterparty: counterparties },
      { noNullPrototype: true },
    ),
  )
  .map(([metric, criticality, at, platform_id, amount, isEndorsed, { source, counterparty }]): Given[] => {
    const said = { source, ...(counterparty !== null && { counterparty }) };
    const action = relayed(ALICE, metric, criticality, { occurred_at: iso(at), schema: 2 });
    const credonation = endorsed(ALICE, platform_id, amount, { occurred_at: iso(at), schema: 2 });
    const all = [{ ...action, data: { ...action.data, platform_id, ...said } }];
    return isEndorsed ? [...all, { ...credonation, data: { ...credonation.data, ...said } }] : all;
  });
const others: fc.Arbitrary<Given[]> = fc.oneof(
  fc.integer({ min: 1, max: 6 }).map((level): Given[] => [badStatus(ALICE, level)]),
  fc.constantFrom('key:a', 'key:b').map((issuer): Given[] => [granted(ALICE, issuer)]),
  fc
    .tuple(fc.constantFrom(...PLATFORMS), fc.constantFrom('tris:org', 'tris:other', ALICE))
    .map(([platform, owner]): Given[] => [platformOf(platform, owner)]),
  fc.constant<Given[]>([relayed('tris:bob', 'social_vouch', 'Low'), endorsed('tris:bob', 'lender', 30)]),
);
/** Withdraws or reinstates an action before it; the same ones often. */
const changes = fc.oneof(fc.nat(), fc.nat(5));
export const logs = (length: { minLength: number; maxLength: number }) =>
  fc
    .array(fc.oneof({ weight: 30, arbitrary: actions }, { weight: 12, arbitrary: changes }, others), {
      ...length,
      size: 'max',
    })
    .map((list) =>
      logOf(withChanges(ALICE, list).map((event, i) => ({ ...event, recorded_at: iso(START + i) }))).map(decodeEvent),
    );
