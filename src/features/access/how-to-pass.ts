import { tctToHealth } from '../../scoring/health.js';
import { MODEL, TCT_BY_CRITICALITY } from '../../scoring/model.js';
import { disc1 } from '../../scoring/models/disc-1.js';
import { disc2 } from '../../scoring/models/disc-2.js';
import type { ScoringModel } from '../../scoring/models/scoring-model.js';
import { smallestNet } from '../../scoring/score.js';
import { GRANTABLE_STATUSES } from '../identity/domain/identity.events.js';
import type { FactChangeDto } from './ap.dto.js';
import { type TruthValue, TRUE, evaluate } from './evaluate.js';
import { type Facts, type Measured, factsFrom, isVerified } from './facts.js';
import { type Condition, type Rule, leastOf } from './rules.js';

/**
 * Version of the algorithm; recorded with each decision, so that an audit derives the same advice.
 * 1: any smallest set. 2: the cheapest of the smallest sets. 3: clearing a BAD status names the conditions it fulfils.
 * 4: a search that ends early still finds a set that passes, and fewer do.
 */
export type Advice = 1 | 2 | 3 | 4;
export const ADVICE: Advice = 4;

/** The cost of a verification compared with earned TCT: as much as ten actions of High criticality. */
const VERIFICATION_TCT = 1_000;
/** A day of evidence costs what a day can earn. */
const DAY_TCT = TCT_BY_CRITICALITY.at(-1)!;
/** The lowest cost of a change: the TCT of one action of the lowest criticality. */
const MIN_TCT = TCT_BY_CRITICALITY[0]!;

/**
 * A smallest set of increases of facts after which the rules grant. Empty if the rules already grant, or if no such set
 * exists: values are never advised to fall, and an undecodable event stays undecodable. Getting a first value counts as
 * an increase too; a `not` may require it.
 *
 * Of several such sets it returns the cheapest. The cost of a change is the TCT that would have to be earned today,
 * without flags, for this change alone. Of equally cheap sets it prefers earlier facts (net TCT, health by category,
 * reliability, verifications) and smaller increases. It advises clearing a BAD status only if that takes fewer changes.
 *
 * Every condition is a threshold on one fact (score, rating, TCT and BAD Status validation all on net TCT). So the
 * search is over which facts to raise, and past which of their thresholds. Sets are tried by size. A partial choice is
 * abandoned as soon as raising `left` more facts could not complete it. Rules with many alternatives can have more
 * partial choices than a check has time for: the search ends after `MAX_VISITS` of them. Then a set of which no change
 * can be left out is returned, or the cheapest set found so far.
 */
export function howToPass(rule: Rule, facts: Facts, advice: Advice = ADVICE): FactChangeDto[] {
  if (facts.incomplete) return [];
  const { bad_level } = facts;
  const kept = smallestChange(rule, facts, bad_level, Infinity, advice);
  if (bad_level === null || (kept && kept.length <= 1)) return kept ?? [];
  // Clearing the BAD status is one more change, after which net TCT determines the score again.
  const cleared = smallestChange(rule, facts, null, (kept?.length ?? Infinity) - 2, advice);
  if (!cleared) return kept ?? [];
  const pointers = advice > 2 ? fulfilledByClearing(rule, facts, cleared) : [];
  return [{ fact: 'bad_status', required: null, actual: facts.bad_level, pointers }, ...cleared];
}

/** Conditions that hold after all changes, but not if the BAD status stays. */
function fulfilledByClearing(rule: Rule, facts: Facts, others: readonly FactChangeDto[]): string[] {
  const raised = (fact: string): number | undefined =>
    others.find((change) => change.fact === fact)?.required as number;
  const net = raised('net_tct');
  const after: Measured = {
    incomplete: false,
    net_tct: net ?? facts.net_tct,
    actions: net === undefined ? facts.actions : Math.max(1, facts.actions),
    bad_level: facts.bad_level,
    reliability: raised('reliability') ?? facts.reliability,
    evidence: raised('evidence') ?? facts.evidence ?? null,
    // No condition on these depends on the BAD status.
    health: facts.health,
    verified: facts.verified,
  };
  const [kept, cleared] = [factsFrom(after), factsFrom({ ...after, bad_level: null })];
  const pointers: string[] = [];
  const visit = (part: Rule, wanted: TruthValue): void => {
    if (part.rule === 'not') return visit(part.of[0], (TRUE - wanted) as TruthValue);
    if ('of' in part) return part.of.forEach((inner) => visit(inner, wanted));
    if (evaluate(part, kept) !== wanted && evaluate(part, cleared) === wanted) pointers.push(part.pointer);
  };
  visit(rule, TRUE);
  return pointers;
}

