import {
  type Decoded,
  defineEvent,
  nullable,
  oneOf,
  shaped,
  text,
  wholeNumber,
} from '../../../kernel/event-definition.js';
import type { JsonObject } from '../../../kernel/json.js';
import { CRITICALITIES } from '../../../scoring/model.js';
import { REASONS } from '../../relay/domain/relay.events.js';

export const RECORD_TYPES = ['milestone', 'activity', 'ai_behavior'] as const;
export const DECISION_METHODS = ['signature', 'attestation', 'review'] as const;

type Attested = Record<string, string | number | boolean>;
/** An issuer's signature over the record's statement, or a signed off-chain EAS attestation. */
const proof = shaped({
  type: oneOf(['signature', 'eas']),
  issuer: text,
  /** `signature`: Ed25519 as base64url, or secp256k1 (EIP-191) as hex. */
  signature: text,
  /** `eas`: the signed domain and message; null otherwise. */
  attestation: (value: unknown): value is { domain: Attested; message: Attested } | null => typeof value === 'object',
});

/** Older events, without an organization: every record and review in them is the operators'. */
const before = (field: 'submitter' | 'reviewer') => ({
  schema: 2,
  upcasters: { 1: (data: JsonObject) => ({ ...data, [field]: null }) },
});

/** A record about an identity was submitted. Stream `trove-<record id>`, revision 0. Its time is in the metadata. */
const submitted = {
  content_hash: text,
  /** The organization whose key submitted it; null: an operator's key. */
  submitter: nullable(text),
  tris_id: text,
  record_type: oneOf(RECORD_TYPES),
  /** Canonical, `<category>_<name>`. */
  metric: text,
  criticality: oneOf(CRITICALITIES),
  /** SHA-256 of the title and of the URI, which are stored in a deletable side table (docs/decisions/0010). */
  title_hash: text,
  uri_hash: nullable(text),
  /** Only for ai_behavior records: the agent and the TRIS of its operator. */
  agent_id: nullable(text),
  operator_tris: nullable(text),
  proof: nullable(proof),
};
export const troveRecordSubmitted = defineEvent('TroveRecordSubmitted', submitted, before('submitter'));
/** A proof for a record that has none or whose last proof failed. Same stream. */
export const troveProofSubmitted = defineEvent('TroveProofSubmitted', { content_hash: text, tris_id: text, proof });
export type RecordProof = Decoded<typeof troveProofSubmitted>['data']['proof'];
/** Same stream, in one append with the ActionRelayed and CredonationRecorded that follow from it. */
const decided = {
  content_hash: text,
  tris_id: text,
  method: oneOf(DECISION_METHODS),
  /** The issuer's id, or `key:<id>` of the reviewer. */
  decided_by: text,
  /** The organization for whose platforms alone it counts; null: a proof, or an operator. */
  reviewer: nullable(text),
};
export const troveRecordApproved = defineEvent('TroveRecordApproved', decided, before('reviewer'));
export const troveRecordRejected = defineEvent(
  'TroveRecordRejected',
  { ...decided, reason_code: text },
  before('reviewer'),
);

/**
 * A reviewer took an approval back, which is a rejection from then on. Same stream, in one append with the withdrawal of
 * the action, unless that is withdrawn already.
 */
export const troveRecordRevoked = defineEvent('TroveRecordRevoked', {
  content_hash: text,
  tris_id: text,
  /** The action that the approval became. */
  action_id: text,
  /** `key:<id>` of the reviewer. */
  decided_by: text,
  /** The reviewer's organization; null: an operator, also of an approval by a proof. */
  reviewer: nullable(text),
  reason: oneOf(REASONS),
});

/** An operator lifted an operator's rejection: the record is decided again. Same stream. */
export const troveRejectionLifted = defineEvent('TroveRejectionLifted', {
  content_hash: text,
  tris_id: text,
  /** `key:<id>` of the operator. */
  lifted_by: text,
});

/**
 * The content counts for the identity on a platform, by this record: submitting it again gains nothing. Stream
 * `trove-counted-<hash>`, before the approval. The last one holds: there is another one only if the record before it was
 * rejected instead.
 */
export const troveContentCounted = defineEvent('TroveContentCounted', {
  content_hash: text,
  tris_id: text,
  platform_id: text,
  record_id: text,
});

/** The EIP-712 domain of an issuer's attestations. The address has an EIP-55 checksum. */
const easDomain = shaped({ chain_id: wholeNumber(0, Number.MAX_SAFE_INTEGER), verifying_contract: text });

/** An issuer whose proofs are trusted. Exactly one of the two keys is set. Stream `issuer-<id>`. */
export const issuerRegistered = defineEvent(
  'IssuerRegistered',
  {
    issuer_id: text,
    /** Approved records count as actions of this platform; its owner endorses the identity. */
    platform_id: text,
    /** Public key, 32 bytes as base64url. */
    ed25519: nullable(text),
    /** Ethereum address with EIP-55 checksum. */
    address: nullable(text),
    /** Only attestations of this domain are accepted. null: of any. */
    eas_domain: nullable(easDomain),
  },
  // Schema 1 had no domain. A build that does not know it must not accept attestations of others.
  { schema: 2, upcasters: { 1: (data) => ({ ...data, eas_domain: null }) } },
);
export const issuerRetired = defineEvent('IssuerRetired', { issuer_id: text });
