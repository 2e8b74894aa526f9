import { ApiProperty } from '@nestjs/swagger';
import { MODEL } from '../../scoring/model.js';

/** A credonation in a list (requirement 19). */
export class CredonationDto {
  /** TRIS of the sender. */
  from: string;
  /** TCT of the endorsed action. */
  amount: number;
  /** When the action occurred. */
  timestamp: string;
  /** The category of the endorsed action. */
  @ApiProperty({ enum: MODEL.categories })
  category: string;
}

/** A page of the credonations that an identity received (requirement 31). */
export class ValidationsDto {
  tris_id: string;
  /** The credonations, in log order. */
  validations: CredonationDto[];
  next_cursor: string | null;
}
