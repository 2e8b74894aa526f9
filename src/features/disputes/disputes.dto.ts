import { ApiProperty } from '@nestjs/swagger';
import { Equals, IsBoolean, IsIn, IsOptional, IsString, Length } from 'class-validator';
import { PageQuery } from '../../http/common.dto.js';
import { IsSha256, IsUuid, Matches } from '../../http/fields.js';
import { GRANTABLE_STATUSES } from '../identity/domain/identity.events.js';
import type { GrantableStatus } from '../identity/domain/identity.js';
import { ISSUER } from '../identity/accreditation.dto.js';
import { DISPUTE_STATES, type Dispute, type Outcome } from './domain/dispute.js';
import { DISPUTABLE, OUTCOMES } from './domain/disputes.events.js';

/** Without characters that a reader does not see, or that change the order of others; line feeds may be in it. */
const PLAIN_TEXT = /^(?:\n|[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}])*$/u;
const ONLY_PLAIN = {
  message: '$property must have no control, bidirectional or invisible characters other than line feeds',
};

/** Exactly one of the first three says what is disputed. */
export class OpenDisputeDto {
  /** An action. */
  @IsOptional()
  @IsUuid()
  action_id?: string;

  /** A verification that is held, by its status. */
  @IsOptional()
  @IsIn(GRANTABLE_STATUSES)
  verification?: GrantableStatus;

  /** The BAD status that is set. */
  @IsOptional()
  @Equals(true)
  @ApiProperty({ enum: [true] })
  bad_status?: boolean;

  /** Of a verification that several have granted: who granted the disputed one. */
  @IsOptional()
  @Matches(ISSUER, { message: '$property must be the issuer of a verification' })
  issuer?: string;

  /** What is wrong, in words. The log contains only its SHA-256. */
  @IsOptional()
  @IsString()
  @Length(1, 2000)
  @Matches(PLAIN_TEXT, ONLY_PLAIN)
  statement?: string;
}

export class DisputesQuery extends PageQuery {
  /** Only disputes without an answer. */
  @IsOptional()
  @IsBoolean()
  open: boolean = false;
}

export class DisputeParams {
  @IsSha256()
  dispute_id: string;
}

export class AnswerDisputeDto {
  /** Whether the person is right. */
  @IsIn(OUTCOMES)
  outcome: Outcome;

  /** Why, for the person. The log contains only its SHA-256. */
  @IsOptional()
  @IsString()
  @Length(1, 2000)
  @Matches(PLAIN_TEXT, ONLY_PLAIN)
  note?: string;
}

/** An answer to a dispute. */
export class DisputeAnswerDto {
  /** Whether the person was right. */
  @ApiProperty({ enum: OUTCOMES })
  outcome: Outcome;
  answered_at: string;
  /** The organization, or the key of an operator. null: a session is not told the key. */
  decided_by: string | null;
  /** null: none, or it was deleted. */
  note: string | null;
}

/** Which statement is disputed. */
export class DisputedDto {
  dispute_id: string;
  tris_id: string;
  /** What kind of statement it is. */
  @ApiProperty({ enum: DISPUTABLE })
  about: (typeof DISPUTABLE)[number];
  /** Of an action; else null. */
  action_id: string | null;
  /** Of an action; else null. */
  platform_id: string | null;
  /** Of a verification; else null. */
  verification: string | null;
}

/** The dispute of one statement. */
export class DisputeDto extends DisputedDto {
  /** Who made the statement: an organization, or a key. null: the operators, or a session is not told the key. */
  issuer: string | null;
  /** null: none, or it was deleted. */
  statement: string | null;
  opened_at: string;
  /** Whether it waits for an answer. */
  open: boolean;
  /** How it stands. `lapsed`: nobody answered in time, so the action does not count; it can be answered still. */
  @ApiProperty({ enum: DISPUTE_STATES })
  status: Dispute['state'];
  /** When it lapsed last; null: never. */
  lapsed_at: string | null;
  /** All of them, the oldest first: it can be opened again after a rejection. */
  answers: DisputeAnswerDto[];
}

export class DisputesDto {
  /** In the order in which they were opened last. */
  disputes: DisputeDto[];
  next_cursor: string | null;
}
