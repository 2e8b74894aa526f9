/** A credonation in a list (requirement 19). */
export class CredonationDto {
  /** TRIS of the sender. */
  from: string;
  /** TCT of the endorsed action. */
  amount: number;
  /** When the action occurred. */
  timestamp: string;
  category: string;
}

/** A page of the credonations that an identity received (requirement 31). */
export class ValidationsDto {
  tris_id: string;
  validations: CredonationDto[];
  next_cursor: string | null;
}
