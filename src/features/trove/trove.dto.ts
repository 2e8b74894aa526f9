import { ed25519 as curve } from '@noble/curves/ed25519';
import { ApiProperty } from '@nestjs/swagger';
import { IsBoolean, IsIn, IsObject, IsOptional, IsString, IsUrl, Length, MaxLength } from 'class-validator';
import { getAddress } from 'ethers/address';
import type { IssuerContent } from './domain/issuer.js';
import { RECORD_ID, type Submission, TROVE_STATUSES, type TroveStatus } from './domain/record.js';
import { PageQuery } from '../../http/common.dto.js';
import {
  IsCriticality,
  IsHeldAddress,
  IsInt,
  IsMetric,
  IsNested,
  IsReasonCode,
  IsSha256,
  IsTimestamp,
  IsTrisId,
  IsWrittenPlatformId,
  IsWrittenTrisId,
  Matches,
} from '../../http/fields.js';
import { notInTheFuture } from '../../http/times.js';
import { type FieldError, refusal, refusalOf } from '../../kernel/problems.js';
import { CRITICALITIES } from '../../scoring/model.js';
import { canonicalMetric, criticalityOf } from '../../scoring/names.js';
import { DECISION_METHODS, RECORD_TYPES, type RecordProof } from './domain/trove.events.js';

const ISSUER_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/;
const ISSUER_MESSAGE = '$property must be 1 to 64 lower-case letters, digits or ._-, starting with a letter or digit';
const BYTES_32 = /^0x[0-9a-f]{64}$/;
const ADDRESS = /^0x[0-9a-fA-F]{40}$/;

/** EIP-712 domain of an attestation. */
export class AttestationDomainDto {
  @IsIn(['EAS Attestation'])
  name: string;

  @IsString()
  @Length(1, 20)
  version: string;

  @IsInt(1, Number.MAX_SAFE_INTEGER)
  chainId: number;

  /** The contract of the EIP-712 domain. */
  @Matches(ADDRESS)
  verifyingContract: string;
}

/** An off-chain EAS attestation, version 2. Times in seconds since the epoch. */
export class AttestationMessageDto {
  /** The version of off-chain attestations. */
  @IsIn([2])
  version: number;

  /** The UID of the schema, 32 bytes as hex. */
  @Matches(BYTES_32)
  schema: string;

  /** The address that the attestation is about. */
  @Matches(ADDRESS)
  recipient: string;

  @IsInt(0, Number.MAX_SAFE_INTEGER)
  time: number;

  /** 0: does not expire. */
  @IsInt(0, Number.MAX_SAFE_INTEGER)
  expirationTime: number;

  /** Whether the attestation can be revoked. */
  @IsBoolean()
  revocable: boolean;

  /** The UID of a related attestation; zeros: none. */
  @Matches(BYTES_32)
  refUID: string;

  /** ABI-encoded values of the schema. */
  @Matches(/^0x(?:[0-9a-f]{2}){32,4096}$/, {
    message: '$property must be 0x and 32 to 4096 bytes in lower-case hexadecimal digits',
  })
  data: string;

  /** 32 bytes that make the attestation unique. */
  @Matches(BYTES_32)
  salt: string;
}

export class AttestationDto {
  @IsNested(() => AttestationDomainDto)
  domain: AttestationDomainDto;

  /** The attested content. */
  @IsNested(() => AttestationMessageDto)
  message: AttestationMessageDto;
}

/** An issuer's proof of a record. */
export class RecordProofDto {
  /** `signature`: over the record's statement; `eas`: an off-chain attestation. */
  @IsIn(['signature', 'eas'])
  type: 'signature' | 'eas';

  /** Id of a registered issuer. */
  @Matches(ISSUER_ID, { message: ISSUER_MESSAGE })
  issuer: string;

  /** Ed25519: 64 bytes as base64url. Ethereum: 65 bytes as hex after 0x. */
  @Matches(/^(?:[A-Za-z0-9_-]{86}|0x[0-9a-f]{130})$/, {
    message:
      '$property must be 64 bytes as base64url without padding, or 0x and 65 bytes in lower-case hexadecimal digits',
  })
  signature: string;

  /** Required for `eas`, not allowed for `signature`. */
  @IsOptional()
  @IsObject()
  @IsNested(() => AttestationDto)
  attestation?: AttestationDto;
}

/** A verifiable record: a project milestone, an activity, or the behavior of an AI agent (requirement 34). */
export class SubmitRecordDto {
  /** Identity the record is about. */
  @IsWrittenTrisId()
  tris_id: string;

  @IsIn(RECORD_TYPES)
  record_type: (typeof RECORD_TYPES)[number];

  /** Metric that it counts for once approved; the suffix `_flags` makes it negative evidence. */
  @IsMetric()
  metric: string;

  @IsCriticality()
  criticality: string;

