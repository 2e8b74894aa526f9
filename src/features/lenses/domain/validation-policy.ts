import { type Decoded, type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { canonicalJson, sha256Hex } from '../../../kernel/hash.js';
import { similarName } from '../../../kernel/misspelling.js';
import { type FieldError, Problem, type ProblemCode, fieldProblem } from '../../../kernel/problems.js';
import type { Lens } from '../../../scoring/lens.js';
import { DOCUMENTED_METRICS, canonicalMetric, metricCategory } from '../../../scoring/names.js';
import { type Category, type Criticality, MODEL } from '../../../scoring/model.js';
import {
  type PolicyInput,
  type PolicyMetadata,
  validationPolicyCreated,
  validationPolicyRetired,
} from './lenses.events.js';

/** A validation policy: which metrics count, and with what weight (requirement 13). Canonical names; never changes. */
export type PolicyContent = {
  policy_id: string;
  tris_org: string;
  inputs: PolicyInput[];
  metadata: PolicyMetadata;
  /** The metrics of the inputs as the owner wrote them. */
  names: string[];
};

export interface Policy extends PolicyContent {
  content_hash: string;
  retired: boolean;
}

/** Something that the owner may want to check. The policy is accepted. */
export interface Warning {
  pointer: string;
  code: 'computed_weight_low' | 'total_weight_differs' | 'similar_metric';
  message: string;
}

/** `VP_<NAME>_V<n>`, n from 1 (requirement 13). Where one is created, it has at most 128 characters. */
export const VP_ID = /^VP_[A-Z0-9_]{1,122}_V[1-9][0-9]{0,8}$/;
/** Bounds of a policy's total weight, both inclusive, in hundredths (requirement 24). */
export const TOTAL_HUNDREDTHS = { min: 95, max: 105 };

export function policyStream(policyId: string): string {
  return `vp-${policyId}`;
}

const EVENTS = [validationPolicyCreated, validationPolicyRetired] as const;

/** Folds a `vp-<id>` stream; undefined if it is empty. @throws Problem history_unreadable */
export const policyOf = streamFold(EVENTS, evolve);

function evolve(policy: Policy | undefined, event: Decoded<(typeof EVENTS)[number]>): Policy | undefined {
  switch (event.type) {
    case 'ValidationPolicyCreated':
      return { ...event.data, retired: false };
    case 'ValidationPolicyRetired':
      return policy && { ...policy, retired: true };
    default:
      return event satisfies never;
  }
}

/** What identifies a policy: its content with canonical names. */
export function identityOf({ policy_id, tris_org, inputs, metadata }: PolicyContent) {
  return { policy_id, tris_org, inputs, metadata };
}

/** SHA-256 of the RFC 8785 JSON of a policy's content, hex. */
export function contentHash(content: PolicyContent): string {
  return sha256Hex(canonicalJson(identityOf(content)));
}

/** A policy never changes. Creating it again with the same content does nothing. @throws Problem policy_conflict */
export function decideCreate(policy: Policy | undefined, content: PolicyContent): Fact[] {
  const { policy_id, names } = content;
  const content_hash = contentHash(content);
  if (policy) {
    if (policy.content_hash === content_hash) return [];
    const message = `${policy_id} exists with other content`;
    const detail = `${message}. A policy cannot be changed; create a new version.`;
    throw fieldProblem('/policy_id', 'policy_conflict', message, detail);
  }
  return [fact(validationPolicyCreated, { ...identityOf(content), content_hash, names })];
}

/** The inputs with the metrics as the owner wrote them. */
export function writtenInputs({ inputs, names }: Policy): PolicyInput[] {
  return inputs.map((input, i) => ({ ...input, metric: names[i]! }));
}

/** Does nothing for a retired policy. A retired policy stays active where it is active. */
export function decideRetire({ policy_id, tris_org, retired }: Policy): Fact[] {
  return retired ? [] : [fact(validationPolicyRetired, { policy_id, tris_org })];
}

/** The lens of a policy: an action has the weight that the policy gives its metric; other metrics do not count. */
export function lensOf({ policy_id, content_hash, inputs }: PolicyContent & { content_hash: string }): Lens {
  const tct = inputs.map(
    ({ metric, criticality }) => [metric, hundredths(criticality) * MODEL.tct_per_hundredth] as const,
  );
  return { policy_id, content_hash, tct_by_metric: new Map(tct) };
}

/** The sums of a policy's weights, in total and by category, as exact decimals. */
export function weightsOf(inputs: readonly PolicyInput[]): {
  computed_weight: number;
  category_weights: Partial<Record<Category, number>>;
} {
  const sums: Partial<Record<Category, number>> = {};
  for (const { metric, criticality } of inputs) {
    const category = metricCategory(metric);
    sums[category] = (sums[category] ?? 0) + hundredths(criticality);
  }
  const used = MODEL.categories.filter((category) => sums[category] !== undefined);
  const category_weights = Object.fromEntries(used.map((category) => [category, sums[category]! / 100]));
  return { computed_weight: totalHundredths(inputs) / 100, category_weights };
}

/**
 * Refuses a policy whose weights break a rule; reports all faults at once (requirements 23, 24).
 * @param parent pointer of the policy in the request
 * @throws Problem weight_criticality_mismatch, duplicate_metric, total_weight_out_of_range; with several faults, the
 * code of the first
 */
export function refuseUnsound({ inputs, metadata }: PolicyContent, parent = ''): void {
  const errors: (FieldError & { code: ProblemCode })[] = [];
  const wrong = (at: string, code: ProblemCode, message: string) =>
    errors.push({ pointer: `${parent}/${at}`, code, message });
  const firstOf = new Map<string, number>();
  for (const [i, { metric, criticality, weight }] of inputs.entries()) {
    const due = hundredths(criticality) / 100;
    if (weight !== due) {
      const message = `the weight of ${criticality} is ${due}, not ${weight}`;
      wrong(`inputs/${i}/weight`, 'weight_criticality_mismatch', message);
    }
    const first = firstOf.get(metric);
    if (first === undefined) firstOf.set(metric, i);
    else wrong(`inputs/${i}/metric`, 'duplicate_metric', `${metric} already has a weight in inputs/${first}`);
  }
  const { min, max } = TOTAL_HUNDREDTHS;
  if (metadata.total_weight < min / 100 || metadata.total_weight > max / 100) {
    const message = `total_weight must be from ${min / 100} to ${max / 100}, not ${metadata.total_weight}`;
    wrong('metadata/total_weight', 'total_weight_out_of_range', message);
  }
  const computed = totalHundredths(inputs);
  if (computed > max) {
    const message = `the weights of the inputs add up to ${computed / 100}, more than ${max / 100}`;
    wrong('inputs', 'total_weight_out_of_range', message);
  }
  const [first] = errors;
  if (!first) return;
  const more = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
  throw new Problem(first.code, `${first.message} at ${first.pointer}${more}`, { errors });
}

/** Things that are allowed but possibly not intended. */
export function warningsOf({ inputs, metadata, names }: PolicyContent): Warning[] {
  const warnings: Warning[] = [];
  for (const [i, { metric }] of inputs.entries()) {
    const similar = similarDocumented(metric);
    if (similar === undefined) continue;
    const message = `${names[i]} is not a documented metric; did you mean ${similar}?`;
    warnings.push({ pointer: `/inputs/${i}/metric`, code: 'similar_metric', message });
  }
  const computed = totalHundredths(inputs);
  const declared = metadata.total_weight;
  if (computed < TOTAL_HUNDREDTHS.min) {
    const message = `the weights of the inputs add up to ${computed / 100}, less than ${TOTAL_HUNDREDTHS.min / 100}; total_weight declares ${declared}`;
    warnings.push({ pointer: '/inputs', code: 'computed_weight_low', message });
  } else if (computed / 100 !== declared) {
    const message = `total_weight declares ${declared}, but the weights of the inputs add up to ${computed / 100}`;
    warnings.push({ pointer: '/metadata/total_weight', code: 'total_weight_differs', message });
  }
  return warnings;
}

/**
 * What is promoted for the platform must be a platform configuration: its inputs, not only what it declares, must add
 * up to a total in range (requirement 24).
 * @throws Problem total_weight_out_of_range
 */
export function refuseUnlessConfiguration({ policy_id, inputs }: Pick<Policy, 'policy_id' | 'inputs'>): void {
  const { min, max } = TOTAL_HUNDREDTHS;
  const computed = totalHundredths(inputs);
  if (computed >= min && computed <= max) return;
  const message = `the weights of the inputs of ${policy_id} add up to ${computed / 100}, not ${min / 100} to ${max / 100}`;
  const detail = `${message}. It cannot be promoted for the platform.`;
  throw fieldProblem('policy_id', 'total_weight_out_of_range', message, detail);
}

function hundredths(criticality: Criticality): number {
  return MODEL.criticality_hundredths[criticality];
}

function totalHundredths(inputs: readonly PolicyInput[]): number {
  return inputs.reduce((sum, { criticality }) => sum + hundredths(criticality), 0);
}

const DOCUMENTED = new Map(DOCUMENTED_METRICS.map((name) => [canonicalMetric(name)!, name]));
/** Names within this many edits are taken for misspellings. */
const SLIP = 2;

/** The documented name that an undocumented metric is probably a misspelling of. */
function similarDocumented(metric: string): string | undefined {
  if (DOCUMENTED.has(metric)) return undefined;
  const similar = similarName(metric, DOCUMENTED.keys(), SLIP);
  return similar && DOCUMENTED.get(similar);
}
