import { createHash } from 'node:crypto';
import { Days, addAction, dayOf, type Evidence } from '../../src/scoring/evidence.js';
import { power, round } from '../../src/scoring/exact.js';
import { categoryHealth, metricHealth } from '../../src/scoring/health.js';
import { type Lens, MODEL_LENS } from '../../src/scoring/lens.js';
import { isFlags } from '../../src/scoring/names.js';
import { type Criticality, CRITICALITIES, MODEL, TCT_BY_CRITICALITY } from '../../src/scoring/model.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { GOLDEN, disc2, sumsOf } from '../../src/scoring/models/disc-2.js';
import { netTct, nextRating, rankOf, ratingOf, scoreOf, standingOf } from '../../src/scoring/score.js';
import { blocks, codes, read, section, tableRows } from './markdown.js';

/** docs/scoring.md is the model: its tables are the constants, its worked example is what the functions answer. */

const DOCUMENT = read('docs/scoring.md');
const number = (cell: string | undefined): number => Number(cell!.replaceAll(',', ''));
const rows = (heading: string) => tableRows(section(DOCUMENT, heading));

test('every constant, and nothing else', () => {
  const listed = rows('Every constant').map(([name, value]) => [codes(name!)[0], JSON.parse(codes(value!)[0]!)]);
  expect(listed).toEqual(
    Object.entries(disc1.constants).map(([name, value]) => [name, JSON.parse(JSON.stringify(value))]),
  );
});

test('every constant of disc-2 that differs', () => {
  const text = section(DOCUMENT, 'Every constant');
  const listed = tableRows(text.slice(text.indexOf('disc-2 has'))).map(([name, value]) => [
    codes(name!)[0]!,
    JSON.parse(codes(value!)[0]!),
  ]);
  const shared: Record<string, unknown> = MODEL;
  const own = Object.entries(disc2.constants).filter(([name]) => !(name in shared));
  expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(own));
});

/** From what the document says only, and with nothing of the service. */
describe('hashes', () => {
  const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex');
  const ordered = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(ordered);
    if (typeof value !== 'object' || value === null) return value;
    const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    return Object.fromEntries(members.map(([name, member]) => [name, ordered(member)]));
  };
  const hashOf = (value: unknown) => sha256(JSON.stringify(ordered(value)));
  const constantsOf = (table: string[][]) =>
    Object.fromEntries(table.map(([name, value]) => [codes(name!)[0]!, JSON.parse(codes(value!)[0]!)]));

  const constants = section(DOCUMENT, 'Every constant');
  const first = constantsOf(tableRows(constants));
  const second = constantsOf(tableRows(constants.slice(constants.indexOf('disc-2 has'))));
  const [hash1, golden, hash2, ownLens, lensHash] = blocks(section(DOCUMENT, 'Hashes')).map(({ text }) => text.trim());

  test('of disc-1: its constants', () => {
    expect([hashOf(first), disc1.hash]).toEqual([hash1, hash1]);
  });

  test('of disc-2: its constants and its golden values', () => {
    const values = JSON.parse(golden!) as object;
    expect(values).toEqual(GOLDEN);
    expect([hashOf({ constants: { ...first, ...second }, golden: values }), disc2.hash]).toEqual([hash2, hash2]);
  });

  test('of the model’s own lens: the bytes that the document shows', () => {
    expect(hashOf({ policy_id: null, criticality_hundredths: first['criticality_hundredths'] })).toBe(sha256(ownLens!));
    expect([sha256(ownLens!), MODEL_LENS.content_hash]).toEqual([lensHash, lensHash]);
  });
});

test('criticalities', () => {
  const listed = rows('From actions to TCT').map(([name, weight, tct]) => [name, number(weight), number(tct)]);
  const known = CRITICALITIES.map((name, i) => [name, MODEL.criticality_hundredths[name] / 100, TCT_BY_CRITICALITY[i]]);
  expect(listed).toEqual(known);
});

test('scores and ratings', () => {
  for (const [net, score, rating] of rows('Score')) {
    expect([net, scoreOf(number(net)), ratingOf(number(score))]).toEqual([net, number(score), rating]);
    const lowest = MODEL.ratings.find(([name, from]) => name === rating && from === number(score));
    if (lowest) expect(scoreOf(number(net) - 1)).toBeLessThan(number(score));
  }
});

test('ranks', () => {
  expect(rows('Rank').map(([name, from]) => [name, number(from)])).toEqual(MODEL.ranks.map((rank) => [...rank]));
  for (const [name, from] of rows('Rank')) expect(rankOf(number(from))).toBe(name);
});

test('half-lives', () => {
  const listed = rows('Health');
  expect(listed.map(([category]) => category)).toEqual([...MODEL.categories]);
  for (const [category, days] of listed) {
    const factor = MODEL.daily_factor[category as keyof typeof MODEL.daily_factor];
    expect(power(factor, number(days))).toBeCloseTo(0.5, 12);
  }
  expect(power(disc1.constants.reliability_daily_factor, 45)).toBeCloseTo(0.5, 12);
});

