class OutcomeDto {
  granted: boolean;
  /** null: the subject was unknown. */
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
  expires_at: string | null;
}

export class AffectedDecisionsDto {
  action_id: string;
  tris_id: string;
  /** Decisions in which the action counted. */
  decisions: number;
  /** Those that would be granted instead of denied, or denied instead of granted; the latest first. */
  differ: AffectedDecisionDto[];
}