const MAX_VISITS = 5_000;
/** Of the versions before 4, which returned nothing if the search for a smallest set reached it. */
const EARLIER_MAX_VISITS = 50_000;

interface Bound {
  threshold: number;
  pointer: string;
}

/** A fact as an axis of the search: its current value, and the thresholds of the conditions on it. */
interface Axis {
  fact: string;
  /** −Infinity: no value. */
  actual: number;
  isStatus: boolean;
  /** Of a status: the issuers or schemes that count. */
  by?: Pick<FactChangeDto, 'issuers' | 'schemes'>;
  /** TCT required to reach a value from nothing. */
  cost: (value: number) => number;
  /** During the search: the chosen value, and whether it may still be raised. */
  value: number;
  open: boolean;
  /** Thresholds to reach. */
  lower: Bound[];
  /** Thresholds to stay below. */
  upper: Bound[];
}

/** The rules with every `not` moved down to the conditions; those that cannot change are replaced by their value. */
type Gate = true | false | Literal | Node;
interface Node {
  least: number;
  of: Exclude<Gate, boolean>[];
  /** For each number of axes, in how many parts they occur at most: `[0, 3, 5]` if one occurs in three, another in two. */
  reach?: number[];
}
/** Holds if the value of its axis is at or above the threshold; with `under`, if it is below. */
interface Literal {
  axis: Axis;
  threshold: number;
  under: boolean;
}

/**
 * @param badLevel null: assume that the BAD status is cleared
 * @param most maximum number of changes
 */
function smallestChange(
  rule: Rule,
  facts: Facts,
  badLevel: number | null,
  most: number,
  advice: Advice,
): FactChangeDto[] | undefined {
  const axes = axesOf(facts);
  const gate = new Gates(facts, badLevel, axes).of(rule, false);
  if (typeof gate === 'boolean') return gate ? [] : undefined;
  const used = [...axes.values()].filter((axis) => candidatesOf(axis).length > 0);
  const maxVisits = advice > 3 ? MAX_VISITS : EARLIER_MAX_VISITS;
  if (advice > 3) setReach(gate);
  const search = new Search(gate, used, maxVisits);
  const changes = () => used.filter(({ value, actual }) => value !== actual).map((axis) => changeOf(axis, gate));
  for (let size = 0; size <= Math.min(used.length, most); size++) {
    if (!search.choose(0, size)) continue;
    for (const axis of used) lowerAsFarAsPossible(axis, gate);
    if (advice > 1) takeCheapest(gate, used, size, maxVisits);
    return changes();
  }
  if (advice < 4 || search.visits >= 0) return undefined;
  if (!new Search(gate, used, maxVisits).choose(0, Infinity)) return undefined;
  const dearestFirst = used.toSorted((a, b) => costOf(b, b.value) - costOf(a, a.value));
  for (const axis of dearestFirst) leaveOutIfPossible(axis, gate);
  for (const axis of used) lowerAsFarAsPossible(axis, gate);
  const found = changes();
  return found.length <= most ? found : undefined;
}

/** Gives the axes from `index` on their current values. @param open whether they may be raised */
function reset(axes: readonly Axis[], index: number, open: boolean): void {
  for (let i = index; i < axes.length; i++) {
    axes[i]!.value = axes[i]!.actual;
    axes[i]!.open = open;
  }
}

/** A search for values for which the gate holds, by a number of visits at most. */
class Search {
  /** By axis, the values to try; the last is to leave it as it is. */
  private readonly choices: number[][];

  constructor(
    private readonly gate: Gate,
    private readonly axes: readonly Axis[],
    public visits: number,
  ) {
    this.choices = axes.map((axis) => [...choicesOf(axis), axis.actual]);
  }

