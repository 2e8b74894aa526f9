import { ApiProperty } from '@nestjs/swagger';
import { IsIn, IsOptional } from 'class-validator';
import { PageQuery, TrisIdParams } from '../../http/common.dto.js';
import { IsInt, IsReasonCode, IsSha256, IsTimestamp, Matches } from '../../http/fields.js';
import { GRANTABLE_STATUSES } from './domain/identity.events.js';

export class SetBadStatusDto {
  /** 1 (worst) to 6; becomes the identity's score. */
  @IsInt(1, 6)
  level: number;

  /** A code of lower-case letters, digits and underscores; no free text, since the log cannot be edited. */
  @IsReasonCode()
  reason_code: string;
}

export class BadStatusDto {
  level: number;
  reason_code: string;
}

export class IdentityBadStatusDto {
  tris_id: string;
  bad_status: BadStatusDto | null;
}

export class GrantVerificationDto {
  /** The verification status. */
  @IsIn(GRANTABLE_STATUSES)
  status: (typeof GRANTABLE_STATUSES)[number];

  /** Default: does not expire. */
  @IsOptional()
  @IsTimestamp()
  expires_at?: string;

  /** SHA-256 of the evidence, which the operator keeps. */
  @IsSha256()
  evidence_hash: string;
}

export class VerificationParams extends TrisIdParams {
  /** The verification status. */
  @IsIn(GRANTABLE_STATUSES)
  @ApiProperty({ enum: GRANTABLE_STATUSES, example: 'zk-KYH' })
  status: (typeof GRANTABLE_STATUSES)[number];
}

/** Selects which grants of the status to revoke. Default: all that the key may revoke. */
export class RevokeVerificationQuery {
  /** Only grants of this issuer, as listed in the score's verifications. */
  @IsOptional()
  @Matches(/^(?:key:)?[!-~]{1,128}$/, { message: '$property must be the issuer of a verification' })
  issuer?: string;

  /** Only grants of this scheme: `operator`, or the id of a proof scheme. */
  @IsOptional()
  @Matches(/^[a-z][a-z0-9-]{0,63}$/, { message: '$property must be the scheme of a verification' })
  scheme?: string;
}

export class GrantedVerificationDto {
  tris_id: string;
  /** The verification status. */
  status: string;
  issuer: string;
  /** How it was established: `operator`, or the id of a verification scheme. */
  scheme: string;
  expires_at: string | null;
}

export class RevokedVerificationDto {
  tris_id: string;
  /** The verification status. */
  status: string;
  @ApiProperty({ enum: [true] })
  revoked: boolean;
}

export class FindIdentitiesQuery extends PageQuery {
  /** How the id begins, or what follows its first or last colon, in any case; or the id of a platform that it owns. */
  @IsOptional()
  @Matches(/^[A-Za-z0-9._:@-]{0,128}$/, { message: '$property must be up to 128 letters, digits or ._:@-' })
  prefix: string = '';
}

export class FoundIdentityDto {
  tris_id: string;
  /** The platform of this organization that `prefix` names; null: its id begins so. */
  platform_id: string | null;
}

export class IdentitiesDto {
  /** The owner of the platform, then the others in the order of what begins with `prefix`. */
  identities: FoundIdentityDto[];
  next_cursor: string | null;
}
