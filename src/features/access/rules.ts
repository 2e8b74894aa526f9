import { isObject, pointerTo } from '../../kernel/json.js';
import { NAME_NOBODY, personalDataIn } from '../../kernel/personal-data.js';
import { type FieldError, refusal, refusalOf } from '../../kernel/problems.js';
import { CATEGORY_NAMES, categoryOf } from '../../scoring/names.js';
import { type Category, MODEL } from '../../scoring/model.js';
import type { GrantableStatus } from '../identity/domain/identity.js';
import { GRANTABLE_STATUSES } from '../identity/domain/identity.events.js';

/**
 * The rules of an access policy: the flat form of requirement 15, and trees of it (docs/decisions/0017). All conditions
 * of an object must hold, at any depth. A combinator (`all`, `any`, `not`, `at_least` with `of`) must be alone in its
 * object.
 */

/** Verification statuses that a rule can require (requirement 27). The last is derived from the score, never granted. */
export const STATUSES = [...GRANTABLE_STATUSES, 'BAD Status validation'] as const;
export type Status = (typeof STATUSES)[number];

/** Lowest score of each rating name. */
export const LOWEST_SCORE: ReadonlyMap<string, number> = new Map([['BAD', 0], ...MODEL.ratings]);

/** Levels of nested objects, including the outermost. */
export const MAX_DEPTH = 8;
/** Combinators and single conditions (each category of `metrics` and each status of `verification` is one). */
export const MAX_NODES = 64;
const MAX_ERRORS = 100;

/** The conditions on a lowest value, and the highest value that each can require. */
const HIGHEST = {
  disc_min: 100,
  tct_min: Number.MAX_SAFE_INTEGER,
  reliability_min: 1,
  evidence_min: Number.MAX_SAFE_INTEGER,
};

/** A condition on a lowest value. `pointer` is its place in the rules (RFC 6901, from the root of the rules). */
export type Threshold = { pointer: string; least: number } & (
  | { rule: keyof typeof HIGHEST }
  /** `least`: the lowest score of the rating. */
  | { rule: 'rating_min'; rating: string }
  | { rule: 'metrics'; category: Category }
);

/** A single condition. `issuers`, `schemes`: only grants of one of these count, accredited or not. */
export type Condition =
  Threshold | { pointer: string; rule: 'verification'; status: Status; issuers?: string[]; schemes?: string[] };

/** Rules as parsed: every list is non-empty, every threshold in range, every name known. */
export type Rule =
  | Condition
  | { rule: 'all' | 'any'; pointer: string; of: Rule[] }
  | { rule: 'at_least'; pointer: string; least: number; of: Rule[] }
  | { rule: 'not'; pointer: string; of: [Rule] };

/** How many parts of a combinator must hold. */
export function leastOf(rule: Exclude<Rule, Condition | { rule: 'not' }>): number {
  if (rule.rule === 'at_least') return rule.least;
  return rule.rule === 'all' ? rule.of.length : 1;
}

/** Parses rules from any JSON value; never throws. Each error points to the faulty node, below `/rules`. */
export function parseRules(value: unknown): { rule: Rule } | { errors: FieldError[] } {
  const parser = new Parser();
  const rule = parser.rule(value, '', 1);
  return rule && parser.errors.length === 0 ? { rule } : { errors: parser.errors };
}

/** The parsed rules. @throws Problem validation_failed */
export function validRules(value: unknown): Rule {
  const parsed = parseRules(value);
  if ('errors' in parsed) throw refusal(parsed.errors);
  return parsed.rule;
}

/** Refuses issuers that name a person: a policy is recorded permanently. @throws Problem personal_data */
export function refusePersons(rule: Rule): void {
  if ('of' in rule) rule.of.forEach(refusePersons);
  else if (rule.rule === 'verification' && rule.issuers?.some((issuer) => personalDataIn(issuer) !== undefined)) {
    throw refusalOf(`/rules${rule.pointer}/issuers`, 'personal_data', `issuers must ${NAME_NOBODY}`);
  }
}

/** An issuer or a scheme, as verifications list them. */
const NAME = /^[!-~]{1,128}$/;
const COMBINATORS = ['all', 'any', 'not', 'at_least'];
const CONDITIONS = ['disc_min', 'tct_min', 'rating_min', 'reliability_min', 'evidence_min', 'metrics', 'verification'];
export const RULE_NAMES = [...CONDITIONS, ...COMBINATORS];
const KNOWN = [...RULE_NAMES, 'of'];

class Parser {
  readonly errors: FieldError[] = [];
  private nodes = 0;