  /**
   * Chooses values for `left` of the axes from `index` on; Infinity: for any number of them. If the gate holds then, the
   * values stay in the axes.
   */
  choose(index: number, left: number): boolean {
    if (--this.visits < 0) return false;
    reset(this.axes, index, left > 0);
    const lacks = missing(this.gate);
    if (lacks === 0) return true;
    if (lacks === Infinity || lacks > left) return false;
    if (left !== Infinity && this.axes.length - index < left) return false;
    const axis = this.axes[index]!;
    for (const value of this.choices[index]!) {
      axis.value = value;
      axis.open = false;
      if (this.choose(index + 1, value === axis.actual ? left : left - 1)) return true;
    }
    return false;
  }
}

/** Sets `size` of the axes to the cheapest values for which the gate holds. It must hold for their values before. */
function takeCheapest(gate: Gate, axes: readonly Axis[], size: number, maxVisits: number): void {
  const candidates = axes.map((axis) => candidatesOf(axis).map((value) => ({ value, cost: costOf(axis, value) })));
  /** The lowest cost of a change of this or a later axis. */
  const least = candidates.map((_, i) => Math.min(...candidates.slice(i).map(([first]) => first!.cost)));
  const best = { cost: Infinity, values: axes.map(({ value }) => value) };
  let visits = maxVisits;

  const visit = (index: number, left: number, cost: number): void => {
    if (--visits < 0) return;
    reset(axes, index, left > 0);
    if (missing(gate) > left) return;
    if (left === 0) {
      if (cost < best.cost) Object.assign(best, { cost, values: axes.map(({ value }) => value) });
      return;
    }
    if (axes.length - index < left || cost + left * least[index]! >= best.cost) return;
    const axis = axes[index]!;
    for (const candidate of candidates[index]!) {
      if (cost + candidate.cost + (left - 1) * (least[index + 1] ?? 0) >= best.cost) break;
      axis.value = candidate.value;
      axis.open = false;
      visit(index + 1, left - 1, cost + candidate.cost);
    }
    axis.value = axis.actual;
    axis.open = false;
    visit(index + 1, left, cost);
  };
  visit(0, size, 0);
  axes.forEach((axis, i) => (axis.value = best.values[i]!));
}

function costOf({ actual, cost }: Pick<Axis, 'actual' | 'cost'>, value: number): number {
  return Math.max(MIN_TCT, cost(value) - (actual === -Infinity ? 0 : cost(actual)));
}

/** At least how many open axes must be raised until the gate holds; 0: it holds; Infinity: it can no longer hold. */
function missing(gate: Gate): number {
  if (typeof gate === 'boolean') return gate ? 0 : Infinity;
  if ('axis' in gate) {
    const { axis, threshold, under } = gate;
    if (under ? axis.value > -Infinity && axis.value < threshold : axis.value >= threshold) return 0;
    return axis.open && (!under || axis.value === -Infinity) ? 1 : Infinity;
  }
  let holding = 0;
  const lacking: number[] = [];
  for (const part of gate.of) {
    const lacks = missing(part);
    if (lacks === 0 && ++holding === gate.least) return 0;
    if (lacks !== 0 && lacks !== Infinity) lacking.push(lacks);
  }
  const needed = gate.least - holding;
  if (lacking.length < needed) return Infinity;
  if (!gate.reach) return 1;
  // The parts that take least, together. Axes that occur in several parts count in each of them.
  lacking.sort((a, b) => a - b);
  const raised = lacking.slice(0, needed).reduce((sum, lacks) => sum + lacks, 0);
  return Math.max(
    lacking[needed - 1]!,
    gate.reach.findIndex((parts) => parts >= raised),
  );
}

/** Sets `reach` of all nodes, and returns the axes of the gate. */
function setReach(gate: Gate): Set<Axis> {
  if (typeof gate === 'boolean') return new Set();
  if ('axis' in gate) return new Set([gate.axis]);
  const occurrences = new Map<Axis, number>();
  for (const part of gate.of) {
    for (const axis of setReach(part)) occurrences.set(axis, (occurrences.get(axis) ?? 0) + 1);
  }
  gate.reach = [0];
  for (const parts of [...occurrences.values()].sort((a, b) => b - a)) gate.reach.push(gate.reach.at(-1)! + parts);
  return new Set(occurrences.keys());
}

