import { ApiExtraModels, ApiProperty } from '@nestjs/swagger';
import { ArrayMinSize, IsArray, IsIn, IsNumber, IsOptional, IsString, Length, Max, Min } from 'class-validator';
import { PageQuery } from '../../http/common.dto.js';
import { AreSomeOf, AtMost, IsNested, IsTrisId, IsUnique, IsWrittenTrisId, Matches } from '../../http/fields.js';
import { POLICY_REF } from '../../kernel/identifiers.js';
import type { JsonObject } from '../../kernel/json.js';
import { RATINGS } from '../../scoring/model.js';
import { WebhookMessageDto } from './messages.dto.js';
import { WEBHOOK_EVENTS, type WebhookEvent } from './domain/webhooks.events.js';

const MAX_WATCHED = 1_000;
export const WEBHOOK_STATUSES = ['active', 'disabled'] as const;

export class WebhookFilterDto {
  /** Only events about these identities. Default: all identities. */
  @IsOptional()
  @IsArray()
  @ArrayMinSize(1)
  @AtMost(MAX_WATCHED)
  @IsWrittenTrisId({ each: true })
  @IsUnique()
  tris_ids?: string[];

  /** `rating.changed` only when the new rating is one of these. Default: any. */
  @IsOptional()
  @AreSomeOf(RATINGS)
  ratings?: string[];

  /** `score.crossed` when a score of at least this falls below it. */
  @IsOptional()
  @IsNumber({ allowNaN: false, allowInfinity: false })
  @Min(0)
  @Max(100)
  score_below?: number;

  /** `score.crossed` when a score of at most this rises above it. */
  @IsOptional()
  @IsNumber({ allowNaN: false, allowInfinity: false })
  @Min(0)
  @Max(100)
  score_above?: number;
}

export class ChangeWebhookDto {
  /** Where messages are sent: an https URL that leads to a public address. */
  @IsOptional()
  @IsString()
  @Length(1, 2048)
  @ApiProperty({ format: 'uri', example: 'https://lender.example/hooks/credence' })
  url?: string;

  /** The kinds of events to deliver. */
  @IsOptional()
  @AreSomeOf(WEBHOOK_EVENTS)
  events?: WebhookEvent[];

  /** Replaces the filter. */
  @IsOptional()
  @IsNested(() => WebhookFilterDto)
  filter?: WebhookFilterDto;

  /** The access policy of `access.denied_now`: one of the organization, or a public one. */
  @IsOptional()
  @Matches(POLICY_REF, { message: '$property must be the id of an access policy' })
  policy_id?: string;

  /** `disabled` pauses it; `active` continues where it ended. */
  @IsOptional()
  @IsIn(WEBHOOK_STATUSES)
  status?: (typeof WEBHOOK_STATUSES)[number];
}

export class CreateWebhookDto {
  /** Where messages are sent: an https URL that leads to a public address. */
  @IsString()
  @Length(1, 2048)
  @ApiProperty({ format: 'uri', example: 'https://lender.example/hooks/credence' })
  url: string;

  /** The kinds of events to deliver. */
  @AreSomeOf(WEBHOOK_EVENTS)
  events: WebhookEvent[];

  /** Limits what it reports. */
  @IsOptional()
  @IsNested(() => WebhookFilterDto)
  filter?: WebhookFilterDto;

  /** The access policy of `access.denied_now`: one of the organization, or a public one. */
  @IsOptional()
  @Matches(POLICY_REF, { message: '$property must be the id of an access policy' })
  policy_id?: string;
}

export class WebhookParams {
  @Matches(/^[A-Za-z0-9_.:@-]{1,128}$/)
  webhook_id: string;
}

export class DeliveryParams extends WebhookParams {
  @Matches(/^[A-Za-z0-9_.:@-]{1,128}$/)
  delivery_id: string;
}

export class ReplayWebhookDto {
  /** A position, as in `Credence-Position`: what happened after it is delivered. */
  @IsString()
  @Length(1, 128)
  after: string;
}

export class StoredFilterDto {
  /** The identities that it reports on; null: all. */
  tris_ids: string[] | null;
  /** New ratings that are reported; null: all. */
  ratings: string[] | null;
  score_below: number | null;
  score_above: number | null;
}

export class WebhookDto {
  webhook_id: string;
  /** The owner; null: the platform's operators. */
  tris_org: string | null;
  /** null if it was deleted with `credence texts delete`; nothing is sent then. */
  url: string | null;
  /** The events that it reports. */
  @ApiProperty({ type: 'array', items: { type: 'string', enum: [...WEBHOOK_EVENTS] } })
  events: WebhookEvent[];
  /** Limits what it reports. */
  filter: StoredFilterDto;
  /** The access policy of `access.denied_now`; null: none. */
  policy_id: string | null;
  /** Whether messages are sent. */
  @ApiProperty({ enum: WEBHOOK_STATUSES })
  status: (typeof WEBHOOK_STATUSES)[number];
  /** `paused` by its owner; `gone`: the receiver answered 410; `failed`: a delivery failed for three days. */
  disabled_reason: string | null;
  disabled_at: string | null;
  /** Number of deliveries that wait for their first or next attempt. */
  pending: number;
  created_at: string;
  /** When its secret changed last: it was rotated, or operators have replaced the key from which secrets follow. */
  rotated_at: string | null;
}

export class CreatedWebhookDto extends WebhookDto {
  /** The key of its signatures. It is not shown again. */
  secret: string;
}

export class ListWebhooksQuery extends PageQuery {
  /** Of this organization; another one than the key’s is for `ops`. Default: the key’s, or the operators. */
  @IsOptional()
  @IsTrisId()
  tris_org?: string;
}

export class WebhooksDto {
  /** The webhooks of the organization. */
  webhooks: WebhookDto[];
  next_cursor: string | null;
}

export class DeletedWebhookDto {
  webhook_id: string;
  /** It is deleted. */
  @ApiProperty({ enum: ['deleted'] })
  status: string;
}

export class RotatedSecretDto {
  webhook_id: string;
  /** The new key. The old one also signs for a day. */
  secret: string;
}

export class ReplayedWebhookDto {
  webhook_id: string;
  /** Everything after this position is delivered. */
  after: string;
}

export class AttemptDto {
  /** The `webhook-id` of the message. */
  message_id: string;
  /** Whether the receiver answered with a status of 2xx. */
  delivered: boolean;
  /** Status of the receiver's answer. */
  status: number | null;
  /** Why there is no status. */
  failure: string | null;
  ms: number;
}

export class LastAttemptDto {
  at: string;
  /** Status of the receiver’s answer; null without one. */
  status: number | null;
  /** Why the attempt has no status, such as `timeout`; null if it has one. */
  failure: string | null;
  ms: number;
}

@ApiExtraModels(WebhookMessageDto)
export class DeliveryDto {
  delivery_id: string;
  /** The `webhook-id` of the message; the same whenever this event is sent to this webhook. */
  message_id: string;
  /** The kind of event that the message reports. */
  event: string;
  tris_id: string | null;
  /** The position of the event. */
  position: string;
  /** Whether it was delivered, has failed permanently, or is waiting. */
  @ApiProperty({ enum: ['pending', 'delivered', 'failed'] })
  status: string;
  attempts: number;
  created_at: string;
  next_attempt_at: string | null;
  /** The last attempt; null before the first. */
  last_attempt: LastAttemptDto | null;
  /** The message, which the section `webhooks` of the document describes. */
  payload: JsonObject;
}

export class DeliveriesDto {
  /** The deliveries, newest first. */
  deliveries: DeliveryDto[];
  next_cursor: string | null;
}