  rule(value: unknown, pointer: string, depth: number): Rule | undefined {
    if (!isObject(value)) return this.wrong(pointer, 'is_object', `a rule must be a JSON object, not ${kindOf(value)}`);
    if (depth > MAX_DEPTH)
      return this.wrong(pointer, 'too_deep', `rules may be nested at most ${MAX_DEPTH} levels deep`);
    const names = Object.keys(value);
    if (names.length === 0) {
      const message = 'a rule must contain at least one condition; an empty rule would always grant';
      return this.wrong(pointer, 'empty', message);
    }
    for (const name of names) {
      if (KNOWN.includes(name)) continue;
      const message = `${kindOf(name)} is not a rule; the rules are ${KNOWN.join(', ')}`;
      this.wrong(pointerTo(pointer, name), 'unknown_field', message);
      if (this.errors.length >= MAX_ERRORS) return undefined;
    }
    const combinator = names.find((name) => COMBINATORS.includes(name)) ?? (names.includes('of') ? 'at_least' : null);
    if (combinator !== null) return this.combination(combinator, value, pointer, depth);
    const of = names.flatMap((name) => this.condition(name, value[name], `${pointer}/${name}`) ?? []);
    return of.length === 1 ? of[0] : { rule: 'all', pointer, of };
  }

  private combination(name: string, value: Record<string, unknown>, pointer: string, depth: number): Rule | undefined {
    if (!this.count()) return undefined;
    const own = name === 'at_least' ? ['at_least', 'of'] : [name];
    for (const other of Object.keys(value)) {
      if (own.includes(other) || !KNOWN.includes(other)) continue;
      const message = `${own.join(' with ')} must be alone in its object; put ${other} into a separate rule`;
      this.wrong(pointerTo(pointer, other), 'stands_alone', message);
    }
    if (name === 'at_least') return this.atLeast(value, pointer, depth);
    const at = `${pointer}/${name}`;
    if (name === 'not') {
      const inner = this.rule(value['not'], at, depth + 1);
      return inner && { rule: 'not', pointer: at, of: [inner] };
    }
    const of = this.list(value[name], at, depth);
    return of && { rule: name as 'all' | 'any', pointer: at, of };
  }

  private atLeast(value: Record<string, unknown>, pointer: string, depth: number): Rule | undefined {
    const at = `${pointer}/at_least`;
    const least = value['at_least'] as number;
    const of = Object.hasOwn(value, 'of')
      ? this.list(value['of'], `${pointer}/of`, depth)
      : this.wrong(`${pointer}/of`, 'required', 'at_least needs `of`, the list of rules to count');
    if (!Object.hasOwn(value, 'at_least')) {
      return this.wrong(at, 'required', '`of` needs at_least, the number of rules that must hold');
    }
    if (!Number.isInteger(least) || least < 1) {
      return this.wrong(at, 'min', `at_least must be an integer from 1, not ${kindOf(least)}`);
    }
    const offered = Array.isArray(value['of']) ? value['of'].length : Infinity;
    if (least > offered) {
      return this.wrong(at, 'max', `at_least is ${least}, but of lists only ${offered}: it could never hold`);
    }
    return of && { rule: 'at_least', pointer: at, least, of };
  }

  private list(value: unknown, pointer: string, depth: number): Rule[] | undefined {
    if (!Array.isArray(value)) return this.wrong(pointer, 'is_array', `must be a list of rules, not ${kindOf(value)}`);
    if (value.length === 0) return this.wrong(pointer, 'empty', 'the list must contain at least one rule');
    const rules: (Rule | undefined)[] = [];
    for (let i = 0; i < value.length && this.nodes <= MAX_NODES && this.errors.length < MAX_ERRORS; i++) {
      rules.push(this.rule(value[i], `${pointer}/${i}`, depth + 1));
    }
    return rules.every((rule) => rule !== undefined) ? (rules as Rule[]) : undefined;
  }

  private condition(name: string, value: unknown, pointer: string): Condition[] | undefined {
    switch (name) {
      case 'disc_min':
      case 'tct_min':
      case 'reliability_min':
      case 'evidence_min':
        if (!this.count() || !this.isWithin(value, HIGHEST[name], pointer)) return undefined;
        return [{ rule: name, pointer, least: value }];
      case 'rating_min': {
        if (!this.count()) return undefined;
        const least = LOWEST_SCORE.get(value as string);
        if (least !== undefined) return [{ rule: name, pointer, rating: value as string, least }];
        const ratings = [...LOWEST_SCORE.keys()].join(', ');
        return this.wrong(pointer, 'is_in', `must be one of ${ratings}, not ${kindOf(value)}`);
      }
      case 'metrics':
        return this.metrics(value, pointer);
      case 'verification':
        return this.verification(value, pointer);
      default:
        return undefined;
    }
  }

