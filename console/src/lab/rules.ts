import { isObject } from './draft.ts';
import { CATEGORIES } from './metrics.ts';

/** Rules of access policies as JSON, as docs/policies.md describes them. */

export type Kind = 'conditions' | 'all' | 'any' | 'not' | 'at_least';
export const KINDS: Record<Kind, string> = {
  conditions: 'conditions, all of which must hold',
  all: 'all of these rules',
  any: 'any of these rules',
  at_least: 'at least so many of these rules',
  not: 'not this rule',
};

/** Conditions with one number, and the largest one. */
export const THRESHOLDS: Record<string, { label: string; max?: number; step: number }> = {
  disc_min: { label: 'Score at least', max: 100, step: 0.1 },
  tct_min: { label: 'TCT at least', step: 10 },
  reliability_min: { label: 'Reliability at least', max: 1, step: 0.01 },
  evidence_min: { label: 'Evidence at least', step: 0.1 },
};
/** Statuses of verifications that are granted. */
export const GRANTABLE = ['zk-KYH', 'zk-KYC (ID only)', 'zk-KYC (ID + AML)'];
export const STATUSES = [...GRANTABLE, 'BAD Status validation'];

/** The initial value of each condition. */
export const NEW_CONDITIONS: Record<string, unknown> = {
  disc_min: 20,
  tct_min: 1000,
  rating_min: 'Fair',
  reliability_min: 0.5,
  evidence_min: 1,
  metrics: { [CATEGORIES[0]!]: 0.5 },
  verification: [STATUSES[0]],
};
export const CONDITION_NAMES: Record<string, string> = {
  disc_min: 'score',
  tct_min: 'TCT',
  rating_min: 'rating',
  reliability_min: 'reliability',
  evidence_min: 'evidence',
  metrics: 'health of a category',
  verification: 'verification',
};

export const NEW_RULE = { disc_min: NEW_CONDITIONS['disc_min'] };

export function kindOf(rule: unknown): Kind {
  if (!isObject(rule)) return 'conditions';
  if ('of' in rule) return 'at_least';
  return (['all', 'any', 'not', 'at_least'] as const).find((kind) => kind in rule) ?? 'conditions';
}

/** The rules in a combinator, and the path to where they are in it. */
export function partsOf(rule: unknown): { at: string; parts: unknown[] } {
  const kind = kindOf(rule);
  if (kind === 'conditions' || !isObject(rule)) return { at: '', parts: [] };
  const at = kind === 'at_least' ? 'of' : kind;
  const held = rule[at];
  return { at, parts: kind === 'not' ? [held] : Array.isArray(held) ? (held as unknown[]) : [] };
}

/** Converts a rule to another kind. What the new kind cannot contain is dropped. */
export function ofKind(rule: unknown, kind: Kind): unknown {
  const { parts } = partsOf(rule);
  const inner = kindOf(rule) === 'conditions' ? [rule] : parts;
  switch (kind) {
    case 'conditions':
      return inner.find((part) => kindOf(part) === 'conditions') ?? NEW_RULE;
    case 'not':
      return { not: inner.length === 1 ? inner[0] : inner.length === 0 ? NEW_RULE : { all: inner } };
    case 'at_least':
      return { at_least: 1, of: inner.length === 0 ? [NEW_RULE] : inner };
    default:
      return { [kind]: inner.length === 0 ? [NEW_RULE] : inner };
  }
}

/** RFC 6901: a place below another. */
export function pointerTo(pointer: string, ...names: readonly (string | number)[]): string {
  return names.reduce<string>(
    (at, name) => `${at}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`,
    pointer,
  );
}
