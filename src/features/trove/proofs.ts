import { createPublicKey, verify } from 'node:crypto';
import { keccak256 } from 'ethers/crypto';
import { TypedDataEncoder, hashMessage, solidityPacked } from 'ethers/hash';
import { recoverAddress } from 'ethers/transaction';
import { CLOCK_SKEW_MS } from '../../kernel/clock.js';
import type { Issuer } from './domain/issuer.js';
import { statementOf, type TroveRecord } from './domain/record.js';
import type { RecordProof } from './domain/trove.events.js';

/**
 * The schema that an EAS attestation must use: the record's statement as ABI values, the time in ms since the epoch,
 * agent and operator empty for other record types. The schema UID is computed from this text, without a resolver.
 */
export const EAS_SCHEMA =
  'string tris_id,string record_type,string metric,string criticality,bytes32 content_hash,uint64 occurred_at,string agent_id,string operator_tris';

const EAS_TYPES = EAS_SCHEMA.split(',').map((field) => field.slice(0, field.indexOf(' ')));
const ZERO_ADDRESS = `0x${'0'.repeat(40)}`;

/** Version 2 of EAS's off-chain attestations: EIP-712 over this type. */
const ATTEST = [
  { name: 'version', type: 'uint16' },
  { name: 'schema', type: 'bytes32' },
  { name: 'recipient', type: 'address' },
  { name: 'time', type: 'uint64' },
  { name: 'expirationTime', type: 'uint64' },
  { name: 'revocable', type: 'bool' },
  { name: 'refUID', type: 'bytes32' },
  { name: 'data', type: 'bytes' },
  { name: 'salt', type: 'bytes32' },
];

/**
 * Checks a record's proof against the issuer it names.
 * @returns null if it holds, else the reason code of the rejection
 */
export async function failureOf(
  record: TroveRecord,
  proof: RecordProof,
  issuer: Issuer,
  now: number,
): Promise<string | null> {
  if (issuer.retired) return 'issuer_retired';
  if (proof.type === 'eas') return easFailure(record, proof, issuer, now);
  const statement = statementOf(record);
  if (issuer.ed25519 !== null) {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: issuer.ed25519 }, format: 'jwk' });
    const signature = Buffer.from(proof.signature, 'base64url');
    return verify(null, Buffer.from(statement), key, signature) ? null : 'signature_invalid';
  }
  const signer = signerOf(() => hashMessage(statement), proof.signature);
  return signer === issuer.address ? null : 'signature_invalid';
}

/** The address whose key signed; undefined if the signature or the signed data is invalid. */
function signerOf(hash: () => string, signature: string): string | undefined {
  try {
    return recoverAddress(hash(), signature);
  } catch {
    return undefined;
  }
}

async function easFailure(
  record: TroveRecord,
  { attestation, signature }: RecordProof,
  { address, eas_domain }: Issuer,
  now: number,
) {
  if (attestation === null || address === null) return 'proof_kind_mismatch';
  const { domain, message } = attestation;
  const signer = signerOf(() => TypedDataEncoder.hash(domain, { Attest: ATTEST }, message), signature);
  if (signer !== address) return 'signature_invalid';
  const contract = String(domain['verifyingContract']).toLowerCase();
  const isOwn =
    eas_domain === null ||
    (domain['chainId'] === eas_domain.chain_id && contract === eas_domain.verifying_contract.toLowerCase());
  if (!isOwn) return 'attestation_domain_unknown';
  const uid = solidityPacked(['string', 'address', 'bool'], [EAS_SCHEMA, ZERO_ADDRESS, message['revocable'] === true]);
  if (message['schema'] !== keccak256(uid)) return 'attestation_schema_unknown';
  const [attested, expires] = [Number(message['time']), Number(message['expirationTime'])];
  if (attested > (now + CLOCK_SKEW_MS) / 1000) return 'attestation_in_the_future';
  if (expires !== 0 && expires <= now / 1000) return 'attestation_expired';
  const abi = (await import('ethers/abi')).AbiCoder.defaultAbiCoder(); // loaded when first needed
  try {
    const [tris_id, record_type, metric, criticality, content, occurredAt, agent, operator] = abi.decode(
      EAS_TYPES,
      message['data'] as string,
    ) as unknown as [string, string, string, string, string, bigint, string, string];
    const fields = { tris_id, record_type, metric, criticality, content_hash: content.slice(2) };
    const agency = { agent_id: agent || null, operator_tris: operator || null };
    const stated = statementOf({ ...fields, ...agency, occurred_at: Number(occurredAt) } as TroveRecord);
    return stated === statementOf(record) ? null : 'attests_another_record';
  } catch {
    return 'attestation_unreadable';
  }
}
