import { MODEL } from '../../scoring/model.js';
import type { AccessReasonDto, RuleOutcomeDto } from './ap.dto.js';
import { type Facts, NOTHING, factsFrom, isVerified } from './facts.js';
import { type Condition, LOWEST_SCORE, type Rule } from './rules.js';

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
      return atLeast(rule.of.length, rule.of.map(compileKnown));
    case 'any':
      return atLeast(1, rule.of.map(compileKnown));
    case 'at_least':
      return atLeast(rule.least, rule.of.map(compileKnown));
    case 'not': {
      const inner = compileKnown(rule.of[0]);
      return (facts) => (TRUE - inner(facts)) as TruthValue;
    }
    default:
      return compileCondition(rule);
  }
}

function compileCondition(condition: Condition): Evaluator {
  switch (condition.rule) {
    case 'disc_min':
    case 'rating_min': {
      const least = 'rating' in condition ? LOWEST_SCORE.get(condition.rating)! : condition.least;
      return (facts) => (facts.score >= least ? TRUE : FALSE);
    }
    case 'tct_min': {
      const { least } = condition;
      return (facts) => (facts.total_tct >= least ? TRUE : FALSE);
    }
    case 'reliability_min': {
      const { least } = condition;
      return (facts) => {
        // From disc-2 on, nobody in the BAD band passes.
        if (typeof facts.evidence === 'number' && facts.score <= MODEL.bad_level) return FALSE;
        const { reliability } = facts;
        return reliability === null ? UNKNOWN : reliability >= least ? TRUE : FALSE;
      };
    }
    case 'evidence_min': {
      const { least } = condition;
      return ({ evidence = null }) => (evidence === null ? UNKNOWN : evidence >= least ? TRUE : FALSE);
    }
    case 'metrics': {
      const { category, least } = condition;
      return (facts) => {
        const health = facts.health(category);
        return health === null ? UNKNOWN : health >= least ? TRUE : FALSE;
      };
    }
    case 'verification': {
      const { status, issuers, schemes } = condition;
      if (issuers || schemes) return (facts) => (isVerified(facts, condition) ? TRUE : FALSE);
      return (facts) => (facts.holds[status] ? TRUE : FALSE);
    }
  }
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
  const reasons: AccessReasonDto[] = [];
  collect(rule, facts, reasons);
  return reasons;
}

function collect(rule: Rule, facts: Facts, reasons: AccessReasonDto[]): void {
  const result = compileKnown(rule)(facts);
  if (result === TRUE) return;
  const outcome = result === UNKNOWN ? 'unknown' : 'failed';
  const { pointer } = rule;
  switch (rule.rule) {
    case 'not': {
      const actual = result === UNKNOWN ? null : true;
      reasons.push({ pointer, rule: 'not', required: false, actual, outcome });
      return;
    }
    case 'at_least': {
      const actual = rule.of.filter((part) => compileKnown(part)(facts) === TRUE).length;
      reasons.push({ pointer, rule: 'at_least', required: rule.least, actual, outcome });
      break;
    }
    case 'all':
    case 'any':
      break;
    default:
      reasons.push({ pointer, rule: rule.rule, ...requiredAndActual(rule, facts), outcome });
      return;
  }
  for (const part of rule.of) collect(part, facts, reasons);
}

/**
 * Every node of the rules with its outcome, in the order in which they are written, from the root down. Unlike reasons,
 * also the parts of a `not`, and what is met. `required` and `actual` are null for nodes that only combine others,
 * except `at_least`.
 * @param facts null: the subject is unknown
 */
export function outcomesOf(rule: Rule, facts: Facts | null): RuleOutcomeDto[] {
  const nodes: RuleOutcomeDto[] = [];
  collectOutcomes(rule, facts?.incomplete ? null : facts, nodes);
  return nodes;
}

function collectOutcomes(rule: Rule, facts: Facts | null, nodes: RuleOutcomeDto[]): TruthValue {
  const node: RuleOutcomeDto = {
    pointer: rule.pointer,
    rule: rule.rule,
    required: null,
    actual: null,
    outcome: 'unknown',
  };
  nodes.push(node);
  const parts = 'of' in rule ? rule.of.map((part) => collectOutcomes(part, facts, nodes)) : [];
  if (rule.rule === 'at_least') {
    node.required = rule.least;
    if (facts) node.actual = parts.filter((part) => part === TRUE).length;
  } else if (!('of' in rule)) {
    const { required, actual } = requiredAndActual(rule, facts ?? factsFrom(NOTHING));
    node.required = required;
    if (facts) node.actual = actual;
  }
  if (!facts) return UNKNOWN;
  const result = compileKnown(rule)(facts);
  node.outcome = result === TRUE ? 'met' : result === FALSE ? 'failed' : 'unknown';
  return result;
}

function requiredAndActual(condition: Condition, facts: Facts): Pick<AccessReasonDto, 'required' | 'actual'> {
  switch (condition.rule) {
    case 'disc_min':
      return { required: condition.least, actual: facts.score };
    case 'tct_min':
      return { required: condition.least, actual: facts.total_tct };
    case 'rating_min':
      return { required: condition.rating, actual: facts.score_rating };
    case 'reliability_min':
      return { required: condition.least, actual: facts.reliability };
    case 'evidence_min':
      return { required: condition.least, actual: facts.evidence ?? null };
    case 'metrics':
      return { required: condition.least, actual: facts.health(condition.category) };
    case 'verification':
      return { required: condition.status, actual: isVerified(facts, condition) };
  }
}
