import { type Decoded, type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { canonicalJson, sha256Hex } from '../../../kernel/hash.js';
import type { JsonObject } from '../../../kernel/json.js';
import { Problem, fieldProblem } from '../../../kernel/problems.js';
import { type AccessDecision, accessPolicyCreated, accessPolicyRetired } from './ap.events.js';

/** `AP_<NAME>_V<n>`, n from 1 (requirement 15). Where one is created, it has at most 128 characters. */
export const AP_ID = /^AP_[A-Z0-9_]{1,122}_V[1-9][0-9]{0,8}$/;

type Created = Decoded<typeof accessPolicyCreated>['data'];

/** The content of an access policy. Never changes. */
export type AccessPolicyContent = Omit<Created, 'owner' | 'content_hash'>;

export interface AccessPolicy extends Created {
  /** ms since the epoch. */
  created_at: number;
  retired: boolean;
}

export function accessPolicyStream(policyId: string): string {
  return `ap-${policyId}`;
}

/** Folds an `ap-<id>` stream; undefined if it is empty. @throws Problem history_unreadable */
export const accessPolicyOf = streamFold(
  [accessPolicyCreated, accessPolicyRetired],
  (policy: AccessPolicy | undefined, event): AccessPolicy | undefined =>
    event.type === 'AccessPolicyCreated'
      ? { ...event.data, created_at: event.recorded_at, retired: false }
      : policy && { ...policy, retired: true },
);

/** SHA-256 of the RFC 8785 JSON of a policy's content, hex. */
export function contentHash(content: AccessPolicyContent): string {
  return sha256Hex(canonicalJson(hashed(content)));
}

/** The content as it is hashed. Without `visibility` if it is private, so that hashes of older policies stay valid. */
export function hashed({ policy_id, rules, ttl_seconds, vp, visibility }: AccessPolicyContent): JsonObject {
  return { policy_id, rules, ttl_seconds, vp, ...(visibility === 'public' && { visibility }) };
}

/** Who asks: a key or a session. A key without an organization is an operator's. */
export interface Reader {
  organization: string | null;
  scopes: ReadonlySet<string>;
  session: object | null;
}

/**
 * Whether a caller may read the rules: everybody if the policy is public, else the keys of its owner and of operators.
 * @param caller null: without a credential
 */
export function mayReadRules(
  { owner, visibility }: Pick<AccessPolicy, 'owner' | 'visibility'>,
  caller: Reader | null,
): boolean {
  if (visibility === 'public') return true;
  if (caller === null || caller.session !== null) return false;
  if (caller.organization !== null) return caller.organization === owner;
  return owner === null || caller.scopes.has('ops');
}

type Explanation = Pick<AccessDecision, 'reasons' | 'how_to_pass'>;

/**
 * What a caller is told of why a check had its outcome. To others, private rules are a yes or a no. That the subject is
 * unknown follows from no rule.
 */
export function explanationOf(
  { reasons, how_to_pass }: Explanation,
  policy: AccessPolicy,
  caller: Reader,
): Explanation {
  if (mayReadRules(policy, caller)) return { reasons, how_to_pass };
  return { reasons: reasons.filter(({ rule }) => rule === 'identity'), how_to_pass: [] };
}

/**
 * A policy never changes. Creating it again with the same content does nothing.
 * @param actor its organization becomes the owner; null: the operators
 * @throws Problem policy_conflict
 */
export function decideCreate(policy: AccessPolicy | undefined, content: AccessPolicyContent, actor: Reader): Fact[] {
  const { policy_id } = content;
  const { organization } = actor;
  const content_hash = contentHash(content);
  if (!policy) return [fact(accessPolicyCreated, { ...content, owner: organization, content_hash })];
  // First, so that nobody can guess the rules of another owner's policy by repeating them.
  const isOthers = organization !== null && organization !== policy.owner;
  if (isOthers || !mayReadRules(policy, actor)) throw conflict(policy_id, 'belongs to another owner');
  if (policy.content_hash !== content_hash) {
    throw conflict(policy_id, 'exists with other content; a policy cannot be changed, create a new version');
  }
  return [];
}

function conflict(policyId: string, why: string): Problem {
  const message = `${policyId} ${why}`;
  return fieldProblem('/policy_id', 'policy_conflict', message, `${message}.`);
}

/** @param organization null: the operators, to whom every policy is open @throws Problem forbidden */
export function refuseUnlessOwner(
  { policy_id, owner }: Pick<AccessPolicy, 'policy_id' | 'owner'>,
  organization: string | null,
): void {
  if (organization === null || organization === owner) return;
  throw new Problem('forbidden', `${policy_id} belongs to ${owner ?? 'the operators'}, not to ${organization}.`);
}

/**
 * Does nothing for a retired policy. Tokens that it granted stay valid until they expire.
 * @param organization of the key; null: an operator's key
 * @throws Problem forbidden
 */
export function decideRetire(policy: AccessPolicy, organization: string | null): Fact[] {
  refuseUnlessOwner(policy, organization);
  return policy.retired ? [] : [fact(accessPolicyRetired, { policy_id: policy.policy_id })];
}
