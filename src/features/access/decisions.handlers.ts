import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import {
  DECISIONS,
  DECISION_SORT,
  type DecisionRow,
  decisionsAbout,
  decisionsBy,
  decisionsOf,
  sortByTime,
  timeOfSort,
} from '../../../projections/decisions.js';
import { type Actor, keyIdOf } from '../../commands/context.js';
import { QueryWith } from '../../commands/messages.js';
import { unknownCursor } from '../../kernel/cursor.js';
import { formatPosition } from '../../kernel/positions.js';
import { Problem, refuseMisspelled } from '../../kernel/problems.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { AccessPolicies } from './access-policies.js';
import { reasonsOf } from './notice.js';
import type { DecisionDto, DecisionsDto, DecisionsQuery, OneDecisionDto } from './decisions.dto.js';
import { type AccessPolicy, explanationOf, refuseUnlessOwner } from './domain/access-policy.js';
import { type RecordedDecision, accessStream, checkedAt, decisionOf } from './domain/decision.js';

/** The most rows of a list that one page reads, and the number read at a time. */
const MAX_SEEN = 1_000;
const SEEN_AT_ONCE = 250;

/** Access decisions, the latest first. `from`, `to`: ms, both inclusive. */
export class ListDecisions extends QueryWith<
  Omit<DecisionsQuery, 'from' | 'to'> & { from?: number; to?: number; actor: Actor },
  DecisionsDto
> {}

