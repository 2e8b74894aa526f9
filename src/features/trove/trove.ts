import { type TroveRecord, evolve } from '../../../projections/trove.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { type Fact, fact } from '../../commands/writer.js';
import { decodeStream } from '../../../projections/events.js';
import { canonicalJson, sha256Hex } from '../../kernel/hash.js';
import { Problem } from '../../kernel/problems.js';
import { actionRelayed } from '../relay/relay.events.js';
import { decide as decideRelay } from '../relay/relay.js';
import type { Category, Criticality } from '../../scoring/model.js';
import {
  type DECISION_METHODS,
  type RECORD_TYPES,
  type RecordProof,
  troveProofSubmitted,
  troveRecordApproved,
  troveRecordRejected,
  troveRecordSubmitted,
} from './trove.events.js';

/** A record as submitted and validated: names canonical, the time in ms. */
export interface Submission {
  tris_id: string;
  record_type: (typeof RECORD_TYPES)[number];
  metric: string;
  criticality: Criticality;
  title: string;
  /** SHA-256 of the content, hex: the record's id. */
  content_hash: string;
  uri: string | null;
  occurred_at: number;
  agent_id: string | null;
  operator_tris: string | null;
  proof: RecordProof | null;
}

/** What was decided about a record, and by whom. `platform_id`: whose action an approved record counts as. */
export interface Decision {
  outcome: { approved: true; platform_id: string } | { approved: false; reason_code: string };
  method: (typeof DECISION_METHODS)[number];
  decided_by: string;
}

/** Platform of records that a reviewer approves without naming one of the own organization's. */
export const TROVE_PLATFORM = 'trove';

export function troveStream(contentHash: string): string {
  return `trove-${contentHash}`;
}

/** Folds a `trove-<content hash>` stream. @throws Problem history_unreadable */
export function troveRecordOf(history: readonly RecordedEvent[]): TroveRecord | undefined {
  return decodeStream(history).reduce(evolve, undefined as TroveRecord | undefined);
}

/**
 * What an issuer signs: canonical JSON (RFC 8785) of everything a record says, free text left out, times in ISO 8601.
 * The agent and its operator are members of an ai_behavior record only.
 */
export function statementOf(
  record: Pick<
    TroveRecord,
    'tris_id' | 'record_type' | 'metric' | 'criticality' | 'content_hash' | 'occurred_at' | 'agent_id' | 'operator_tris'
  >,
): string {
  const { tris_id, record_type, metric, criticality, content_hash, agent_id, operator_tris } = record;
  const occurred_at = new Date(record.occurred_at).toISOString();
  const agent = agent_id === null ? {} : { agent_id, operator_tris };
  return canonicalJson({ tris_id, record_type, metric, criticality, content_hash, occurred_at, ...agent });
}

/**
 * The same content is the same record: submitted again it changes nothing, but may bring a proof where there is none or
 * the last one failed.
 * @throws Problem record_conflict if the content was submitted as another record
 */
export function decideSubmit(record: TroveRecord | undefined, submission: Submission): Fact[] {
  const { title, uri, occurred_at, proof, ...data } = submission;
  const title_hash = sha256Hex(title);
  const uri_hash = uri === null ? null : sha256Hex(uri);
  if (!record) return [fact(troveRecordSubmitted, { ...data, title_hash, uri_hash, proof: json(proof) }, occurred_at)];
  const same =
    statementOf(record) === statementOf(submission) && record.title_hash === title_hash && record.uri_hash === uri_hash;
  if (!same) {
    throw new Problem('record_conflict', 'This content was submitted before as a record with other fields.', {
      errors: [{ pointer: '/content_hash', code: 'record_conflict', message: 'is of a record with other fields' }],
    });
  }
  const isNews = proof !== null && (record.proof === null || canonicalJson(proof) !== canonicalJson(record.proof));
  if (!isNews || record.status === 'Approved') return [];
  const { content_hash, tris_id } = record;
  return [fact(troveProofSubmitted, { content_hash, tris_id, proof: json(proof) })];
}

/** Whose action the approved record of a stream became. */
function platformOf(history: readonly RecordedEvent[]): unknown {
  return history.find(({ type }) => type === actionRelayed.type)?.data['platform_id'];
}

/** A proof is JSON all through. */
const json = <T extends RecordProof | null>(proof: T) => proof as T & null;

/**
 * A decision on the pending record of a stream. An approved record becomes an action and, unless it flags or the endorser
 * is the identity itself, a credonation: in the same append, so never one without the other.
 * @param owner TRIS of the organization that owns the platform, or null
 * @throws Problem record_decided unless the decision stands already
 */
export function decideRecord(history: readonly RecordedEvent[], decision: Decision, owner: string | null): Fact[] {
  const record = troveRecordOf(history)!;
  const { content_hash, tris_id } = record;
  const { method, decided_by, outcome } = decision;
  if (record.status !== 'Pending') {
    const stands =
      record.status === (outcome.approved ? 'Approved' : 'Rejected') &&
      record.decision?.decided_by === decided_by &&
      (outcome.approved
        ? platformOf(history) === outcome.platform_id
        : record.decision.reason_code === outcome.reason_code);
    if (stands) return [];
    throw new Problem('record_decided', `The record is ${record.status} already.`);
  }
  const about = { content_hash, tris_id, method, decided_by };
  if (!outcome.approved) return [fact(troveRecordRejected, { ...about, reason_code: outcome.reason_code })];
  const split = record.metric.indexOf('_');
  const action = {
    tris_id,
    category: record.metric.slice(0, split) as Category,
    action_type: record.metric.slice(split + 1),
    criticality: record.criticality,
    platform_id: outcome.platform_id,
    occurred_at: record.occurred_at,
    external_id: null,
    evidence_uri: null,
  };
  const [relayed, ...credonation] = decideRelay(action, owner);
  return [
    fact(troveRecordApproved, about),
    { ...relayed!, data: { ...relayed!.data, evidence_hash: content_hash } },
    ...credonation,
  ];
}
