import { ed25519 as curve } from '@noble/curves/ed25519';
import { getAddress } from 'ethers/address';
import { notInTheFuture } from '../../http/times.js';
import { type FieldError, refusal, refusalOf } from '../../kernel/problems.js';
import { canonicalMetric, criticalityOf } from '../../scoring/names.js';
import type { Submission } from './domain/record.js';
import type { IssuerContent } from './domain/issuer.js';
import type { RecordProofDto, RegisterIssuerDto, SubmitRecordDto } from './trove.dto.js';
import type { RecordProof } from './domain/trove.events.js';

/** Converts a request body to canonical terms. @throws Problem validation_failed if fields contradict each other */
export function toSubmission(body: SubmitRecordDto, submitter: string | null, now: number): Submission {
  const { tris_id, record_type, metric, criticality, title, content_hash, uri, agent_id, operator_tris, proof } = body;
  const errors: FieldError[] = [];
  for (const [field, value] of Object.entries({ agent_id, operator_tris })) {
    if (record_type === 'ai_behavior' && value === undefined) {
      const message = `${field} is missing: an ai_behavior record must name the agent and the TRIS of its operator`;
      errors.push({ pointer: `/${field}`, code: 'required', message });
    } else if (record_type !== 'ai_behavior' && value !== undefined) {
      const message = `${field} is only allowed for ai_behavior records; this record has the type ${record_type}`;
      errors.push({ pointer: `/${field}`, code: 'not_of_this_type', message });
    }
  }
  if (proof?.type === 'eas' && !proof.attestation) {
    const message = 'attestation is missing: a proof of type eas requires it';
    errors.push({ pointer: '/proof/attestation', code: 'required', message });
  }
  if (proof?.type === 'signature' && proof.attestation) {
    const message = 'attestation is only allowed for proofs of type eas';
    errors.push({ pointer: '/proof/attestation', code: 'not_of_this_type', message });
  }
  if (errors.length > 0) throw refusal(errors);
  return {
    tris_id,
    record_type,
    metric: canonicalMetric(metric)!,
    criticality: criticalityOf(criticality)!,
    title,
    content_hash,
    uri: uri ?? null,
    occurred_at: notInTheFuture(body.occurred_at, now),
    agent_id: agent_id ?? null,
    operator_tris: operator_tris ?? null,
    proof: proof ? toProof(proof) : null,
    submitter,
  };
}

function toProof({ type, issuer, signature, attestation }: RecordProofDto): RecordProof {
  const stored = attestation && { domain: { ...attestation.domain }, message: { ...attestation.message } };
  return { type, issuer, signature, attestation: stored ?? null };
}

/** @throws Problem validation_failed unless it has exactly one key, and that is valid */
export function toIssuer({ issuer_id, platform_id, ed25519, address, eas_domain }: RegisterIssuerDto): IssuerContent {
  if ((ed25519 === undefined) === (address === undefined)) {
    throw refusalOf('', 'one_key', 'an issuer must have either an ed25519 key or an Ethereum address');
  }
  if (ed25519 !== undefined && Buffer.from(ed25519, 'base64url').toString('base64url') !== ed25519) {
    throw refusalOf('/ed25519', 'base64url', 'ed25519 must be canonical base64url: the last two bits are zero');
  }
  if (ed25519 !== undefined && !isUsableKey(ed25519)) {
    throw refusalOf('/ed25519', 'weak_key', 'ed25519 must be a point of the curve that is not of small order');
  }
  if (address === undefined && eas_domain !== undefined) {
    throw refusalOf('/eas_domain', 'not_of_this_type', 'eas_domain is only allowed with an Ethereum address');
  }
  if (address === undefined) return { issuer_id, platform_id, ed25519: ed25519!, address: null };
  const issuer = { issuer_id, platform_id, ed25519: null, address: getAddress(address.toLowerCase()) };
  if (eas_domain === undefined) return issuer;
  const verifying_contract = getAddress(eas_domain.verifying_contract.toLowerCase());
  return { ...issuer, eas_domain: { chain_id: eas_domain.chain_id, verifying_contract } };
}

/** Under a key of small order a signature is valid for many messages (RFC 8032 leaves the check to the caller). */
function isUsableKey(key: string): boolean {
  try {
    return !curve.Point.fromHex(Buffer.from(key, 'base64url').toString('hex')).isSmallOrder();
  } catch {
    return false;
  }
}
