import { ApiProperty } from '@nestjs/swagger';
import { IsOptional, IsString, Matches, MaxLength } from 'class-validator';
import { JTI } from './eligibility.js';

export class VerifyEligibilityDto {
  @IsString()
  @MaxLength(8_192)
  token: string;

  /** Who is asking; a token bound to an audience is active for that one only. */
  @IsOptional()
  @IsString()
  @MaxLength(255)
  audience?: string;

  /** The policy it must be of. */
  @IsOptional()
  @IsString()
  @MaxLength(128)
  policy_id?: string;
}

class LensClaimDto {
  @ApiProperty({ type: String, nullable: true })
  policy_id: string | null;
  content_hash: string;
}

class ModelClaimDto {
  id: string;
  hash: string;
}

/** Times in seconds since the epoch. */
export class EligibilityClaimsDto {
  iss: string;
  sub: string;
  @ApiProperty({ type: String, required: false })
  aud?: string;
  jti: string;
  iat: number;
  exp: number;
  policy_id: string;
  policy_hash: string;
  as_of: string;
  position: string;
  lens: LensClaimDto;
  model: ModelClaimDto;
}

export const ELIGIBILITY_REASONS = [
  'eligibility_malformed',
  'eligibility_signature',
  'eligibility_issuer',
  'eligibility_audience',
  'eligibility_policy',
  'eligibility_not_yet_valid',
  'eligibility_expired',
  'eligibility_revoked',
  'eligibility_unknown',
] as const;

export class EligibilityDto {
  active: boolean;
  @ApiProperty({ enum: ELIGIBILITY_REASONS, required: false })
  reason?: (typeof ELIGIBILITY_REASONS)[number];
  /** What is wrong, and what to do about it. */
  detail?: string;
  /** Wherever the signature is sound. */
  claims?: EligibilityClaimsDto;
}

export class RevokeEligibilityDto {
  /** The token, or its id. */
  @IsOptional()
  @IsString()
  @MaxLength(8_192)
  token?: string;

  @IsOptional()
  @Matches(JTI, { message: '$property must be the jti of a token: a UUID in small letters' })
  jti?: string;
}

export class RevokedEligibilityDto {
  jti: string;
  @ApiProperty({ enum: [true] })
  revoked: boolean;
}
