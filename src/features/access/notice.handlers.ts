import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { QueryWith } from '../../commands/messages.js';
import { SigningKeys } from '../../credentials/signing-keys.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import type { JsonObject } from '../../kernel/json.js';
import { ERASURE } from '../../kernel/personal-data.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { AccessPolicies } from './access-policies.js';
import { decisionDto, readableDecision } from './decisions.handlers.js';
import { mayReadRules } from './domain/access-policy.js';
import type { NoticeDto } from './notice.dto.js';
import { reasonsOf } from './notice.js';

const DISPUTE =
  'GET /v1/disc/score/:tris_id/history and GET /v1/me/export show what the decision rests on, and who stated it. If an ' +
  'entry is wrong, dispute it by POST /v1/disputes: whoever stated it answers, or an operator. An action is named by its ' +
  'event_id.';

/** A notice of an access decision, and the same for people; the first line is the title. */
export class GetNotice extends QueryWith<{ jti: string; actor: Actor }, { notice: NoticeDto; lines: string[] }> {}

@QueryHandler(GetNotice)
export class GetNoticeHandler implements IQueryHandler<GetNotice> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly policies: AccessPolicies,
    private readonly keys: SigningKeys,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /** @throws Problem forbidden, decision_not_found */
  async execute({ input: { jti, actor } }: GetNotice) {
    const { decision, policy } = await readableDecision(this.store, this.policies, jti, actor);
    const dto = decisionDto(decision, policy, actor, this.store.logId);
    const { policy_id, subject_tris, granted, checked_at, score, lens, model, as_of, position } = dto;
    const decided = { jti, policy_id, organization: policy.owner, subject_tris, granted, checked_at, score };
    const content = {
      ...decided,
      scale: { lowest: 0, highest: 100 },
      reasons: await reasonsOf(decision.event, this.identities, mayReadRules(policy, actor)),
      dispute: DISPUTE,
      erasure: ERASURE,
      lens,
      model,
      as_of,
      position,
      timestamp: new Date(this.clock()).toISOString(),
    };
    const claims = { sub: subject_tris, notice: content as unknown as JsonObject };
    const notice = { ...content, proof: await this.keys.sign(claims, 'credence-notice+jws') };
    return { notice, lines: linesOf(notice) };
  }
}

function linesOf(notice: NoticeDto): string[] {
  const { granted, policy_id, organization, subject_tris, score, scale, reasons } = notice;
  return [
    `Notice of the access decision ${notice.jti}`,
    `Access was ${granted ? 'granted' : 'denied'} to ${subject_tris} on ${notice.checked_at}, by the policy ${policy_id} of ${organization ?? 'the operators'}.`,
    score === null
      ? 'Nothing was known of the identity, so there was no score.'
      : `The score was ${score}, on a scale from ${scale.lowest} to ${scale.highest}, as of ${notice.as_of}.`,
    ...reasons.map(({ code, sentence }, i) => `Reason ${i + 1} (${code}): ${sentence}`),
    `To contest it: ${notice.dispute}`,
    `Erasure: ${notice.erasure}`,
    `Made on ${notice.timestamp}. Signature: ${notice.proof}`,
  ];
}
