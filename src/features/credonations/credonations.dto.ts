/** A credonation as it is listed (requirement 19). */
export class CredonationDto {
  /** TRIS of the sender. */
  from: string;
  /** TCT of the action endorsed. */
  amount: number;
  /** When the action occurred. */
  timestamp: string;
  category: string;
}

/** The credonations received (requirement 31), in pages. */
export class ValidationsDto {
  tris_id: string;
  validations: CredonationDto[];
  next_cursor: string | null;
}
