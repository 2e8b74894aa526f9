import type { RecordedEvent } from '../../../kernel/event.js';
import { type Fact, fact, streamDecoderFor } from '../../../kernel/event-definition.js';
import { Problem, fieldProblem } from '../../../kernel/problems.js';
import { MODEL_LENS } from '../../../scoring/lens.js';
import { disc1 } from '../../../scoring/models/disc-1.js';
import type { ScoringModel } from '../../../scoring/models/scoring-model.js';
import { type Policy, refuseUnlessConfiguration } from './validation-policy.js';
import { type LensName, type LensScope, type ModelName, lensActivated, modelActivated } from './lenses.events.js';

/** Which policy is the lens of the platform, or of an organization: a stream of promotions and rollbacks for each. */

export const PLATFORM_LENS_STREAM = 'lens-platform';

/** The owner of a lens. */
export type LensOwner = { scope: 'platform'; tris_org: null } | { scope: 'organization'; tris_org: string };

export const PLATFORM: LensOwner = { scope: 'platform', tris_org: null };

/** @param trisOrg the organization of the policy that is, or would become, the lens */
export function lensOwner(scope: LensScope, trisOrg: string): LensOwner {
  return scope === 'platform' ? PLATFORM : { scope, tris_org: trisOrg };
}

/** `platform` is not a TRIS id, so the stream of an organization cannot collide with that of the platform. */
export function lensStream({ tris_org }: LensOwner): string {
  return tris_org === null ? PLATFORM_LENS_STREAM : `lens-${tris_org}`;
}

/** Lenses of one owner, or versions of the model. The last is active; a rollback returns to the one before it. */
export type Stack<N> = [N, ...N[]];
export type LensStack = Stack<LensName>;

const decode = streamDecoderFor([lensActivated, modelActivated]);

/** Folds a stream of lenses. @throws Problem history_unreadable */
export function lensStackOf(history: readonly RecordedEvent[], owner: LensOwner): LensStack {
  return lensStackAfter(noLens(lensStream(owner)), history);
}

/** Before any promotion the platform uses the model's own lens, and an organization uses the platform's. */
export function noLens(stream: string): LensStack {
  return [{ policy_id: null, content_hash: stream === PLATFORM_LENS_STREAM ? MODEL_LENS.content_hash : null }];
}

/** @throws Problem history_unreadable */
export function lensStackAfter(before: LensStack, events: readonly RecordedEvent[]): LensStack {
  const stack: LensStack = [...before];
  for (const { type, data } of decode(events)) {
    if (type !== 'LensActivated') continue;
    const { reason, policy_id, content_hash } = data;
    if (reason === 'promoted') stack.push({ policy_id, content_hash });
    else stack.pop();
  }
  return stack;
}

/** What messages call a lens. @param policyId of the lens; null: none was promoted */
export function titleOf({ tris_org }: Pick<LensOwner, 'tris_org'>, policyId: string | null): string {
  return policyId ?? (tris_org === null ? 'the model’s own lens' : 'the platform’s lens');
}

/**
 * @param replayId the replay over the population that the decision is based on
 * @throws Problem policy_retired, total_weight_out_of_range
 */
export function decidePromote(
  stack: LensStack,
  owner: LensOwner,
  policy: Pick<Policy, 'policy_id' | 'content_hash' | 'retired' | 'inputs'>,
  replayId: string | null,
): Fact[] {
  const { policy_id, content_hash, retired } = policy;
  const previous = stack.at(-1)!;
  if (previous.policy_id === policy_id) return [];
  if (retired) throw new Problem('policy_retired', `${policy_id} is retired and cannot be promoted.`);
  if (owner.scope === 'platform') refuseUnlessConfiguration(policy);
  return [
    fact(lensActivated, { ...owner, reason: 'promoted', policy_id, content_hash, replay_id: replayId, previous }),
  ];
}

/**
 * @param hash of the policy or version that the replay was about
 * @throws Problem replay_not_usable unless that is the one to be promoted, for the same scope, and the replay is completed
 */
export function refuseUnlessBasis(
  { replay_id, scope: replayed, status }: { replay_id: string; scope: LensScope; status: string },
  hash: string | null | undefined,
  promoted: { id: string; hash: string },
  scope: LensScope,
): void {
  const notUsable = (message: string) => fieldProblem('/replay_id', 'replay_not_usable', message, `${message}.`);
  if (hash !== promoted.hash) throw notUsable(`${replay_id} is not a replay of ${promoted.id}`);
  if (replayed !== scope) throw notUsable(`${replay_id} is a replay for the scope "${replayed}", not "${scope}"`);
  if (status !== 'completed') throw notUsable(`${replay_id} is ${status}, not completed`);
}

/** Returns to the lens that was active before the policy was promoted. @throws Problem policy_not_active */
export function decideRollback(stack: LensStack, owner: LensOwner, policyId: string): Fact[] {
  const active = stack.at(-1)!;
  const before = stack.at(-2);
  if (active.policy_id !== policyId || !before) {
    const whose = owner.tris_org ?? 'the platform';
    const now = titleOf(owner, active.policy_id);
    const detail = `${policyId} is not the active lens of ${whose}. The active lens is ${now}.`;
    throw new Problem('policy_not_active', detail);
  }
  return [fact(lensActivated, { ...owner, reason: 'rolled_back', ...before, replay_id: null, previous: active })];
}

export type ModelStack = Stack<ModelName>;

/** A log that has activated no version of the scoring model uses disc-1. */
export function noModel(): ModelStack {
  return [{ id: disc1.id, hash: disc1.hash }];
}

/** Folds the stream `lens-platform`. @throws Problem history_unreadable */
export function modelStackAfter(before: ModelStack, events: readonly RecordedEvent[]): ModelStack {
  const stack: ModelStack = [...before];
  for (const { type, data } of decode(events)) {
    if (type !== 'ModelActivated') continue;
    if (data.reason === 'promoted') stack.push(data.model);
    else stack.pop();
  }
  return stack;
}

/** Does nothing if the version is active already. @param replayId the replay that the decision is based on */
export function decidePromoteModel(stack: ModelStack, { id, hash }: ScoringModel, replayId: string | null): Fact[] {
  const previous = stack.at(-1)!;
  if (previous.hash === hash) return [];
  return [fact(modelActivated, { reason: 'promoted', model: { id, hash }, replay_id: replayId, previous })];
}

/** Returns to the version that was active before this one. @throws Problem model_not_active */
export function decideRollbackModel(stack: ModelStack, { id, hash }: ScoringModel): Fact[] {
  const active = stack.at(-1)!;
  const before = stack.at(-2);
  if (active.hash !== hash || !before) {
    const detail = `${id} was not promoted, or is not the active version of the model. The active version is ${active.id}.`;
    throw new Problem('model_not_active', detail);
  }
  return [fact(modelActivated, { reason: 'rolled_back', model: before, replay_id: null, previous: active })];
}
