import { Inject, Injectable } from '@nestjs/common';
import { type DecisionRow, decisionsAbout, positionOfSort } from '../../../projections/decisions.js';
import type { Position } from '../../kernel/event.js';
import { formatPosition } from '../../kernel/positions.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { modelOrFirst } from '../../scoring/models/all.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type CountedAction, changedBy } from '../disc/evidence-reader.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { MODEL_VP } from '../lenses/lenses.js';
import { AccessPolicies } from './access-policies.js';
import { type RecordedDecision, accessStream, checkedAt, decisionOf } from './domain/decision.js';
import { TRUE, evaluate } from './evaluate.js';
import { SubjectFacts } from './facts.js';

const READ_AT_ONCE = 250;

/** An action that is, or would be, withdrawn. */
export interface WithdrawnAction extends CountedAction {
  position: Position;
  /** Whether it counted for what was derived at a position from its own on. */
  counted(position: Position): boolean;
}

/** A recorded decision without some actions. */
export interface ReviewedDecision {
  jti: string;
  policy_id: string;
  /** ms */
  checked_at: number;
  was: { granted: boolean; score: number | null };
  would_be: { granted: boolean; score: number };
  /** s; null: there is no token. */
  expires_at: number | null;
}

/** Whether access would be granted instead of denied, or denied instead of granted. */
export const differs = ({ was, would_be }: ReviewedDecision): boolean => was.granted !== would_be.granted;

/** What recorded access decisions about an identity would be if some of its actions had never counted. */
@Injectable()
export class AffectedDecisions {
  constructor(
    private readonly views: Views,
    private readonly identities: IdentityReader,
    private readonly policies: AccessPolicies,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * The decisions in which any of the actions counted, the latest first.
   * @param owner only those by the policies of this organization
   */
  async *of(
    trisId: string,
    actions: readonly WithdrawnAction[],
    owner: string | null = null,
  ): AsyncIterable<ReviewedDecision[]> {
    const since = actions.reduce((least, { position }) => Math.min(least, position), Infinity);
    const list = { ...decisionsAbout(trisId, owner), reverse: true, limit: READ_AT_ONCE };
    for await (const rows of this.views.parts(list)) {
      const later = rows.filter(({ sort }) => positionOfSort(sort) > since);
      const reviewed = await mapInParts(later, ({ value }) =>
        this.review((value as unknown as DecisionRow).jti, actions),
      );
      yield reviewed.filter((each) => each !== undefined);
    }
  }

  /** @returns undefined if none of the actions counted */
  async review(jti: string, actions: readonly WithdrawnAction[]): Promise<ReviewedDecision | undefined> {
    const { event } = decisionOf(await this.store.readStream(accessStream(jti)))!;
    const { data, occurred_at } = event;
    const { as_of, position } = coordinatesOf(event, this.store.logId);
    const counted = actions.filter(
      (action) => action.position <= position && action.occurred_at <= as_of && action.counted(position),
    );
    if (counted.length === 0) return undefined;
    const { state, lens, trusts } = await subjectThen(event, this.identities);
    const rule = this.policies.rulesOf(await this.policies.get(data.policy_id));
    const [before, after] = [state, changedBy(state, counted, -1, lens)].map(
      (each) => new SubjectFacts(each, lens, as_of, trusts),
    );
    const [granted, would] = [evaluate(rule, before!) === TRUE, evaluate(rule, after!) === TRUE];
    return {
      jti,
      policy_id: data.policy_id,
      checked_at: checkedAt(data, occurred_at),
      was: { granted: data.granted, score: data.score },
      // What else may differ since, as damage to the log, is not what the actions change.
      would_be: { granted: granted === would ? data.granted : would, score: after!.score },
      expires_at: data.exp,
    };
  }
}

export type DecisionEvent = Pick<RecordedDecision['event'], 'data' | 'position'>;

/**
 * The subject of a decision as it was then. By version 1 of the rules of trust, all of its verifications count.
 * @param vp the lens. Default: that of the decision
 * @throws Problem identity_not_found if it was unknown
 */
export async function subjectThen(event: DecisionEvent, identities: IdentityReader, vp?: string) {
  const { position: _, ...at } = coordinatesOf(event, identities.logId);
  const snapshot = await identities.snapshot(event.data.subject_tris, { ...at, ...(vp && { vp }) });
  return event.data.trust === 1 ? { ...snapshot, trusts: () => true } : snapshot;
}

/** Where a decision is derived again: its own time, position, lens and model. */
export function coordinatesOf({ data, position: recorded }: DecisionEvent, logId: string) {
  // Positions of another log mean nothing here: the events before the record are those that were imported with it.
  const position = (data.log ?? logId) === logId ? data.position : recorded;
  return {
    as_of: Date.parse(data.as_of),
    position,
    as_of_position: formatPosition(logId, position),
    vp: data.lens_policy_id ?? MODEL_VP,
    model: modelOrFirst(data.model_hash).id,
  };
}