describe('the worked example', () => {
  const [actions, byModel, byPolicy] = blocks(section(DOCUMENT, 'Worked example')).map(({ text }) => JSON.parse(text));
  const asOf = Date.parse(/As of (\S+Z) /.exec(section(DOCUMENT, 'Worked example'))![1]!);
  const evidence: Evidence = {};
  for (const { metric, criticality, occurred_at } of actions) {
    addAction(evidence, metric, CRITICALITIES.indexOf(criticality as Criticality), Date.parse(occurred_at));
  }

  function answer(lens: Lens) {
    return {
      ...standingOf(disc1.ledger(evidence, lens), null),
      reliability: disc1.assess(evidence, lens, asOf).reliability,
      disc_metrics: categoryHealth(evidence, lens, asOf),
    };
  }

  test('the result by the model’s own lens', () => {
    expect(byModel).toEqual(answer(MODEL_LENS));
  });

  test('the result under the policy', () => {
    const weights: [string, Criticality][] = [
      ['financial_loan_repayment_consistency', 'High'],
      ['compliance_moderation_flags', 'Low'],
    ];
    const tct = weights.map(([metric, name]) => [metric, TCT_BY_CRITICALITY[CRITICALITIES.indexOf(name)]!] as const);
    expect(byPolicy).toEqual(answer({ policy_id: 'VP_EXAMPLE_V1', content_hash: '', tct_by_metric: new Map(tct) }));
  });

  test('every step on the way', () => {
    const decayed = (wanted: (metric: string) => boolean, factor: number): number => {
      let sum = 0;
      for (const metric of Object.keys(evidence).filter(wanted)) {
        for (const days = new Days(metric, evidence[metric]!, MODEL_LENS); !days.done; days.next()) {
          sum += days.tct * power(factor, dayOf(asOf) - days.day);
        }
      }
      return sum;
    };
    const ledger = disc1.ledger(evidence, MODEL_LENS);
    const flags = 'compliance_moderation_flags';
    const health = categoryHealth(evidence, MODEL_LENS, asOf);
    const steps: Record<string, number> = {
      earned: ledger.earned,
      flagged: ledger.flagged,
      forfeited: MODEL.forfeit_factor * ledger.flagged,
      net: netTct(ledger),
      score: scoreOf(netTct(ledger)),
      'E financial': decayed((metric) => metric.startsWith('financial_'), MODEL.daily_factor.financial),
      'health financial': health.financial,
      'E behavioral': decayed((metric) => metric.startsWith('behavioral_'), MODEL.daily_factor.behavioral),
      'health behavioral': health.behavioral,
      'health compliance': health.compliance,
      'F moderation flags': decayed((metric) => metric === flags, MODEL.daily_factor.compliance),
      'health moderation flags': metricHealth(evidence, flags, MODEL_LENS, asOf),
      p: decayed((metric) => !isFlags(metric), disc1.constants.reliability_daily_factor) / 1000,
      n: decayed(isFlags, disc1.constants.reliability_daily_factor) / 1000,
      reliability: disc1.assess(evidence, MODEL_LENS, asOf).reliability,
      'missing to Fair': nextRating(ledger)!.tct_needed,
    };
    const listed = rows('Worked example').map(([step, , value]) => [step, number(value)]);
    expect(listed).toEqual(Object.entries(steps).map(([step, value]) => [step, round(value, 4)]));
  });
});

describe('the worked example of disc-2', () => {
  const text = section(DOCUMENT, 'Worked example of disc-2');
  const asOf = Date.parse(/As of (\S+Z) /.exec(text)![1]!);
  const evidence: Evidence = {};
  for (const { metric, criticality, count, occurred_at } of JSON.parse(blocks(text)[0]!.text)) {
    for (let n = 0; n < count; n++) {
      addAction(evidence, metric, CRITICALITIES.indexOf(criticality as Criticality), Date.parse(occurred_at));
    }
  }

  test('every step on the way', () => {
    const ledger = disc2.ledger(evidence, MODEL_LENS);
    const { good, flags } = sumsOf(evidence, MODEL_LENS, asOf).days;
    const reliability = disc2.assess(evidence, MODEL_LENS, asOf).reliability;
    const { evidence: sure, reliability_interval } = disc2.assess(evidence, MODEL_LENS, asOf);
    const mean = (10 * good + 5) / (10 * (good + flags) + 6);
    const steps: Record<string, number> = {
      ...ledger,
      net: netTct(ledger),
      score: scoreOf(netTct(ledger)),
      G: good,
      F: flags,
      reliability,
      evidence: sure.amount,
      margin: 1.645 * Math.sqrt((mean * (1 - mean)) / (good + flags + 1.6)),
      low: reliability_interval[0],
      high: reliability_interval[1],
    };
    const listed = tableRows(text).map(([step, , value]) => [step, number(value)]);
    expect(listed).toEqual(Object.entries(steps).map(([step, value]) => [step, round(value, 4)]));
  });

  test('the results of disc-1 for the same actions', () => {
    const [earned, score, reliability] = /earned_tct` of (\d+), a score of ([\d.]+) and a reliability of ([\d.]+\d)/
      .exec(text)!
      .slice(1)
      .map(Number);
    const ledger = disc1.ledger(evidence, MODEL_LENS);
    expect([ledger.earned, scoreOf(netTct(ledger)), disc1.assess(evidence, MODEL_LENS, asOf).reliability]).toEqual([
      earned,
      score,
      reliability,
    ]);
  });
});
