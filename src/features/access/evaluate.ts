import { MODEL } from '../../scoring/model.js';
import type { AccessReasonDto, RuleOutcomeDto } from './ap.dto.js';
import { type Facts, isVerified } from './facts.js';
import { type Rule, leastOf, leastScoreOf } from './rules.js';

/**
 * The values of Kleene's three-valued logic, ordered so that `all` is the minimum of its parts, `any` the maximum and
 * `not` is 2 minus the value. Only TRUE grants.
 */
export type TruthValue = 0 | 1 | 2;
export const FALSE = 0;
export const UNKNOWN = 1;
export const TRUE = 2;

/** Returns an outcome for any facts; never throws. */
export type Evaluator = (facts: Facts) => TruthValue;

/** Compiles rules to one function, which takes a few hundred nanoseconds per identity. */
export function compile(rule: Rule): Evaluator {
  const evaluate = compileKnown(rule);
  return (facts) => (facts.incomplete ? UNKNOWN : evaluate(facts));
}

/** Compiles a rule for facts that are complete. */
function compileKnown(rule: Rule): Evaluator {
  switch (rule.rule) {
    case 'all':
    case 'any':
    case 'at_least':
      return atLeast(leastOf(rule), rule.of.map(compileKnown));
    case 'not': {
      const inner = compileKnown(rule.of[0]);
      return (facts) => (TRUE - inner(facts)) as TruthValue;
    }
    case 'disc_min':
    case 'rating_min':
      return reaches(leastScoreOf(rule), (facts) => facts.score);
    case 'tct_min':
      return reaches(rule.least, (facts) => facts.total_tct);
    case 'reliability_min': {
      const isReliable = reaches(rule.least, (facts) => facts.reliability);
      // From disc-2 on, nobody in the BAD band passes.
      return (facts) =>
        typeof facts.evidence === 'number' && facts.score <= MODEL.bad_level ? FALSE : isReliable(facts);
    }
    case 'evidence_min':
      return reaches(rule.least, ({ evidence = null }) => evidence);
    case 'metrics':
      return reaches(rule.least, (facts) => facts.health(rule.category));
    case 'verification':
      return (facts) => (isVerified(facts, rule) ? TRUE : FALSE);
  }
}

/** Whether a value is known, and at least this much. */
function reaches(least: number, valueIn: (facts: Facts) => number | null): Evaluator {
  return (facts) => {
    const value = valueIn(facts);
    if (value === null) return UNKNOWN;
    return value >= least ? TRUE : FALSE;
  };
}

/** @param least from 1 to the number of parts */
function atLeast(least: number, parts: readonly Evaluator[]): Evaluator {
  const mayFail = parts.length - least;
  return (facts) => {
    let sure = 0;
    let failed = 0;
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i]!(facts);
      if (part === TRUE && ++sure === least) return TRUE;
      if (part === FALSE && ++failed > mayFail) return FALSE;
    }
    return UNKNOWN;
  };
}

/**
 * The nodes that keep rules from granting, in the order in which they are written: from the root down, every failing
 * part of a failing node. An `at_least` is listed too, with the number of its parts that hold; a `not` is listed
 * instead of its part. Empty if the rules grant.
 */
export function reasonsFor(rule: Rule, facts: Facts): AccessReasonDto[] {
  if (facts.incomplete) {
    return [{ pointer: '', rule: 'identity', required: 'complete', actual: 'incomplete', outcome: 'unknown' }];
  }
  const outcome = outcomeOf(compileKnown(rule)(facts));
  if (outcome === 'met') return [];
  const { pointer } = rule;
  if (rule.rule === 'not') {
    return [{ pointer, rule: 'not', required: false, actual: outcome === 'unknown' ? null : true, outcome }];
  }
  const node = { pointer, rule: rule.rule, ...requiredAndActual(rule, facts), outcome };
  const inner = partsOf(rule).flatMap((part) => reasonsFor(part, facts));
  return rule.rule === 'all' || rule.rule === 'any' ? inner : [node, ...inner];
}

/**
 * Every node of the rules with its outcome, in the order in which they are written, from the root down. Unlike reasons,
 * also the parts of a `not`, and what is met. `required` and `actual` are null for nodes that only combine others,
 * except `at_least`.
 * @param facts null: the subject is unknown
 */
export function outcomesOf(rule: Rule, facts: Facts | null): RuleOutcomeDto[] {
  const known = facts?.incomplete ? null : facts;
  const { required, actual } = requiredAndActual(rule, known);
  const outcome = outcomeOf(known ? compileKnown(rule)(known) : UNKNOWN);
  const node = { pointer: rule.pointer, rule: rule.rule, required, actual, outcome };
  return [node, ...partsOf(rule).flatMap((part) => outcomesOf(part, known))];
}

const outcomeOf = (value: TruthValue) => (['failed', 'unknown', 'met'] as const)[value];
const partsOf = (rule: Rule): Rule[] => ('of' in rule ? rule.of : []);

/** @param facts null: nothing is known */
function requiredAndActual(rule: Rule, facts: Facts | null): Pick<RuleOutcomeDto, 'required' | 'actual'> {
  switch (rule.rule) {
    case 'disc_min':
      return { required: rule.least, actual: facts?.score ?? null };
    case 'tct_min':
      return { required: rule.least, actual: facts?.total_tct ?? null };
    case 'rating_min':
      return { required: rule.rating, actual: facts?.score_rating ?? null };
    case 'reliability_min':
      return { required: rule.least, actual: facts?.reliability ?? null };
    case 'evidence_min':
      return { required: rule.least, actual: facts?.evidence ?? null };
    case 'metrics':
      return { required: rule.least, actual: facts?.health(rule.category) ?? null };
    case 'verification':
      return { required: rule.status, actual: facts && isVerified(facts, rule) };
    case 'at_least': {
      const held = facts && rule.of.filter((part) => compileKnown(part)(facts) === TRUE);
      return { required: rule.least, actual: held && held.length };
    }
    default:
      return { required: null, actual: null };
  }
}
