import { ApiProperty } from '@nestjs/swagger';

class OutcomeDto {
  granted: boolean;
  /** null: the subject was unknown. */
  @ApiProperty({ type: Number, nullable: true })
  score: number | null;
}

/** A recorded access decision in which the action counted. */
export class AffectedDecisionDto {
  jti: string;
  policy_id: string;
  checked_at: string;
  /** As it was recorded. */
  was: OutcomeDto;
  /** At its own time, position, lens and model, without the action. */
  would_be: OutcomeDto;
  /** Until when its token is valid; null: there is none. */
  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  expires_at: string | null;
}

export class AffectedDecisionsDto {
  action_id: string;
  tris_id: string;
  /** Decisions in which the action counted. */
  @ApiProperty({ type: 'integer' })
  decisions: number;
  /** Those that would be granted instead of denied, or denied instead of granted; the latest first. */
  differ: AffectedDecisionDto[];
}