  private metrics(value: unknown, pointer: string): Condition[] | undefined {
    if (!isObject(value)) {
      return this.wrong(pointer, 'is_object', `must map categories to thresholds, not ${kindOf(value)}`);
    }
    const conditions: Condition[] = [];
    const names = Object.keys(value);
    if (names.length === 0) this.wrong(pointer, 'empty', 'metrics must name at least one category');
    for (const name of names) {
      if (!this.count()) break;
      const at = pointerTo(pointer, name);
      const category = categoryOf(name);
      if (category === undefined) {
        this.wrong(at, 'unknown_category', `${kindOf(name)} is not one of ${CATEGORY_NAMES.join(', ')}`);
      } else if (conditions.some((other) => other.rule === 'metrics' && other.category === category)) {
        this.wrong(at, 'duplicate', `${category} occurs twice, once as an alias`);
      } else if (this.isWithin(value[name], 1, at)) {
        conditions.push({ rule: 'metrics', pointer: at, category, least: value[name] });
      }
    }
    return conditions;
  }

  private verification(value: unknown, pointer: string): Condition[] | undefined {
    if (!Array.isArray(value)) {
      return this.wrong(pointer, 'is_array', `must be a list of verification statuses, not ${kindOf(value)}`);
    }
    if (value.length === 0) this.wrong(pointer, 'empty', 'verification must list at least one status');
    const conditions: Condition[] = [];
    for (const [i, status] of value.entries()) {
      if (!this.count()) break;
      if (isObject(status)) {
        const named = this.namedVerification(status, `${pointer}/${i}`);
        if (named) conditions.push(named);
      } else if (!STATUSES.includes(status)) {
        this.wrong(`${pointer}/${i}`, 'is_in', `must be one of ${STATUSES.join(', ')}, not ${kindOf(status)}`);
      } else if (value.indexOf(status) < i) {
        this.wrong(`${pointer}/${i}`, 'duplicate', `${status} is listed twice`);
      } else {
        conditions.push({ rule: 'verification', pointer: `${pointer}/${i}`, status });
      }
    }
    return conditions;
  }

  /** `{status, issuers?, schemes?}` */
  private namedVerification(value: Record<string, unknown>, pointer: string): Condition | undefined {
    const { status, issuers, schemes, ...others } = value;
    for (const name of Object.keys(others)) {
      const message = `${kindOf(name)} is unknown; known are status, issuers, schemes`;
      return this.wrong(pointerTo(pointer, name), 'unknown_field', message);
    }
    if (!GRANTABLE_STATUSES.includes(status as GrantableStatus)) {
      const message = `must be one of ${GRANTABLE_STATUSES.join(', ')}, not ${kindOf(status)}`;
      return this.wrong(`${pointer}/status`, 'is_in', message);
    }
    const lists = { issuers, schemes };
    for (const [name, list] of Object.entries(lists)) {
      if (list === undefined) continue;
      const isList = Array.isArray(list) && list.length > 0 && list.length <= MAX_NODES;
      if (isList && list.every((item) => typeof item === 'string' && NAME.test(item))) continue;
      return this.wrong(`${pointer}/${name}`, 'is_array', `must list the names of 1 to ${MAX_NODES} ${name}`);
    }
    return { rule: 'verification', pointer, status, ...lists } as Condition;
  }

  private isWithin(value: unknown, max: number, pointer: string): value is number {
    if (typeof value === 'number' && value >= 0 && value <= max) return true;
    const range = max === Number.MAX_SAFE_INTEGER ? 'a number from 0' : `a number from 0 to ${max}`;
    const code = typeof value !== 'number' ? 'is_number' : value > max ? 'max' : 'min';
    this.wrong(pointer, code, `must be ${range}, not ${kindOf(value)}`);
    return false;
  }

  /** Counts a node. Returns false if there are too many, which is reported once, for the root. */
  private count(): boolean {
    this.nodes++;
    if (this.nodes === MAX_NODES + 1) {
      this.wrong('', 'too_many_nodes', `rules may have at most ${MAX_NODES} combinators and conditions`);
    }
    return this.nodes <= MAX_NODES;
  }

  private wrong(pointer: string, code: string, message: string): undefined {
    if (this.errors.length < MAX_ERRORS) this.errors.push({ pointer: `/rules${pointer}`, code, message });
    return undefined;
  }
}

/** A value as it is named in an error. */
function kindOf(value: unknown): string {
  if (value === undefined) return 'absent';
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 60));
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}
