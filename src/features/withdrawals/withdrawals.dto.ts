import { ApiProperty } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsOptional } from 'class-validator';
import { IsUuid } from '../../http/fields.js';
import { CRITICALITIES, type Criticality } from '../../scoring/model.js';
import { ScoreDto } from '../disc/disc.dto.js';
import { REASONS, type Reason, SOURCES, type Source } from '../relay/domain/relay.events.js';
import { ACTION_STATES, type ActionState } from '../relay/domain/withdrawal.js';

/** The path parameter `:action_id`. */
export class ActionParams {
  @IsUuid()
  action_id: string;
}

export class ChangeActionDto {
  /** Why. */
  @IsIn(REASONS)
  reason: Reason;

  /** Only answer with the score before and after; nothing is recorded. */
  @IsOptional()
  @IsBoolean()
  dry_run: boolean = false;
}

export class ChangedActionDto {
  action_id: string;
  /** Whether the action counts now or, in a dry run, would count. */
  @ApiProperty({ enum: ACTION_STATES })
  state: ActionState;
  /** Of the event that brought it into this state; for `Credence-Min-Position`. Absent in a dry run. */
  position?: string;
  /** The present score of the identity. Only in a dry run, as the next. */
  before?: ScoreDto;
  /** What the score would be. */
  after?: ScoreDto;
}

/** A withdrawal or a reinstatement. */
export class ActionChangeDto {
  /** The state since then. */
  @ApiProperty({ enum: ACTION_STATES })
  state: ActionState;
  at: string;
  /** `key:<id>`, `cli:<user>`, or the job of the service that did it. null: a session is not told. */
  by: string | null;
  /** Why. */
  @ApiProperty({ enum: REASONS })
  reason: Reason;
  position: string;
}

/** A recorded action, and whether it counts. */
export class ActionDto {
  action_id: string;
  tris_id: string;
  metric: string;
  @ApiProperty({ enum: CRITICALITIES })
  criticality: Criticality;
  platform_id: string;
  /** The organization that owns the platform; null: it is not registered. */
  organization: string | null;
  /** As in the answer to its relay. */
  @ApiProperty({ enum: SOURCES })
  source: Source;
  /** TRIS of the other side. Absent if it is not recorded. */
  counterparty?: string;
  occurred_at: string;
  recorded_at: string;
  position: string;
  /** Whether it counts. */
  @ApiProperty({ enum: ACTION_STATES })
  state: ActionState;
  /** Its withdrawals and reinstatements, the oldest first. */
  changes: ActionChangeDto[];
}
