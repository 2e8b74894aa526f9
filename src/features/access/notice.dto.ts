import { ApiProperty } from '@nestjs/swagger';
import { LensDto, ModelDto } from '../disc/disc.dto.js';
import { ANY_VALUE } from './ap.dto.js';
import { NOTICE_CODES, type NoticeCode } from './notice.js';

/** A principal reason of a denial. */
export class NoticeReasonDto {
  /** Stable. docs/policies.md says what each means. */
  @ApiProperty({ enum: Object.keys(NOTICE_CODES) })
  code: NoticeCode;
  /** What would have to change, as in `how_to_pass`; null: no change of single facts would pass. */
  fact: string | null;
  /** The subject's own value; null: there is none. */
  @ApiProperty(ANY_VALUE)
  actual: number | string | boolean | null;
  /** What the rules require. Absent for readers who may not read the rules. */
  @ApiProperty(ANY_VALUE)
  required?: number | string | boolean | null;
  /** The reason in a sentence. */
  sentence: string;
}

/** The ends of a scale. */
export class ScaleDto {
  /** The lowest possible value. */
  lowest: number;
  /** The highest possible value. */
  highest: number;
}

/** What an access decision about a person was, and why. */
export class NoticeDto {
  jti: string;
  policy_id: string;
  /** The owner of the policy; null: the operators. */
  organization: string | null;
  subject_tris: string;
  granted: boolean;
  checked_at: string;
  /** null: nothing was known of the subject. */
  score: number | null;
  /** The scale of the score. */
  scale: ScaleDto;
  /** The principal reasons, the most expensive to change first; empty if granted. */
  reasons: NoticeReasonDto[];
  /** How to contest what the decision rests on. */
  dispute: string;
  /** What can be erased, and what the log keeps. */
  erasure: string;
  /** The facts are of this time. */
  as_of: string;
  /** Events up to this position counted. Of the first log, if the decision was imported. */
  position: string;
  /** null: the subject was unknown, so none was used. */
  lens: LensDto | null;
  model: ModelDto;
  /** When the notice was made. */
  timestamp: string;
  /** A JWS of the type `credence-notice+jws` over all other fields, in `notice`. */
  proof: string;
}
