import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { QueryWith } from '../../commands/messages.js';
import { Problem } from '../../kernel/problems.js';
import {
  AffectedDecisions,
  type ReviewedDecision,
  type WithdrawnAction,
  differs,
} from '../access/affected-decisions.js';
import { readableBy } from '../access/decisions.handlers.js';
import { countedAction } from '../disc/evidence-reader.js';
import { type RecordedAction, countedAt } from '../relay/domain/withdrawal.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import type { AffectedDecisionDto, AffectedDecisionsDto } from './affected-decisions.dto.js';

/** Decisions that one request reviews. */
const MOST = 1_000;

/** The recorded access decisions that would differ if an action had never counted. */
export class GetAffectedDecisions extends QueryWith<{ action_id: string; actor: Actor }, AffectedDecisionsDto> {}

@QueryHandler(GetAffectedDecisions)
export class GetAffectedDecisionsHandler implements IQueryHandler<GetAffectedDecisions> {
  constructor(
    private readonly actions: RecordedActions,
    private readonly decisions: AffectedDecisions,
  ) {}

  /** @throws Problem not_found, forbidden, too_many_decisions */
  async execute({ input: { action_id, actor } }: GetAffectedDecisions): Promise<AffectedDecisionsDto> {
    const { owner } = readableBy(actor);
    const { action } = await this.actions.find(action_id);
    const { tris_id } = action.relayed.data;
    const answer: AffectedDecisionsDto = { action_id, tris_id, decisions: 0, differ: [] };
    for await (const page of this.decisions.of(tris_id, [withdrawnAction(action)], owner)) {
      answer.decisions += page.length;
      if (answer.decisions > MOST) {
        const how = `POST /v1/actions/withdrawals with {"action_id":"${action_id}","reason":"mistake","dry_run":true}`;
        const detail = `The action counted in more than ${MOST} decisions. ${how} reviews them all.`;
        throw new Problem('too_many_decisions', detail);
      }
      answer.differ.push(...page.filter(differs).map(dtoOf));
    }
    return answer;
  }
}

export function dtoOf({ checked_at, expires_at, ...decision }: ReviewedDecision): AffectedDecisionDto {
  const at = (ms: number) => new Date(ms).toISOString();
  return { ...decision, checked_at: at(checked_at), expires_at: expires_at === null ? null : at(1000 * expires_at) };
}

/** An action as the review of decisions leaves it out. */
export function withdrawnAction(action: RecordedAction): WithdrawnAction {
  const { position } = action.relayed;
  return { ...countedAction(action.relayed), position, counted: (at) => countedAt(action, at) };
}
