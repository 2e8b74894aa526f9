import { ArrayMinSize, IsArray, IsIn, IsOptional, IsUrl, MaxLength } from 'class-validator';
import { ApiProperty } from '@nestjs/swagger';
import {
  AtMost,
  IsActionType,
  IsCriticality,
  IsExternalId,
  IsTimestamp,
  IsWrittenPlatformId,
  IsWrittenTrisId,
  Matches,
  TOO_LARGE,
} from '../../http/fields.js';
import { ItemProblemDto } from '../../http/common.dto.js';
import { notInTheFuture } from '../../http/times.js';
import { CATEGORY_NAMES, categoryOf, criticalityOf } from '../../scoring/names.js';
import { refusalOf } from '../../kernel/problems.js';
import type { Action } from './domain/relay.js';
import { SOURCES, type Source } from './domain/relay.events.js';

/** A score-relevant action (requirement 16); the last four fields are additions. */
export class RelayActionDto {
  /** Identity that the action belongs to. */
  @IsWrittenTrisId()
  tris_id: string;

  /** Kind of action; with the category it forms the metric. The suffix `_flags` makes it negative evidence. */
  @IsActionType()
  action_type: string;

  /** A metric category. */
  @IsIn(CATEGORY_NAMES)
  category: string;

  /** Minimal, Low, Moderate, High or Critical, in any case. */
  @IsCriticality()
  criticality: string;

  /** Platform that verified and submits the action. */
  @IsWrittenPlatformId()
  platform_id: string;

  /** When it happened; default: when the request is received. At most a minute ahead of the server's clock. */
  @IsOptional()
  @IsTimestamp()
  occurred_at?: string;

  /** The platform's own id of the action. A repeat with the same id is recorded once and gets the same answer. */
  @IsOptional()
  @IsExternalId()
  external_id?: string;

  /** Location of the evidence. The log contains only its SHA-256. */
  @IsOptional()
  @Matches(/^[!-~]+$/, { message: 'evidence_uri must be a URI, RFC 3986: printable ASCII without spaces' })
  @MaxLength(2000)
  @IsUrl({ protocols: ['https', 'http', 'ipfs', 'ar'], require_protocol: true, require_tld: false })
  evidence_uri?: string;

  /** TRIS of the other side: who rated, lent or reviewed. It endorses the identity instead of the platform's owner. */
  @IsOptional()
  @IsWrittenTrisId()
  counterparty?: string;
}

/**
 * The action that a body is about, in canonical terms.
 * @throws Problem validation_failed for a time in the future, or the identity as its own counterparty
 */
export function toAction(body: RelayActionDto, now: number): Action {
  const { counterparty } = body;
  if (counterparty === body.tris_id) {
    throw refusalOf('/counterparty', 'own_counterparty', 'counterparty must be another identity than tris_id');
  }
  return {
    tris_id: body.tris_id,
    action_type: body.action_type,
    category: categoryOf(body.category)!,
    criticality: criticalityOf(body.criticality)!,
    platform_id: body.platform_id,
    occurred_at: body.occurred_at === undefined ? null : notInTheFuture(body.occurred_at, now),
    external_id: body.external_id ?? null,
    evidence_uri: body.evidence_uri ?? null,
    ...(counterparty !== undefined && { counterparty }),
  };
}

export class RelayedDto {
  /** The action is recorded. */
  @ApiProperty({ enum: ['received'] })
  status: 'received';
  /** The outcome, and why the action has its source, in words. */
  message: string;
  /** Id of the recorded action. */
  action_id: string;
  /** `vouched` if an operator's key relayed it, or one of an organization that was vetted then; else `unvouched`. */
  @ApiProperty({ enum: SOURCES })
  source: Source;
}

/** Actions of a batch. */
export const MAX_ACTIONS = 1_000;

export class RelayBatchDto {
  /** Each is judged and recorded by itself, as if it were sent alone. */
  @IsArray()
  @ArrayMinSize(1)
  @AtMost(MAX_ACTIONS, TOO_LARGE)
  @ApiProperty({ type: [RelayActionDto], minItems: 1 })
  actions: unknown[];
}

export class BatchActionDto {
  /** Id of the recorded action. */
  action_id: string;
  /** Where the action is in the log, for `Credence-Min-Position`. */
  position: string;
  /** As in the answer to one action. */
  @ApiProperty({ enum: SOURCES })
  source: Source;
}

export class RelayBatchItemDto {
  /** The place of the action in the request, from 0; blank lines do not count. */
  index: number;
  /** The HTTP status that a request with this action alone would have returned: 202 if it is recorded. */
  status: number;
  data?: BatchActionDto;
  problem?: ItemProblemDto;
}

export class RelayBatchResultDto {
  /** One for each action, in order. */
  results: RelayBatchItemDto[];
}
