import { Inject, Injectable } from '@nestjs/common';
import { getAddress } from 'ethers/address';
import { keccak256 } from 'ethers/crypto';
import { TypedDataEncoder, id as hashOfText } from 'ethers/hash';
import { type IssuerKey, issuerKeys } from '../../credentials/issuer-keys.js';
import type { KeyRing } from '../../credentials/key-file.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Config } from '../../kernel/config.js';
import { Logger } from '../../kernel/logger.js';
import type { AccessDecision } from './domain/ap.events.js';
import type { VoucherDto, VoucherIssuersDto } from './eligibility.dto.js';

/** EIP-712 domain and types that `contracts/EligibilityVerifier.sol` verifies, without chain and contract. */
const VOUCHER_DOMAIN = { name: 'Credence', version: '1' } as const;
const VOUCHER_TYPES = {
  Voucher: [
    { name: 'jti', type: 'bytes16' },
    { name: 'wallet', type: 'address' },
    { name: 'subject', type: 'bytes32' },
    { name: 'policy', type: 'bytes32' },
    { name: 'policyHash', type: 'bytes32' },
    { name: 'audience', type: 'bytes32' },
    { name: 'expiresAt', type: 'uint64' },
  ],
};

/** Kept, since creating an encoder takes longer than using it. */
const ENCODER = TypedDataEncoder.from(VOUCHER_TYPES);
/** Replaces the hash of the audience if there is none. */
const NOBODY = `0x${'0'.repeat(64)}`;

/** Signs the decisions of access checks for contracts. */
@Injectable()
export class Vouchers {
  /** undefined: none are signed here. */
  readonly keys: KeyRing<IssuerKey> | undefined;

  constructor(@Inject(Config) config: Config, logger: Logger, @Inject(CLOCK) clock: Clock) {
    this.keys = issuerKeys(config, logger, clock);
  }

  issuers(): VoucherIssuersDto {
    const keys = this.keys?.list() ?? [];
    const issuers = keys.map(({ kid: address, status, signs_from, prunable_from: ends_at }) => {
      return { address, status, signs_from, ends_at };
    });
    return { issuers, domain: VOUCHER_DOMAIN, primary_type: 'Voucher', types: VOUCHER_TYPES };
  }

  /**
   * The voucher of a decision, always the same bytes. null if the decision did not grant, if no voucher was requested,
   * or if the key has been pruned, which is done only after its last voucher has expired.
   */
  sign(decision: AccessDecision): VoucherDto | null {
    const { wallet, chain_id, verifying_contract, voucher_issuer, exp, audience } = decision;
    if (wallet === null || chain_id === null || verifying_contract === null) return null;
    const key = voucher_issuer === null ? undefined : this.keys?.signer(voucher_issuer);
    if (!key || exp === null) return null;
    const domain = { ...VOUCHER_DOMAIN, chainId: chain_id, verifyingContract: getAddress(verifying_contract) };
    const message = {
      jti: `0x${decision.jti.replaceAll('-', '')}`,
      wallet: getAddress(wallet),
      subject: hashOfText(decision.subject_tris),
      policy: hashOfText(decision.policy_id),
      policyHash: `0x${decision.policy_hash}`,
      audience: audience === null ? NOBODY : hashOfText(audience),
      expiresAt: exp,
    };
    const parts = ['0x1901', TypedDataEncoder.hashDomain(domain), ENCODER.hash(message)];
    const digest = keccak256(`0x${parts.map((part) => part.slice(2)).join('')}`);
    return { domain, message, signature: key.sign!(Buffer.from(digest.slice(2), 'hex')) };
  }
}
