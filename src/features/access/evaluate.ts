import { MODEL } from '../../scoring/model.js';
import type { AccessReasonDto, RuleOutcomeDto } from './ap.dto.js';
import { type Facts, isVerified } from './facts.js';
import { type Rule, type Threshold, leastOf } from './rules.js';

/**
 * The values of Kleene's three-valued logic, ordered so that `all` is the minimum of its parts, `any` the maximum and
 * `not` is 2 minus the value. Only TRUE grants.
 */
export type TruthValue = 0 | 1 | 2;
export const FALSE = 0;
export const UNKNOWN = 1;
export const TRUE = 2;

/** Evaluates rules; twenty conditions take less than a microsecond. Returns an outcome for any facts; never throws. */
export function evaluate(rule: Rule, facts: Facts): TruthValue {
  if (facts.incomplete) return UNKNOWN;
  switch (rule.rule) {
    case 'all':
    case 'any':
    case 'at_least':
      return atLeast(leastOf(rule), rule.of, facts);
    case 'not':
      return (TRUE - evaluate(rule.of[0], facts)) as TruthValue;
    case 'verification':
      return isVerified(facts, rule) ? TRUE : FALSE;
    case 'reliability_min':
      // From disc-2 on, nobody in the BAD band passes.
      if (typeof facts.evidence === 'number' && facts.score <= MODEL.bad_level) return FALSE;
  }
  // All other conditions, and this one otherwise: a value, and the least that it may be.
  const actual = actualOf(rule, facts);
  if (actual === null) return UNKNOWN;
  return actual >= rule.least ? TRUE : FALSE;
}

/** The value of which a condition requires the least; null: unknown. */
function actualOf(condition: Threshold, facts: Facts): number | null {
  switch (condition.rule) {
    case 'disc_min':
    case 'rating_min':
      return facts.score;
    case 'tct_min':
      return facts.total_tct;
    case 'reliability_min':
      return facts.reliability;
    case 'evidence_min':
      return facts.evidence ?? null;
    case 'metrics':
      return facts.health(condition.category);
  }
}

/** @param least from 1 to the number of parts */
function atLeast(least: number, parts: readonly Rule[], facts: Facts): TruthValue {
  const mayFail = parts.length - least;
  let sure = 0;
  let failed = 0;
  for (const part of parts) {
    const value = evaluate(part, facts);
    if (value === TRUE && ++sure === least) return TRUE;
    if (value === FALSE && ++failed > mayFail) return FALSE;
  }
  return UNKNOWN;
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
  const outcome = outcomeOf(evaluate(rule, facts));
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
  const outcome = outcomeOf(known ? evaluate(rule, known) : UNKNOWN);
  const node = { pointer: rule.pointer, rule: rule.rule, required, actual, outcome };
  return [node, ...partsOf(rule).flatMap((part) => outcomesOf(part, known))];
}

const outcomeOf = (value: TruthValue) => (['failed', 'unknown', 'met'] as const)[value];
const partsOf = (rule: Rule): Rule[] => ('of' in rule ? rule.of : []);

/** @param facts null: nothing is known */
function requiredAndActual(rule: Rule, facts: Facts | null): Pick<RuleOutcomeDto, 'required' | 'actual'> {
  switch (rule.rule) {
    case 'all':
    case 'any':
    case 'not':
      return { required: null, actual: null };
    case 'at_least': {
      const held = facts && rule.of.filter((part) => evaluate(part, facts) === TRUE);
      return { required: rule.least, actual: held && held.length };
    }
    case 'verification':
      return { required: rule.status, actual: facts && isVerified(facts, rule) };
    case 'rating_min':
      return { required: rule.rating, actual: facts && facts.score_rating };
    default:
      return { required: rule.least, actual: facts && actualOf(rule, facts) };
  }
}
