import { ApiProperty } from '@nestjs/swagger';
import { IsWrittenTrisId, IsWalletAddress } from '../../http/fields.js';
import { LINK_PROOFS } from './domain/wallets.events.js';

export class LinkAccountDto {
  @IsWalletAddress()
  wallet: string;

  @IsWrittenTrisId()
  tris_id: string;
}

export class AccountLinkedDto {
  @ApiProperty({ enum: ['linked'] })
  status: 'linked';
}

export class WalletLinkedDto {
  @ApiProperty({ enum: ['linked'] })
  status: 'linked';
  /** EIP-55. */
  wallet: string;
  tris_id: string;
}

export class UnlinkWalletDto {
  @IsWalletAddress()
  wallet: string;
}

export class WalletUnlinkedDto {
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
  @ApiProperty({ type: Number, nullable: true })
  chain_id: number | null;
  linked_at: string;
}

export class WalletsDto {
  tris_id: string;
  @ApiProperty({ type: [WalletDto] })
  wallets: WalletDto[];
  @ApiProperty({ type: String, nullable: true })
  next_cursor: string | null;
}
