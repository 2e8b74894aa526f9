import { useState } from 'react';
import type { FieldError, Schemas } from '../api.ts';
import { canonicalMetric, CATEGORY_NAMES, categoryOf, CRITICALITIES, hundredthsOf } from './metrics.ts';

/** Drafts of policies: JSON text that is kept in the tab. Form and JSON are two views of that text. */

export interface VpDraft {
  policy_id: string;
  tris_org: string;
  inputs: Schemas['ShownInputDto'][];
  metadata: { total_weight: number; visibility: string; version: string };
}

const TOTAL = { min: 95, max: 105 };
const MAX_INPUTS = 100;

export const NEW_VP: VpDraft = {
  policy_id: 'VP_NEW_V1',
  tris_org: '',
  inputs: [{ metric: '', criticality: 'Moderate', weight: 0.07 }],
  metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
};

export const toText = (value: unknown): string => JSON.stringify(value, null, 2);

/** A text that survives a reload of the tab. */
export function useStoredText(name: string, initial: () => string): [text: string, change: (text: string) => void] {
  const stored = `credence-draft-${name}`;
  const [text, setText] = useState(() => sessionStorage.getItem(stored) ?? initial());
  const change = (next: string) => {
    sessionStorage.setItem(stored, next);
    setText(next);
  };
  return [text, change];
}

/** Keeps a draft, which replaces the one before. */
export function storeDraft(name: string, value: unknown): void {
  sessionStorage.setItem(`credence-draft-${name}`, toText(value));
}

/** What a text contains, or why it is not JSON. */
export function parsed(text: string): { value: unknown } | { problem: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What is at a place. @param pointer RFC 6901, of names without `/` and `~` */
export function valueAt(root: unknown, pointer: string): unknown {
  const names = pointer.split('/').slice(1);
  return names.reduce((value, name) => (value as Record<string, unknown> | null | undefined)?.[name], root);
}

/** The value with another one at a place in it; undefined removes the place. */
export function withValue(root: unknown, [first, ...rest]: readonly (string | number)[], value: unknown): unknown {
  if (first === undefined) return value;
  if (Array.isArray(root)) {
    const next = [...(root as unknown[])];
    if (rest.length === 0 && value === undefined) next.splice(Number(first), 1);
    else next[Number(first)] = withValue(next[Number(first)], rest, value);
    return next;
  }
  const next = { ...(isObject(root) ? root : {}) };
  next[first] = withValue(next[first], rest, value);
  if (next[first] === undefined) delete next[first];
  return next;
}

const inputsOf = (draft: unknown): unknown[] =>
  isObject(draft) && Array.isArray(draft['inputs']) ? (draft['inputs'] as unknown[]) : [];

/** The sums of the weights: in total, and of each category that has one. */
export function weightsOf(draft: unknown): { total: number; byCategory: Map<string, number> } {
  const byCategory = new Map<string, number>();
  let total = 0;
  for (const input of inputsOf(draft)) {
    if (!isObject(input)) continue;
    const hundredths = hundredthsOf(input['criticality']) ?? 0;
    const category = categoryOf(String(input['metric']));
    total += hundredths;
    if (category) byCategory.set(category, (byCategory.get(category) ?? 0) + hundredths);
  }
  return { total: total / 100, byCategory: new Map([...byCategory].map(([name, sum]) => [name, sum / 100])) };
}

/** What the service would refuse, with its codes and pointers. The service decides; this only tells sooner. */
export function faultsOf(draft: unknown): FieldError[] {
  const faults: FieldError[] = [];
  const fault = (pointer: string, code: string, message: string) => void faults.push({ pointer, code, message });
  if (!isObject(draft)) {
    fault('', 'is_object', 'a policy is a JSON object');
    return faults;
  }
  const known = Object.keys(NEW_VP);
  for (const name of Object.keys(draft)) {
    if (!known.includes(name)) fault(`/${name}`, 'unknown_field', `${name} is unknown; known are ${known.join(', ')}`);
  }
  if (!/^(?=.{1,128}$)VP_[A-Z0-9_]+_V[1-9]\d{0,8}$/.test(String(draft['policy_id']))) {
    fault('/policy_id', 'matches', 'must have the form VP_<NAME>_V<n>: upper-case letters, digits and underscores');
  }
  if (typeof draft['tris_org'] !== 'string' || draft['tris_org'] === '') {
    fault('/tris_org', 'required', 'must be the TRIS id of the organization that owns the policy');
  }
  inputFaults(draft, fault);
  const metadata = isObject(draft['metadata']) ? draft['metadata'] : {};
  const { total_weight, visibility, version } = metadata;
  const declared = Math.round(Number(total_weight) * 100);
  if (typeof total_weight !== 'number' || declared < TOTAL.min || declared > TOTAL.max) {
    fault('/metadata/total_weight', 'total_weight_out_of_range', 'must be a number from 0.95 to 1.05');
  }
  if (visibility !== 'public') fault('/metadata/visibility', 'is_in', 'must be "public"');
  if (typeof version !== 'string' || !/^v(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)$/.test(version)) {
    fault('/metadata/version', 'matches', 'must have the form v<major>.<minor>');
  }
  return faults;
}

function inputFaults(draft: object, fault: (pointer: string, code: string, message: string) => void): void {
  const inputs = inputsOf(draft);
  if (inputs.length === 0 || inputs.length > MAX_INPUTS) {
    fault('/inputs', 'array_size', `must be a list of 1 to ${MAX_INPUTS} inputs`);
  }
  const seen = new Map<string, number>();
  for (const [i, input] of inputs.entries()) {
    const { metric, criticality, weight } = isObject(input) ? input : ({} as Record<string, unknown>);
    const canonical = canonicalMetric(String(metric));
    if (canonical === undefined) {
      const message = `must be <category>_<action>, with one of the categories ${CATEGORY_NAMES.join(', ')}`;
      fault(`/inputs/${i}/metric`, 'is_metric', message);
    } else if (seen.has(canonical)) {
      const message = `${canonical} already has a weight in inputs/${seen.get(canonical)}`;
      fault(`/inputs/${i}/metric`, 'duplicate_metric', message);
    } else seen.set(canonical, i);
    const due = hundredthsOf(criticality);
    if (due === undefined) {
      fault(`/inputs/${i}/criticality`, 'unknown_criticality', `must be one of ${CRITICALITIES.join(', ')}`);
    } else if (weight !== due / 100) {
      const message = `the weight of ${String(criticality)} is ${due / 100}, not ${JSON.stringify(weight) ?? 'absent'}`;
      fault(`/inputs/${i}/weight`, 'weight_criticality_mismatch', message);
    }
  }
  const { total } = weightsOf(draft);
  if (Math.round(total * 100) > TOTAL.max) {
    fault('/inputs', 'total_weight_out_of_range', `the weights of the inputs add up to ${total}, more than 1.05`);
  }
}

/** Whether the weights permit a promotion for the platform. */
export function isConfiguration(total: number): boolean {
  const hundredths = Math.round(total * 100);
  return hundredths >= TOTAL.min && hundredths <= TOTAL.max;
}
