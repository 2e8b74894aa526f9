import { ApiProperty } from '@nestjs/swagger';
import { type Scope, SCOPES } from '../../credentials/caller.js';
import { WalletDto } from '../accounts/wallets.dto.js';
import { BadStatusSinceDto, VerificationDto } from '../disc/disc.dto.js';
import { DisputedDto } from '../disputes/disputes.dto.js';

/** The session of a request. */
export class OwnSessionDto {
  /** EIP-55. */
  wallet: string;
  /** The chain of the contract wallet that signed in; null: the key of the address did. */
  chain_id: number | null;
  /** When its access token expires. */
  expires_at: string;
}

/** An open dispute of a statement about the person; `GET /v1/disputes` says more. */
export class OwnDisputeDto extends DisputedDto {
  opened_at: string;
}

/** Who sends a request: a key, or a session, with whom it acts for and what is stated about them. */
export class MeDto {
  /** Of a session `session:<wallet>`. */
  key_id: string;
  /** What a key permits; empty for a session. */
  @ApiProperty({ type: 'array', items: { type: 'string', enum: [...SCOPES] } })
  scopes: Scope[];
  organization: string | null;
  /** The TRIS that the session may act for; empty if the wallet has signed for none. Only of a session, as all below. */
  tris_ids?: string[];
  /** Of this request. Sessions cannot be listed: of each, the service stores only what recognises its token. */
  session?: OwnSessionDto;
  /** Up to 100 of its wallets, by address; `GET /v1/wallets/:tris_id` lists all. */
  wallets?: WalletDto[];
  verification?: VerificationDto[];
  /** Absent without one. */
  bad_status?: BadStatusSinceDto;
  /** Those that are open. */
  disputes?: OwnDisputeDto[];
}