@QueryHandler(ListDecisions)
export class ListDecisionsHandler implements IQueryHandler<ListDecisions> {
  constructor(
    private readonly views: Views,
    private readonly policies: AccessPolicies,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * A page looks at a bounded number of rows, so a filter that few decisions meet can give pages with few or none.
   * @throws Problem forbidden, policy_not_found, identity_not_found if the subject is misspelled, validation_failed for the cursor
   */
  async execute({ input }: ListDecisions): Promise<DecisionsDto> {
    const { policy_id, granted, from = 0, to, limit, cursor, actor } = input;
    if (cursor !== undefined && !DECISION_SORT.test(cursor)) throw unknownCursor();
    const { owner, subject = input.subject } = readableBy(actor);
    if (input.subject !== undefined && subject !== input.subject) {
      throw new Problem('forbidden', `This session reads the decisions about ${subject} only.`);
    }
    if (policy_id !== undefined) refuseUnlessOwner(await this.policies.get(policy_id), owner);
    // Of an organization's own decisions alone: pages and cursors would show how many there are of others.
    const list =
      subject !== undefined
        ? decisionsAbout(subject, owner)
        : policy_id !== undefined
          ? decisionsBy(policy_id)
          : owner !== null
            ? decisionsOf(owner)
            : DECISIONS;
    const meets = (row: DecisionRow): boolean =>
      (policy_id === undefined || row.policy_id === policy_id) && (granted === undefined || row.granted === granted);

    const start = to === undefined ? undefined : sortByTime(to + 1);
    // The cursor may be of a list without this `to`.
    const after = cursor === undefined || (start !== undefined && start < cursor) ? start : cursor;
    const found: RangeRow[] = [];
    let seen = 0;
    /** The last row seen, if there are more; null: there are none. */
    let last: string | null = null;
    for await (const rows of this.views.parts({ ...list, after, reverse: true, limit: SEEN_AT_ONCE })) {
      const inTime = rows.filter(({ sort }) => timeOfSort(sort) >= from);
      found.push(...inTime.filter(({ value }) => meets(value as DecisionRow)));
      seen += rows.length;
      last = inTime.length < SEEN_AT_ONCE ? null : rows.at(-1)!.sort;
      // One more than the page has shows that there is a next page.
      if (last === null || found.length > limit || seen >= MAX_SEEN) break;
    }
    if (seen === 0 && cursor === undefined) refuseMisspelled(subject);
    const page = found.slice(0, limit);
    const next_cursor = found.length > limit ? page.at(-1)!.sort : last;
    const decisions = await mapInParts(page, async ({ value }) => {
      const decision = decisionOf(await this.store.readStream(accessStream((value as DecisionRow).jti)))!;
      return decisionDto(decision, await this.policies.get(decision.event.data.policy_id), actor, this.store.logId);
    });
    return { decisions, next_cursor };
  }
}

/** One access decision. */
export class GetDecision extends QueryWith<{ jti: string; actor: Actor }, OneDecisionDto> {}

@QueryHandler(GetDecision)
export class GetDecisionHandler implements IQueryHandler<GetDecision> {
  constructor(
    private readonly policies: AccessPolicies,
    private readonly identities: IdentityReader,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** @throws Problem as `readableDecision` */
  async execute({ input: { jti, actor } }: GetDecision): Promise<OneDecisionDto> {
    const { decision, policy } = await readableDecision(this.store, this.policies, jti, actor);
    const reasons = await reasonsOf(decision.event, this.identities, false);
    return { ...decisionDto(decision, policy, actor, this.store.logId), codes: reasons.map(({ code }) => code) };
  }
}

/** @throws Problem forbidden; decision_not_found, also for one by another organization's policy or about another subject */
export async function readableDecision(store: EventStore, policies: AccessPolicies, jti: string, actor: Actor) {
  const { owner, subject } = readableBy(actor);
  const decision = decisionOf(await store.readStream(accessStream(jti)));
  const policy = decision && (await policies.get(decision.event.data.policy_id));
  const isOthers = subject !== undefined && decision?.event.data.subject_tris !== subject;
  if (!policy || isOthers || (owner !== null && policy.owner !== owner)) {
    throw new Problem('decision_not_found', `There is no decision ${jti}.`);
  }
  return { decision, policy };
}

/** Whose policies' decisions an actor may read; null: everybody's; undefined: none. */
export function ownDecisions({ organization, scopes }: Actor): string | null | undefined {
  if (scopes.has('audit:read')) return organization;
  // Keys that write the organization's policies, or check by them, may see the decisions.
  if (organization !== null && (scopes.has('policies:write') || scopes.has('access:check'))) return organization;
  return undefined;
}

/**
 * Which decisions a caller may read: by whose policies, as `ownDecisions`; of a session, about which subject.
 * @throws Problem forbidden
 */
export function readableBy(actor: Actor): { owner: string | null; subject?: string } {
  if (actor.session) {
    const { trisId } = actor.session;
    if (trisId !== null) return { owner: null, subject: trisId };
    throw new Problem('forbidden', 'The wallet of this session is linked to no TRIS by a signature.');
  }
  const owner = ownDecisions(actor);
  if (owner !== undefined) return { owner };
  throw new Problem('forbidden', `The key "${keyIdOf(actor.name)}" lacks the scope "audit:read".`);
}

export function decisionDto(
  { event, actor, revoked }: RecordedDecision,
  policy: AccessPolicy,
  reader: Actor,
  logId: string,
): DecisionDto {
  const { data, position, occurred_at } = event;
  const { wallet, chain_id, verifying_contract, exp, lens_policy_id, lens_hash, model_id, model_hash } = data;
  return {
    jti: data.jti,
    policy_id: data.policy_id,
    policy_hash: data.policy_hash,
    subject_tris: data.subject_tris,
    granted: data.granted,
    audience: data.audience,
    score: data.score,
    ...explanationOf(data, policy, reader),
    checked_at: new Date(checkedAt(data, occurred_at)).toISOString(),
    checked_by: reader.session ? null : actor,
    expires_at: exp === null ? null : new Date(exp * 1000).toISOString(),
    revoked,
    voucher: wallet === null ? null : { wallet, chain_id: chain_id!, verifying_contract: verifying_contract! },
    as_of: data.as_of,
    position: formatPosition(data.log ?? logId, data.position),
    lens: lens_hash === null ? null : { policy_id: lens_policy_id, content_hash: lens_hash },
    model: { id: model_id as DecisionDto['model']['id'], hash: model_hash },
    recorded_position: formatPosition(logId, position),
  };
}
