import { ApiProperty } from '@nestjs/swagger';
import { IsOptional, IsString, MaxLength } from 'class-validator';
import { IsReasonCode, IsWalletAddress, IsWrittenTrisId, Matches } from '../../http/fields.js';
import { MAX_SIGNATURE_LENGTH } from './signatures.js';
import { MAX_MESSAGE_LENGTH } from './siwe.js';
import { LINK_PROOFS } from './domain/wallets.events.js';

export class LinkAccountDto {
  @IsWalletAddress()
  wallet: string;

  @IsWrittenTrisId()
  tris_id: string;
}

export class AccountLinkedDto {
  /** The wallet is linked. */
  @ApiProperty({ enum: ['linked'] })
  status: 'linked';
}

export class WalletLinkedDto extends AccountLinkedDto {
  /** EIP-55. */
  wallet: string;
  tris_id: string;
}

export class UnlinkWalletDto {
  @IsWalletAddress()
  wallet: string;

  /** With `signature`: what a wallet that founded its TRIS signed, with the purpose `unlink`. */
  @IsOptional()
  @IsString()
  @MaxLength(MAX_MESSAGE_LENGTH)
  message?: string;

  /** The signature, `0x` and hexadecimal digits. */
  @IsOptional()
  @IsString()
  @MaxLength(MAX_SIGNATURE_LENGTH)
  @Matches(/^0x(?:[0-9A-Fa-f]{2})+$/)
  signature?: string;

  /** Why an operator ends a link that the wallet signed; recorded with it. */
  @IsOptional()
  @IsReasonCode()
  reason_code?: string;
}

export class EndSessionsDto {
  @IsWalletAddress()
  wallet: string;

  @IsReasonCode()
  reason_code: string;
}

export class WalletUnlinkedDto {
  /** The link has ended. */
  @ApiProperty({ enum: ['unlinked'] })
  status: 'unlinked';
  /** EIP-55. */
  wallet: string;
  tris_id: string;
}

export class WalletDto {
  /** EIP-55. */
  wallet: string;
  /** `signed` by the wallet, or `asserted` by an API key, which gives no rights. */
  @ApiProperty({ enum: LINK_PROOFS })
  proof: (typeof LINK_PROOFS)[number];
  /** The chain whose contract accepted the signature; null: signed by the key of the address, or not signed. */
  chain_id: number | null;
  linked_at: string;
}

export class WalletsDto {
  tris_id: string;
  /** The linked wallets, by address. */
  wallets: WalletDto[];
  next_cursor: string | null;
}
