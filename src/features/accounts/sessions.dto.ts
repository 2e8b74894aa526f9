import { ApiProperty } from '@nestjs/swagger';
import { IsIn, IsOptional, IsString, MaxLength } from 'class-validator';
import { IsInt, IsWalletAddress, IsWrittenTrisId, Matches } from '../../http/fields.js';
import { type ProblemCode, PROBLEMS } from '../../kernel/problems.js';
import { MAX_SIGNATURE_LENGTH } from './signatures.js';
import { MAX_MESSAGE_LENGTH, PURPOSES, type Purpose } from './siwe.js';

export class StartSignInDto {
  /** The wallet that will sign. */
  @IsWalletAddress()
  address: string;

  /** EIP-155. The chain of a contract wallet; any chain for other wallets. */
  @IsInt(1, Number.MAX_SAFE_INTEGER)
  chain_id: number;

  /**
   * `sign_in`; `claim`: also link the wallet to its own TRIS, `tris:<address in lower case>`; `link`: agree to be
   * linked to another TRIS, whose session then sends the message to /v1/wallets/link; `unlink`: agree to end the link
   * of the wallet that founded a TRIS, at /v1/wallets/unlink; `end_sessions`: end all its sessions, at
   * /v1/tris/sessions/end.
   */
  @IsOptional()
  @IsIn(PURPOSES)
  purpose: Purpose = 'sign_in';

  /**
   * The TRIS to link to or to unlink from. For `claim` it may be left out: a key claims `tris:<address>`, a contract
   * `tris:eip155:<chain>:<address>`.
   */
  @IsOptional()
  @IsWrittenTrisId()
  tris_id?: string;
}

export class ChallengeDto {
  /** The nonce in the message. It can be used once. */
  nonce: string;
  /** An EIP-4361 message, to be signed unchanged (EIP-191, `personal_sign`). */
  message: string;
  /** By when it must be signed and sent. */
  expires_at: string;
}

export class SignedMessageDto {
  /** Exactly as it was issued. */
  @IsString()
  @MaxLength(MAX_MESSAGE_LENGTH, {
    context: { code: 'siwe_too_long' },
    message: `message must have at most ${MAX_MESSAGE_LENGTH} characters`,
  })
  message: string;

  /** `0x` and hex digits: 65 bytes r, s, v by the wallet's key, or what the wallet's contract accepts, which may be empty. */
  @IsString()
  @MaxLength(MAX_SIGNATURE_LENGTH, {
    context: { code: 'siwe_signature_form' },
    message: `signature must have at most ${MAX_SIGNATURE_LENGTH} characters`,
  })
  @Matches(/^0x(?:[0-9A-Fa-f]{2})*$/, {
    context: { code: 'siwe_signature_form' },
    message: 'signature must be 0x and an even number of hexadecimal digits',
  })
  signature: string;
}

/** What can be wrong with a signed message besides `siwe_*`. */
const OTHERS = new Set<ProblemCode>([
  'address_checksum',
  'chain_not_configured',
  'nonce_used',
  'wallet_already_linked',
  'chain_unavailable',
]);
/** Everything that can be wrong with a signed message, whatever it asks for. */
export const SIGNED_MESSAGE_PROBLEMS = (Object.keys(PROBLEMS) as ProblemCode[]).filter(
  (code) => OTHERS.has(code) || (code.startsWith('siwe_') && code !== 'siwe_claim'),
);

export class TokensDto {
  /** For `Authorization: Bearer`. */
  access_token: string;
  /** How the access token is sent. */
  @ApiProperty({ enum: ['Bearer'] })
  token_type: 'Bearer';
  /** Lifetime of the access token, s. */
  expires_in: number;
  /** Can be used once. */
  refresh_token: string;
  /** The TRIS the session acts for; null: the wallet is not linked, or did not sign for its link. */
  tris_id: string | null;
  /** EIP-55. */
  wallet: string;
}

export class RefreshTokenDto {
  /** The refresh token. */
  @IsString()
  @MaxLength(4_096)
  refresh_token: string;
}

export class RevokedDto {
  @ApiProperty({ enum: [true] })
  revoked: true;
}

export class SessionsEndedDto {
  /** EIP-55. */
  wallet: string;
  /** Always true. */
  @ApiProperty({ enum: [true] })
  ended: true;
}
