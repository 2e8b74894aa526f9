import { Injectable } from '@nestjs/common';
import { keccak256 } from 'ethers/crypto';
import { hashMessage } from 'ethers/hash';
import { recover } from 'tiny-secp256k1';
import { Chains, notConfigured } from './chains.js';
import { Problem, type ProblemCode, fieldProblem } from '../../kernel/problems.js';
import type { Challenge } from './siwe.js';
import { Challenges } from './challenges.js';
import { acceptsSignature } from './contract-signature.js';
import { RpcFailure } from './json-rpc.js';

/** A type, not an interface: it is stored as JSON. @property signature `0x` and an even number of hex digits */
export type SignedMessage = { message: string; signature: string };

/** `0x` and hex digits. Large enough for a signature that also deploys its contract wallet (ERC-6492). */
export const MAX_SIGNATURE_LENGTH = 2 + 2 * 8_192;
/** Half the order of secp256k1. Both (r, s) and (r, n − s) are valid; Ethereum accepts only the lower s (EIP-2). */
const HALF_ORDER = Buffer.from('7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0', 'hex');
/** The last 32 bytes of an ERC-8010 signature. */
const ERC_8010 = '8010'.repeat(16);

/** Verifies signatures of messages (EIP-191): by recovering the key, or by asking the contract wallet on its chain. */
@Injectable()
export class Signatures {
  constructor(
    private readonly chains: Chains,
    private readonly challenges: Challenges,
  ) {}

  /**
   * Marks the challenge as used and verifies its signature.
   * @param signature `0x` and an even number of hex digits
   * @returns null if the key of the address signed, else the chain whose contract accepts the signature
   * @throws Problem nonce_used, siwe_signature*, siwe_no_contract, chain_not_configured; chain_unavailable, after which
   * the challenge may be used again
   */
  async judge(challenge: Challenge, signature: string): Promise<number | null> {
    const bytes = Buffer.from(signature.slice(2), 'hex');
    if (bytes.length === 64 && !this.chains.has(challenge.chain_id)) throw compact();
    // The library would decode its delegation, which anybody may have written.
    if (signature.endsWith(ERC_8010)) {
      throw no('siwe_signature', 'A signature that brings its own delegation (ERC-8010) is not accepted.');
    }
    const giveBack = await this.challenges.use(challenge);
    const hash = hashMessage(challenge.message);
    if (bytes.length === 65 && signerOf(hash, bytes) === challenge.address.toLowerCase()) {
      if (bytes.compare(HALF_ORDER, 0, 32, 32, 64) > 0) {
        throw no('siwe_signature_high_s', 'The s of the signature is in the upper half of the group order (EIP-2).');
      }
      return null;
    }
    try {
      return await this.askContract(challenge, hash, signature, bytes.length);
    } catch (error) {
      if (error instanceof Problem && error.code === 'chain_unavailable') await giveBack();
      throw error;
    }
  }

  /**
   * Whether a contract wallet still accepts the signature of a message, which it has accepted before: a node that
   * knows no contract there lags behind.
   * @throws Problem chain_not_configured, chain_unavailable
   */
  async stillAccepts(chainId: number, address: string, { message, signature }: SignedMessage): Promise<boolean> {
    const hash = hashMessage(message);
    return this.chains.ask(chainId, async (node) => {
      const isValid = await acceptsSignature(node, address, hash, signature);
      if (isValid === undefined) throw new RpcFailure('failed', `no contract answers at ${address} any more`);
      return isValid;
    });
  }

  private async askContract(challenge: Challenge, hash: string, signature: string, length: number): Promise<number> {
    const { address, chain_id } = challenge;
    if (!this.chains.has(chain_id)) {
      if (length !== 65) throw notConfigured(chain_id);
      const detail = `The signature is not by the key of ${address}. If that is a contract wallet: chain ${chain_id} is not configured here.`;
      throw no('siwe_signature', detail);
    }
    const isValid = await this.chains.ask(chain_id, (node) => acceptsSignature(node, address, hash, signature));
    if (isValid) return chain_id;
    if (isValid === false) throw no('siwe_signature', `The contract ${address} does not accept the signature.`);
    if (length === 64) throw compact();
    const detail = `The signature is not by the key of ${address}, and no contract answers there on chain ${chain_id}.`;
    throw no('siwe_no_contract', detail);
  }
}

/** The address whose key made a signature of 65 bytes, in lower case; undefined if no key can be recovered. */
function signerOf(hash: string, signature: Buffer): string | undefined {
  const v = signature[64]!;
  const recovery = v >= 27 ? v - 27 : v;
  if (recovery !== 0 && recovery !== 1) return undefined;
  try {
    const key = recover(Buffer.from(hash.slice(2), 'hex'), signature.subarray(0, 64), recovery, false);
    return key ? `0x${keccak256(key.subarray(1)).slice(-40)}` : undefined;
  } catch {
    return undefined; // r or s is not valid on the curve
  }
}

/** A contract may accept any 64 bytes; no key makes such a signature here. */
const compact = () =>
  no('siwe_signature_compact', 'Send the signature with 65 bytes: r, s and v. EIP-2098 is not accepted.');
const no = (code: ProblemCode, detail: string) => fieldProblem('/signature', code, detail);
