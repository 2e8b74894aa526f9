import { IsIn, IsOptional } from 'class-validator';
import { PageQuery } from '../../http/common.dto.js';
import { IsReasonCode, IsUuid } from '../../http/fields.js';

export const DEAD_LETTER_STATES = ['open', 'acknowledged'] as const;
export type DeadLetterState = (typeof DEAD_LETTER_STATES)[number];

export class DeadLettersQuery extends PageQuery {
  /** Only events in this state. */
  @IsOptional()
  @IsIn(DEAD_LETTER_STATES)
  state: DeadLetterState = 'open';
}

export class DeadLetterParams {
  @IsUuid()
  event_id: string;
}

export class AcknowledgeDeadLetterDto {
  /** Why the event can be ignored. */
  @IsReasonCode()
  reason_code: string;
}

export class AcknowledgementDto {
  at: string;
  /** `key:<id>`, or `cli:<user>`. */
  by: string;
  reason_code: string;
}

/** An event that this build cannot decode. */
export class DeadLetterDto {
  event_id: string;
  event_type: string;
  position: string;
  /** The identity that the event is about; null if it could not be determined. */
  tris_id: string | null;
  /** Why the event cannot be decoded. */
  reason: string;
  /** null: open, and the identity is incomplete. */
  acknowledged: AcknowledgementDto | null;
}

export class DeadLettersDto {
  /** The events, in log order. */
  dead_letters: DeadLetterDto[];
  next_cursor: string | null;
}