/** Values above the current one at which a condition changes, ascending. Without a current value, 0 can be one. */
function candidatesOf({ actual, lower, upper }: Axis): number[] {
  const values = lower.map(({ threshold }) => threshold);
  if (actual === -Infinity && upper.length > 0) values.push(0);
  return [...new Set(values)].filter((value) => value > actual).sort((a, b) => a - b);
}

/** Values to try: the highest, and the highest below each upper bound. Values higher than needed are lowered later. */
function choicesOf(axis: Axis): number[] {
  const candidates = candidatesOf(axis);
  const bounds = [...axis.upper.map(({ threshold }) => threshold), Infinity];
  const highest = bounds.map((bound) => candidates.findLast((value) => value < bound));
  return [...new Set(highest)].filter((value) => value !== undefined).sort((a, b) => a - b);
}

function leaveOutIfPossible(axis: Axis, gate: Gate): void {
  const { value } = axis;
  axis.value = axis.actual;
  if (missing(gate) !== 0) axis.value = value;
}

function lowerAsFarAsPossible(axis: Axis, gate: Gate): void {
  if (axis.value === axis.actual) return;
  const highest = axis.value;
  for (const value of candidatesOf(axis)) {
    axis.value = value;
    if (value === highest || missing(gate) === 0) return;
  }
}

function changeOf(axis: Axis, gate: Gate): FactChangeDto {
  const { fact, value, actual, isStatus, lower, upper } = axis;
  const reached = lower.filter(({ threshold }) => threshold <= value);
  const above = upper.filter(({ threshold }) => threshold > value);
  const settled = actual === -Infinity ? above : [];
  const below = above
    .map(({ threshold }) => threshold)
    .sort((a, b) => a - b)
    .find((threshold) => {
      axis.value = threshold;
      return missing(gate) !== 0;
    });
  axis.value = value;
  return {
    fact,
    required: isStatus ? true : value,
    actual: isStatus ? false : actual === -Infinity ? null : actual,
    pointers: [...reached, ...settled].map(({ pointer }) => pointer),
    ...axis.by,
    ...(below !== undefined && { below }),
  };
}

function axesOf(facts: Facts): Map<string, Axis> {
  const axes = new Map<string, Axis>();
  const model = typeof facts.evidence === 'number' ? disc2 : disc1;
  const add = (fact: string, actual: number | null) => axes.set(fact, axisOf(fact, actual ?? -Infinity, model));
  add('net_tct', facts.net_tct);
  for (const category of MODEL.categories) add(`health.${category}`, facts.health(category));
  add('reliability', facts.reliability);
  if (typeof facts.evidence === 'number') add('evidence', facts.evidence);
  for (const status of GRANTABLE_STATUSES) add(`verification.${status}`, facts.holds[status] ? 1 : 0);
  return axes;
}

function axisOf(fact: string, actual: number, model: ScoringModel, by?: Axis['by']): Axis {
  const isStatus = fact.startsWith('verification.');
  return { fact, actual, isStatus, by, cost: costFrom(fact, model), value: actual, open: false, lower: [], upper: [] };
}

/** The TCT that it takes to reach a value of a fact from nothing. */
function costFrom(fact: string, model: ScoringModel): (value: number) => number {
  if (fact === 'net_tct' || fact === 'actions') return (tct) => tct;
  if (fact === 'reliability') return (value) => model.tctToReliability(value);
  if (fact === 'evidence') return (days) => Math.ceil(days) * DAY_TCT;
  return fact.startsWith('health.') ? tctToHealth : (held) => held * VERIFICATION_TCT;
}

/** What a change of a decision costs, TCT; Infinity to clear a BAD status, which nothing earned can do. */
export function priceOf({ fact, required, actual }: FactChangeDto, model: ScoringModel): number {
  if (required === null) return Infinity;
  const from = actual === null ? -Infinity : Number(actual);
  return costOf({ actual: from, cost: costFrom(fact, model) }, Number(required));
}

