import { type Decoded, type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { canonicalJson, sha256Hex } from '../../../kernel/hash.js';
import { type FieldError, Problem, refusalOf } from '../../../kernel/problems.js';
import type { VerificationKey } from './proof-format.js';
import {
  schemeRegistered,
  schemeRetired,
  schemeRootAdded,
  schemeRootRemoved,
  schemeTranscriptDeclared,
} from './verifications.events.js';

export const SCHEME_ID = /^[a-z][a-z0-9-]{0,63}$/;
export const SCOPE = /^[a-z0-9][a-z0-9.-]{0,63}$/;
export const TRANSCRIPT_HASH = /^[0-9a-f]{64}$/;
/** Roots a scheme accepts at once: the issuer's current ones, and earlier ones that submitted proofs may still use. */
export const MAX_ROOTS = 100;

const EVENTS = [schemeRegistered, schemeTranscriptDeclared, schemeRootAdded, schemeRootRemoved, schemeRetired] as const;
type SchemeEvent = Decoded<(typeof EVENTS)[number]>;

export interface Scheme extends Omit<Decoded<typeof schemeRegistered>['data'], 'verification_key'> {
  verification_key: VerificationKey;
  retired: boolean;
  /** ms since the epoch. */
  registered_at: number;
}

/** What an operator registers. */
export interface SchemeDefinition extends Omit<Scheme, 'verification_key_hash' | 'retired' | 'registered_at'> {
  /** Of a registered scheme it is null if that was before hashes were required and none was declared since. */
  transcript_hash: string;
}

export const schemeStream = (scheme: string): string => `scheme-${scheme}`;

/** Folds a `scheme-<scheme>` stream; undefined if it is empty. @throws Problem history_unreadable */
export const schemeOf = streamFold(EVENTS, evolve);

function evolve(scheme: Scheme | undefined, event: SchemeEvent): Scheme | undefined {
  switch (event.type) {
    case 'SchemeRegistered': {
      const { verification_key, roots, ...rest } = event.data;
      const key = verification_key as unknown as VerificationKey;
      return { ...rest, verification_key: key, roots: [...roots], retired: false, registered_at: event.recorded_at };
    }
    case 'SchemeTranscriptDeclared':
      return scheme && { ...scheme, transcript_hash: event.data.transcript_hash };
    case 'SchemeRootAdded':
      return scheme && { ...scheme, roots: [...scheme.roots, event.data.root] };
    case 'SchemeRootRemoved':
      return scheme && { ...scheme, roots: scheme.roots.filter((root) => root !== event.data.root) };
    case 'SchemeRetired':
      return scheme && { ...scheme, retired: true };
    default:
      return event satisfies never;
  }
}

export const keyHash = (key: VerificationKey): string => sha256Hex(canonicalJson(key));

/** Checks that each required input is present once and that the key fits the inputs. @returns the faults */
export function checkInputs({ public_inputs: inputs, verification_key: key }: SchemeDefinition): FieldError[] {
  const errors: FieldError[] = [];
  const say = (pointer: string, code: string, message: string) => errors.push({ pointer, code, message });
  for (const role of ['nullifier', 'root', 'scope', 'subject', 'expires_at'] as const) {
    const count = inputs.filter((input) => input.role === role).length;
    if (count !== 1) say('/public_inputs', 'input_count', `the role ${role} must occur once, not ${count} times`);
  }
  for (const [i, { role, value }] of inputs.entries()) {
    if ((role === 'constant') === (value !== null)) continue;
    const message = role === 'constant' ? 'a constant needs its value' : `the role ${role} takes no value`;
    say(`/public_inputs/${i}`, 'input_value', message);
  }
  if (key.nPublic !== inputs.length || key.IC.length !== inputs.length + 1) {
    const takes = `the key takes ${key.nPublic} public signals and has ${key.IC.length} points in IC`;
    say('/verification_key', 'input_count', `${takes}; with ${inputs.length} public inputs it must have one more`);
  }
  return errors;
}

/**
 * Refuses values that cannot be the hash of a transcript. Whether it is that of the transcript, auditors check: the
 * service does not have the transcript. @returns the faults
 */
export function checkTranscript({ transcript_hash: hash, verification_key }: SchemeDefinition): FieldError[] {
  const say = (message: string) => [{ pointer: '/transcript_hash', code: 'not_a_transcript', message }];
  if (/^(.)\1*$/.test(hash)) return say('transcript_hash is a placeholder');
  if (hash === sha256Hex('')) return say('transcript_hash is the hash of an empty file');
  if (hash === keyHash(verification_key)) return say('transcript_hash is the hash of the verification key');
  return [];
}

/**
 * A scheme never changes. Registering the same content again does nothing, except that a scheme without the hash of a
 * transcript gets it. @throws Problem scheme_conflict
 */
export function decideRegister(scheme: Scheme | undefined, definition: SchemeDefinition): Fact[] {
  if (scheme) {
    const { transcript_hash } = definition;
    if (contentOf(scheme) === contentOf(definition)) {
      if (scheme.transcript_hash === transcript_hash) return [];
      if (scheme.transcript_hash === null) {
        return [fact(schemeTranscriptDeclared, { scheme: scheme.scheme, transcript_hash })];
      }
    }
    const detail = `The scheme ${scheme.scheme} exists with other content. Schemes cannot change; register another.`;
    throw new Problem('scheme_conflict', detail);
  }
  const { verification_key } = definition;
  const verification_key_hash = keyHash(verification_key);
  return [fact(schemeRegistered, { ...definition, verification_key: { ...verification_key }, verification_key_hash })];
}

/** The permanent content of a scheme: everything but its roots and the hash of the transcript. */
function contentOf(definition: Omit<SchemeDefinition, 'roots' | 'transcript_hash'>): string {
  const { scheme, status, issuer, scope, public_inputs, verification_key } = definition;
  return canonicalJson({ scheme, status, issuer, scope, public_inputs, verification_key });
}

/** Does nothing for a root that is already accepted. @throws Problem validation_failed beyond MAX_ROOTS */
export function decideAddRoot({ scheme, roots }: Scheme, root: string): Fact[] {
  if (roots.includes(root)) return [];
  if (roots.length >= MAX_ROOTS) {
    throw refusalOf('/root', 'too_many_roots', `a scheme accepts at most ${MAX_ROOTS} roots; remove one first`);
  }
  return [fact(schemeRootAdded, { scheme, root })];
}

export const decideRemoveRoot = ({ scheme, roots }: Scheme, root: string): Fact[] =>
  roots.includes(root) ? [fact(schemeRootRemoved, { scheme, root })] : [];

export const decideRetire = ({ scheme, retired }: Scheme): Fact[] => (retired ? [] : [fact(schemeRetired, { scheme })]);