  /** Title for human readers. The log contains only its SHA-256. */
  @Matches(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u, {
    message: 'title must have no control, bidirectional or invisible characters',
  })
  @IsString()
  @Length(1, 200)
  // Linters read patterns without Unicode properties.
  @ApiProperty({ pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' })
  title: string;

  /** SHA-256 of the content. The same content of the same submitter is the same record. */
  @IsSha256()
  content_hash: string;

  /** Location of the content. The log contains only its SHA-256. */
  @IsOptional()
  @Matches(/^[!-~]+$/, { message: 'uri must be a URI, RFC 3986: printable ASCII without spaces' })
  @MaxLength(2000)
  @IsUrl({ protocols: ['https', 'http', 'ipfs', 'ar'], require_protocol: true, require_tld: false })
  uri?: string;

  /** When it happened; at most a minute ahead of the server's clock. */
  @IsTimestamp()
  occurred_at: string;

  /** The agent; required for ai_behavior records, not allowed for others. */
  @IsOptional()
  @IsWrittenPlatformId()
  agent_id?: string;

  /** TRIS of the agent's operator; required for ai_behavior records, not allowed for others. */
  @IsOptional()
  @IsWrittenTrisId()
  operator_tris?: string;

  /** A record without a proof is decided by a reviewer. */
  @IsOptional()
  @IsObject()
  @IsNested(() => RecordProofDto)
  proof?: RecordProofDto;
}

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

export class RecordParams {
  /** The id of a record. */
  @Matches(RECORD_ID, { message: '$property must be the id of a record' })
  record_id: string;
}

export class RecordsQuery extends PageQuery {
  /** Only records about this identity. */
  @IsOptional()
  @IsTrisId()
  tris_id?: string;

  /** Only records in this state. */
  @IsOptional()
  @IsIn(TROVE_STATUSES)
  status?: TroveStatus;
}

export class ReviewRecordDto {
  /**
   * `lift` ends a rejection by an operator, and needs an operator's key: the record is then decided again. `revoke` makes
   * the reviewer's approval a rejection, and withdraws its action.
   */
  @IsIn(['approve', 'reject', 'lift', 'revoke'])
  decision: 'approve' | 'reject' | 'lift' | 'revoke';

  /**
   * Required to reject or revoke. A code of lower-case letters, digits and underscores; no free text, since the log cannot
   * be edited. To revoke, one of the reasons for which an action is withdrawn, such as `mistake`.
   */
  @IsOptional()
  @IsReasonCode()
  reason_code?: string;

  /** Platform whose action an approved record becomes: its owner endorses the identity. Default `trove`. */
  @IsOptional()
  @IsWrittenPlatformId()
  platform_id?: string;
}

export class SubmittedRecordDto {
  /** The content hash; of an organization's record followed by `-` and 16 hexadecimal digits. */
  record_id: string;
  /** The state of the record. */
  @ApiProperty({ enum: TROVE_STATUSES })
  status: TroveStatus;
}

export class RecordDecisionDto {
  /** How the record was decided. */
  @ApiProperty({ enum: DECISION_METHODS })
  method: string;
  /** An issuer's id, or `key:<id>` of the reviewer. */
  decided_by: string;
  reason_code: string | null;
  decided_at: string;
  /** Id of the action it became. */
  action_id: string | null;
  /** Platform of the action. */
  platform_id: string | null;
}

/** The decision of an organization. */
export class RecordReviewDto extends RecordDecisionDto {
  organization: string;
  /** Whether it approved the record. */
  approved: boolean;
}

export class OfferedProofDto {
  /** The kind of proof. */
  @ApiProperty({ enum: ['signature', 'eas'] })
  type: string;
  /** The id of the issuer that signed. */
  issuer: string;
}

export class RecordDto extends SubmittedRecordDto {
  tris_id: string;
  @ApiProperty({ enum: RECORD_TYPES })
  record_type: string;
  metric: string;
  /** The criticality of the record. */
  @ApiProperty({ enum: CRITICALITIES })
  criticality: string;
  /** null after it was deleted. */
  title: string | null;
  content_hash: string;
  uri: string | null;
  occurred_at: string;
  submitted_at: string;
  /** The AI agent; null for other records. */
  agent_id: string | null;
  /** The TRIS id of the agent’s operator; null for other records. */
  operator_tris: string | null;
  /** The proof that the record came with; null: without a proof. */
  proof: OfferedProofDto | null;
  /** The organization that submitted it; null: an operator. */
  submitter: string | null;
  /** The first approval, or the rejection by an operator or for the proof; null: pending. */
  decision: RecordDecisionDto | null;
  /** Those of organizations, each for its own platforms. */
  reviews: RecordReviewDto[];
  /** The text that an issuer signs: canonical JSON, RFC 8785. */
  statement: string;
}

export class RecordsDto {
  /** The records, in order of submission. */
  records: RecordDto[];
  next_cursor: string | null;
}

/** The EIP-712 domain of an issuer's attestations. */
export class EasDomainDto {
  @IsInt(1, Number.MAX_SAFE_INTEGER)
  chain_id: number;

  /** In lower case, or with a correct EIP-55 checksum. */
  @IsHeldAddress()
  verifying_contract: string;
}

/** An issuer whose proofs are trusted. It has exactly one of the two keys. */
export class RegisterIssuerDto {
  @Matches(ISSUER_ID, { message: ISSUER_MESSAGE })
  issuer_id: string;

  /** Records it proves count as actions of this platform: its owner endorses the identity. */
  @IsWrittenPlatformId()
  platform_id: string;

  /** Public key: 32 bytes as base64url. */
  @IsOptional()
  @Matches(/^[A-Za-z0-9_-]{43}$/, { message: '$property must be 32 bytes as base64url without padding' })
  ed25519?: string;

  /** Ethereum address: in lower case, or with a correct EIP-55 checksum. */
  @IsOptional()
  @IsHeldAddress()
  address?: string;

  /** Only with `address`: attestations of other domains are refused. Default: any domain is accepted. */
  @IsOptional()
  @IsObject()
  @IsNested(() => EasDomainDto)
  eas_domain?: EasDomainDto;
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

export class IssuerParams {
  @Matches(ISSUER_ID, { message: ISSUER_MESSAGE })
  issuer_id: string;
}

export class IssuerDto {
  issuer_id: string;
  platform_id: string;
  /** The public key, 32 bytes as base64url; null if it has an address. */
  ed25519: string | null;
  /** The Ethereum address; null if it has an Ed25519 key. */
  address: string | null;
  /** null: attestations of any domain are accepted. */
  eas_domain: EasDomainDto | null;
  retired: boolean;
}
