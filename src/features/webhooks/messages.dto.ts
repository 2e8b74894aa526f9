import { ApiExtraModels, ApiProperty, getSchemaPath } from '@nestjs/swagger';
import { CRITICALITIES, type Criticality } from '../../scoring/model.js';
import { AccessReasonDto, CODES } from '../access/ap.dto.js';
import type { NoticeCode } from '../access/notice.js';
import { LensDto, LensNameDto, ModelDto, SideDto } from '../disc/disc.dto.js';
import { OUTCOMES } from '../disputes/domain/disputes.events.js';
import { DisputedDto } from '../disputes/disputes.dto.js';
import { LENS_SCOPES, type LensScope } from '../lenses/domain/lenses.events.js';
import { type Reason, REASONS } from '../relay/domain/relay.events.js';
import { AffectedDecisionDto } from '../withdrawals/affected-decisions.dto.js';
import type { WebhookEvent } from './domain/webhooks.events.js';

/** What is posted to a webhook. */
export class WebhookMessageDto {
  /** What the message tells; it decides what is in `data`. */
  type: string;
  /** When the event was recorded; of `webhook.test`, when it was sent. */
  timestamp: string;
  /** The event. */
  data: object;
}

export class RatingChangedDto extends SideDto {
  tris_id: string;
  /** The same before the event. */
  previous: SideDto;
  lens: LensDto;
  model: ModelDto;
  position: string;
}

export class ScoreCrossedDto extends RatingChangedDto {
  /** Whether the score fell below the threshold or rose above it. */
  @ApiProperty({ enum: ['below', 'above'] })
  direction: 'below' | 'above';
  /** `score_below` or `score_above` of the webhook. */
  threshold: number;
}

export class BadStatusChangedDto {
  tris_id: string;
  /** The level, 1 (worst) to 6; null: it was cleared. */
  level: number | null;
  /** The reason as a code; null: it was cleared. */
  reason_code: string | null;
  position: string;
}

export class VerificationChangedDto {
  tris_id: string;
  /** What happened. */
  @ApiProperty({ enum: ['granted', 'revoked'] })
  change: 'granted' | 'revoked';
  /** The verification status. */
  status: string;
  /** The issuer; null: those of all issuers were revoked. */
  issuer: string | null;
  /** `operator`, or the id of a verification scheme; null: those by all schemes were revoked. */
  scheme: string | null;
  /** When it expires; null: it does not, or it was revoked. */
  expires_at: string | null;
  position: string;
}

const ONE_OF_BOTH = { oneOf: [LensNameDto, ModelDto].map((type) => ({ $ref: getSchemaPath(type) })) };

@ApiExtraModels(LensNameDto, ModelDto)
export class PolicyPromotedDto {
  /** For whom it is active. */
  @ApiProperty({ enum: LENS_SCOPES })
  scope: LensScope;
  /** The organization; null: the platform. */
  tris_org: string | null;
  /** What happened. */
  @ApiProperty({ enum: ['promoted', 'rolled_back'] })
  reason: 'promoted' | 'rolled_back';
  /** What was promoted or rolled back: a validation policy, or a version of the model. */
  @ApiProperty({ enum: ['lens', 'model'] })
  what: 'lens' | 'model';
  /** The lens or the version that is active from this position on. */
  @ApiProperty(ONE_OF_BOTH)
  active: LensNameDto | ModelDto;
  /** The one that was active before. */
  @ApiProperty(ONE_OF_BOTH)
  previous: LensNameDto | ModelDto;
  position: string;
}

export class AccessDeniedNowDto {
  tris_id: string;
  policy_id: string;
  /** null: the identity has no score. */
  score: number | null;
  /** All parts of the rules that prevent access. */
  reasons: AccessReasonDto[];
  /** As of a check. */
  @ApiProperty(CODES)
  codes: NoticeCode[];
  position: string;
}

export class ActionMovedDto {
  tris_id: string;
  action_id: string;
  metric: string;
  @ApiProperty({ enum: CRITICALITIES })
  criticality: Criticality;
  platform_id: string;
  /** Why. */
  @ApiProperty({ enum: REASONS })
  reason: Reason;
  position: string;
}

export class DecisionWouldDifferDto extends AffectedDecisionDto {
  tris_id: string;
  position: string;
}

export class DisputeOpenedDto extends DisputedDto {
  position: string;
}

export class DisputeAnsweredDto extends DisputeOpenedDto {
  /** What the answer was. `lapsed`: nobody answered in time, so the action is withdrawn. */
  @ApiProperty({ enum: [...OUTCOMES, 'lapsed'] })
  outcome: (typeof OUTCOMES)[number] | 'lapsed';
}

export class TestMessageDto {
  webhook_id: string;
}

/** The `data` of each type of message, and what it tells. */
export const MESSAGES = {
  'rating.changed': [RatingChangedDto, 'An event about an identity changed its rating'],
  'score.crossed': [ScoreCrossedDto, 'The score of an identity crossed a threshold of the webhook'],
  'verification.changed': [VerificationChangedDto, 'A verification was granted or revoked'],
  'bad_status.changed': [BadStatusChangedDto, 'A BAD status was set or cleared'],
  'policy.promoted': [PolicyPromotedDto, 'A lens or a version of the model was promoted or rolled back'],
  'access.denied_now': [
    AccessDeniedNowDto,
    'An access policy refuses an identity that it would have granted access before',
  ],
  'action.withdrawn': [ActionMovedDto, 'An action was withdrawn, and counts nowhere from then on'],
  'action.reinstated': [ActionMovedDto, 'A withdrawn action counts again'],
  'decision.would_differ': [DecisionWouldDifferDto, 'A withdrawal made an access decision one that would differ'],
  'dispute.opened': [DisputeOpenedDto, 'A person disputes a statement of the organization'],
  'dispute.answered': [DisputeAnsweredDto, 'Such a dispute was answered, or has lapsed'],
  'webhook.test': [TestMessageDto, 'A test that was asked for'],
} satisfies Record<WebhookEvent | 'webhook.test', readonly [data: object, tells: string]>;
export type MessageData<Type extends WebhookEvent> = Omit<InstanceType<(typeof MESSAGES)[Type][0]>, 'position'>;
