import { ApiExtraModels, ApiProperty, getSchemaPath } from '@nestjs/swagger';
import { IsOptional, IsString, MaxLength } from 'class-validator';
import { Matches } from '../../http/fields.js';
import { JTI } from './domain/decision.js';

export class VerifyEligibilityDto {
  /** An eligibility token. */
  @IsString()
  @MaxLength(8_192)
  token: string;

  /** The audience that verifies. A token with an audience is active for that one only. */
  @IsOptional()
  @IsString()
  @MaxLength(255)
  audience?: string;

  /** The policy that the token must be for. */
  @IsOptional()
  @IsString()
  @MaxLength(128)
  policy_id?: string;
}

class LensClaimDto {
  policy_id: string | null;
  content_hash: string;
}

class ModelClaimDto {
  /** The version of the model. */
  id: string;
  /** Identifies the constants and formulas of the version. */
  hash: string;
}

/** Times in seconds since the epoch. */
export class EligibilityClaimsDto {
  /** The URL of the service that issued the token. */
  iss: string;
  /** The TRIS id of the subject. */
  sub: string;
  /** The only audience that the token is for; absent: any. */
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
  /** Whether the token is valid now. */
  active: boolean;
  /** Why the token is not active. */
  @ApiProperty({ enum: ELIGIBILITY_REASONS, required: false })
  reason?: (typeof ELIGIBILITY_REASONS)[number];
  /** What is wrong, and how to correct it. */
  detail?: string;
  /** Present if the signature is valid. */
  claims?: EligibilityClaimsDto;
}

export class RevokeEligibilityDto {
  /** The token, or its id. */
  @IsOptional()
  @IsString()
  @MaxLength(8_192)
  token?: string;

  @IsOptional()
  @Matches(JTI, { message: '$property must be the jti of a token: a UUID in lower case' })
  jti?: string;
}

export class RevokedEligibilityDto {
  jti: string;
  @ApiProperty({ enum: [true] })
  revoked: boolean;
}

class VoucherDomainDto {
  @ApiProperty({ enum: ['Credence'] })
  name: string;
  @ApiProperty({ enum: ['1'] })
  version: string;
}

class VoucherTargetDto extends VoucherDomainDto {
  chainId: number;
  /** EIP-55. */
  verifyingContract: string;
}

class VoucherMessageDto {
  /** The `jti` of the token without its hyphens: 16 bytes as hex. */
  jti: string;
  /** The only wallet that can redeem it, EIP-55. */
  wallet: string;
  /** keccak256 of the TRIS id. */
  subject: string;
  /** keccak256 of the policy's id. */
  policy: string;
  /** The policy's content hash, a SHA-256. */
  policyHash: string;
  /** keccak256 of the audience; 32 zero bytes: no audience. */
  audience: string;
  /** Seconds since the epoch, the token's `exp`. */
  expiresAt: number;
}

/** An access decision as EIP-712 typed data of the type `Voucher`, for an `EligibilityVerifier` on a chain. */
export class VoucherDto {
  domain: VoucherTargetDto;
  /** The signed content. */
  message: VoucherMessageDto;
  /** r, s and v (27 or 28), 65 bytes as hex. */
  signature: string;
}

export const ISSUER_STATUSES = ['next', 'signing', 'retired', 'published'] as const;

class VoucherIssuerDto {
  /** EIP-55. */
  address: string;
  /** `published`: listed, but not used for signing here. */
  @ApiProperty({ enum: ISSUER_STATUSES })
  status: (typeof ISSUER_STATUSES)[number];
  /** null: since the beginning, or never. */
  signs_from: string | null;
  /** When its last voucher expires; null: it is not retired. */
  ends_at: string | null;
}

class TypedFieldDto {
  /** The name of the member. */
  name: string;
  /** The type of the member. */
  type: string;
}

/** The issuers that a contract should trust, and the type they sign. */
@ApiExtraModels(TypedFieldDto)
export class VoucherIssuersDto {
  /** The addresses that sign vouchers. */
  issuers: VoucherIssuerDto[];
  domain: VoucherDomainDto;
  /** The EIP-712 type that is signed. */
  @ApiProperty({ enum: ['Voucher'] })
  primary_type: string;
  /** EIP-712 types by name. */
  @ApiProperty({
    type: 'object',
    additionalProperties: { type: 'array', items: { $ref: getSchemaPath(TypedFieldDto) } },
  })
  types: Record<string, TypedFieldDto[]>;
}
