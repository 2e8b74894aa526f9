import { ApiProperty } from '@nestjs/swagger';
import { IsBoolean, IsOptional, IsString, Length } from 'class-validator';
import { IsInt, IsTimestamp, IsTrisId, Matches } from '../../http/fields.js';
import { POLICY_REF } from '../../kernel/identifiers.js';
import { LensDto, ModelDto } from '../disc/disc.dto.js';
import { AccessReasonDto, CODES, FactChangeDto } from './ap.dto.js';
import type { NoticeCode } from './notice.js';
import { JTI } from './domain/decision.js';

/** Selects decisions; all conditions must hold. */
export class DecisionsQuery {
  /** Only decisions about this subject. */
  @IsOptional()
  @IsTrisId()
  subject?: string;

  /** Only decisions by this access policy. */
  @IsOptional()
  @Matches(POLICY_REF, { message: 'policy_id must be the id of an access policy, such as AP_BORROW_V1' })
  policy_id?: string;

  /** Only grants (`true`), or only denials. */
  @IsOptional()
  @IsBoolean()
  granted?: boolean;

  /** Only checks at this time or later. */
  @IsOptional()
  @IsTimestamp()
  from?: string;

  /** Only checks at this time or earlier. */
  @IsOptional()
  @IsTimestamp()
  to?: string;

  /** The most decisions of a page. */
  @IsOptional()
  @IsInt(1, 100)
  limit: number = 100;

  /** `next_cursor` of the page before; opaque. */
  @IsOptional()
  @IsString()
  @Length(1, 1024)
  cursor?: string;
}

export class DecisionParams {
  @Matches(JTI, { message: '$property must be the jti of a decision: a UUID in lower case' })
  @ApiProperty({ example: '0b0e4d5e-4f43-4b0e-9d5e-4f434b0e4d5e' })
  jti: string;
}

/** The wallet and contract that the voucher of a grant is for. */
export class DecisionVoucherDto {
  wallet: string;
  chain_id: number;
  /** The contract that verifies the voucher. */
  verifying_contract: string;
}

/** A recorded access decision. */
export class DecisionDto {
  /** Id of the decision, and of its token if it granted. */
  jti: string;
  policy_id: string;
  /** The content hash of the policy. */
  policy_hash: string;
  subject_tris: string;
  granted: boolean;
  /** The audience of the token; null: anybody, or no token. */
  audience: string | null;
  /** null: the subject was unknown. */
  score: number | null;
  /** All parts of the rules that prevented access; empty if granted. */
  @ApiProperty({ type: [AccessReasonDto] })
  reasons: object[];
  /** A smallest set of changes after which the check would have granted. */
  @ApiProperty({ type: [FactChangeDto] })
  how_to_pass: object[];
  checked_at: string;
  /** Who asked: `key:<id>`. null: a session is not told. */
  checked_by: string | null;
  /** When its token expires; null: not granted. */
  expires_at: string | null;
  /** Whether its token was revoked. */
  revoked: boolean;
  /** null: none was requested. */
  voucher: DecisionVoucherDto | null;
  /** The facts are of this time: that of the check or, if it is later, the latest that a server gave to one of them. */
  as_of: string;
  /** Events up to this position counted. Of the first log, if the decision was imported. */
  position: string;
  /** null: the subject was unknown, so none was used. */
  lens: LensDto | null;
  model: ModelDto;
  /** Where the record is in this log. */
  recorded_position: string;
}

export class OneDecisionDto extends DecisionDto {
  /** Why access was denied: the codes of its notice. Empty if granted. */
  @ApiProperty(CODES)
  codes: NoticeCode[];
}

export class DecisionsDto {
  /** The latest first. A page may contain fewer than `limit`, or none, although others follow. */
  decisions: DecisionDto[];
  /** null: there are no more. */
  next_cursor: string | null;
}
