import { ApiProperty } from '@nestjs/swagger';
import { IsIn, IsOptional } from 'class-validator';
import { AreSomeOf, CommaSeparated, IsNoPersonalData, IsOneSpelling, Matches } from '../../http/fields.js';
import { TRIS_ID } from '../../kernel/identifiers.js';
import { GRANTABLE_STATUSES } from './domain/identity.events.js';
import type { GrantableStatus } from './domain/identity.js';

/** A TRIS id, or a key that is bound to no organization. */
export const ISSUER = new RegExp(`${TRIS_ID.source}|^key:[A-Za-z0-9._-]{1,64}$`);
const MUST = '$property must be the issuer of verifications: the TRIS id of an organization, or key:<id>';

export class AccreditIssuerDto {
  /** The TRIS id of an organization, or `key:<id>`, as verifications list it. */
  @Matches(ISSUER, { message: MUST })
  @IsNoPersonalData()
  @IsOneSpelling()
  issuer: string;

  /** Verification statuses. */
  @AreSomeOf(GRANTABLE_STATUSES)
  statuses: GrantableStatus[];
}

export class AccreditedIssuerParams {
  @Matches(ISSUER, { message: MUST })
  issuer: string;
}

export class WithdrawQuery {
  /** Separated by commas; default: all. */
  @IsOptional()
  @CommaSeparated()
  @IsIn(GRANTABLE_STATUSES, { each: true })
  statuses?: GrantableStatus[];
}

export class AccreditedIssuerDto {
  issuer: string;
  /** Its grants of these count in every policy. */
  @ApiProperty({ enum: GRANTABLE_STATUSES, isArray: true })
  statuses: GrantableStatus[];
}

export class AccreditedIssuersDto {
  /** The issuers. */
  issuers: AccreditedIssuerDto[];
  next_cursor: string | null;
}