/** Makes gates of rules, and adds the thresholds in them to the axes. */
class Gates {
  /** @param badLevel as of `smallestChange` */
  constructor(
    private readonly facts: Facts,
    private readonly badLevel: number | null,
    private readonly axes: Map<string, Axis>,
  ) {}

  /** @param negated whether the rule is inside an odd number of `not` */
  of(rule: Rule, negated: boolean): Gate {
    switch (rule.rule) {
      case 'not':
        return this.of(rule.of[0], !negated);
      case 'all':
      case 'any':
      case 'at_least': {
        const least = leastOf(rule);
        const parts = rule.of.map((part) => this.of(part, negated));
        // `not` n of m: at least m − n + 1 of the negations hold.
        return gateOf(negated ? parts.length - least + 1 : least, parts);
      }
      case 'reliability_min': {
        const own = this.literal(rule, negated);
        if (typeof this.facts.evidence !== 'number') return own;
        // From disc-2 on, nobody in the BAD band passes.
        const band = { rule: 'disc_min' as const, pointer: rule.pointer, least: MODEL.score_floor };
        return gateOf(negated ? 1 : 2, [own, this.literal(band, negated)]);
      }
      case 'evidence_min':
        // Unknown in a version that does not say how much there is: neither it nor its negation can hold.
        return typeof this.facts.evidence === 'number' && this.literal(rule, negated);
      default:
        return this.literal(rule, negated);
    }
  }

  private literal(condition: Condition, negated: boolean): Gate {
    const found = this.thresholdOf(condition);
    if (typeof found === 'boolean') return found !== negated;
    const { axis, threshold } = found;
    // A threshold that is reached stays reached when values are raised.
    if (axis.actual >= threshold) return !negated;
    axis[negated ? 'upper' : 'lower'].push({ threshold, pointer: condition.pointer });
    return { axis, threshold, under: negated };
  }

  /** A condition as a threshold on a fact, or as its value if no increase can change it. */
  private thresholdOf(condition: Condition): boolean | { axis: Axis; threshold: number } {
    const { badLevel } = this;
    const at = (fact: string, threshold: number) => ({ axis: this.axes.get(fact)!, threshold });
    switch (condition.rule) {
      case 'disc_min':
      case 'rating_min':
        return badLevel === null ? at('net_tct', smallestNet(condition.least)) : badLevel >= condition.least;
      case 'tct_min':
        return condition.least === 0 ? true : at('net_tct', Math.ceil(condition.least));
      case 'reliability_min':
        return at('reliability', condition.least);
      case 'evidence_min':
        return at('evidence', condition.least);
      case 'metrics':
        return at(`health.${condition.category}`, condition.least);
      case 'verification':
        if (condition.issuers || condition.schemes) return { axis: this.axisOfNamed(condition), threshold: 1 };
        if (condition.status !== 'BAD Status validation') return at(`verification.${condition.status}`, 1);
        // Only actions raise net TCT, so an increase also provides the action that this status requires.
        return badLevel === null && at('net_tct', this.facts.actions > 0 ? 0 : 1);
    }
  }

  /**
   * A verification by named issuers or schemes has an axis of its own beside that of the status: who is named need not
   * be accredited, so one verification need not fulfil both. Conditions with different lists have different axes too,
   * even if one verification could fulfil several: to find that would be another version of the advice, and so another
   * schema of every decision that is recorded.
   */
  private axisOfNamed(condition: Condition & { rule: 'verification' }): Axis {
    const { status, issuers, schemes } = condition;
    const by = { ...(issuers && { issuers }), ...(schemes && { schemes }) };
    const name = JSON.stringify([status, by]);
    const known = this.axes.get(name);
    if (known) return known;
    const axis = axisOf(`verification.${status}`, isVerified(this.facts, condition) ? 1 : 0, disc1, by);
    this.axes.set(name, axis);
    return axis;
  }
}

function gateOf(least: number, parts: Gate[]): Gate {
  const of = parts.filter((part): part is Exclude<Gate, boolean> => typeof part !== 'boolean');
  const left = least - parts.filter((part) => part === true).length;
  if (left <= 0) return true;
  return left > of.length ? false : { least: left, of };
}
