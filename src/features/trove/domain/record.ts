import type { RecordedEvent } from '../../../kernel/event.js';
import { type Decoded, type Fact, fact, streamFold } from '../../../kernel/event-definition.js';
import { canonicalJson, sha256Hex } from '../../../kernel/hash.js';
import { Problem, fieldProblem } from '../../../kernel/problems.js';
import {
  type Reason,
  type Source,
  actionReinstated,
  actionRelayed,
  actionWithdrawn,
  credonationRecorded,
} from '../../relay/domain/relay.events.js';
import { decide as decideRelay, splitMetric } from '../../relay/domain/relay.js';
import { actionIn, decideChange } from '../../relay/domain/withdrawal.js';
import {
  type DECISION_METHODS,
  type RecordProof,
  troveProofSubmitted,
  troveRecordApproved,
  troveRecordRejected,
  troveRecordRevoked,
  troveRecordSubmitted,
  troveRejectionLifted,
} from './trove.events.js';

export const TROVE_STATUSES = ['Pending', 'Approved', 'Rejected'] as const;
export type TroveStatus = (typeof TROVE_STATUSES)[number];

/** A submitted record and its outcome. Times in ms. */
export interface TroveRecord extends Omit<Decoded<typeof troveRecordSubmitted>['data'], 'proof'> {
  /** The content's hash; of an organization's record also a part of the hash of its TRIS. */
  record_id: string;
  /** Position of its submission; lists are ordered by it. */
  position: number;
  occurred_at: number;
  submitted_at: number;
  /** Approved if anybody approved it, Rejected if its proof or an operator rejected it. */
  status: TroveStatus;
  /** The latest proof; its verification decides. */
  proof: RecordProof | null;
  /** Number of proofs submitted so far. */
  proofs: number;
  /** Number of times that a rejection by an operator was lifted. */
  lifted: number;
  /** One at most of each organization, and one of the operators or the proof. */
  rulings: Ruling[];
}

export interface Ruling {
  /** The organization; null: an operator, or the proof. */
  reviewer: string | null;
  approved: boolean;
  method: string;
  decided_by: string;
  reason_code: string | null;
  decided_at: number;
  /** The action it became, and its platform; null if rejected. */
  action_id: string | null;
  platform_id: string | null;
}

/** What an issuer signs of a record: its fields without free text. */
type Statement = Pick<
  TroveRecord,
  'tris_id' | 'record_type' | 'metric' | 'criticality' | 'content_hash' | 'occurred_at' | 'agent_id' | 'operator_tris'
>;

/** A record as submitted and validated: names canonical, the time in ms. */
export interface Submission extends Statement, Pick<TroveRecord, 'proof' | 'submitter'> {
  title: string;
  uri: string | null;
}

/** A decision about a record. `platform_id`: the platform whose action an approved record becomes. */
export interface Decision {
  outcome: { approved: true; platform_id: string; source: Source } | { approved: false; reason_code: string };
  method: (typeof DECISION_METHODS)[number];
  decided_by: string;
  /** The organization; null: an operator, or the proof. */
  reviewer: string | null;
}

/** Platform of records that a reviewer approves without naming a platform. */
export const TROVE_PLATFORM = 'trove';

const PREFIX = 'trove-';

/** @param submitter an organization; null: an operator, also for records from before submitters were recorded */
export const recordIdOf = (contentHash: string, submitter: string | null): string =>
  submitter === null ? contentHash : `${contentHash}-${sha256Hex(submitter).slice(0, 16)}`;
export const RECORD_ID = /^[0-9a-f]{64}(?:-[0-9a-f]{16})?$/;

export const troveStream = (recordId: string): string => `${PREFIX}${recordId}`;

/** Which record of a content counts for an identity on a platform. */
export const countedStream = ({ content_hash, tris_id }: TroveRecord, platformId: string): string =>
  `${PREFIX}counted-${sha256Hex(canonicalJson([content_hash, tris_id, platformId]))}`;

/** The decision that determines the status, if there is one. */
export const decisionOn = ({ rulings }: Pick<TroveRecord, 'rulings'>): Ruling | null =>
  rulings.find(({ approved }) => approved) ?? rulings.find(({ reviewer }) => reviewer === null) ?? null;

/** Whether an operator rejected the record. That stands until an operator lifts it, unlike a rejection for a proof. */
const isByOperator = ({ reviewer, approved, method }: Ruling): boolean =>
  reviewer === null && !approved && method === 'review';

/**
 * Whether a rejection or a proof has not been replaced since: a decision on the record as it was then would otherwise
 * count for a content whose place was given to another record meanwhile.
 */
export const isSameCase = (record: TroveRecord, then: TroveRecord): boolean =>
  record.proofs === then.proofs && record.lifted === then.lifted;

/** Whether its proof or an operator has decided it. */
export const isSettled = ({ rulings }: Pick<TroveRecord, 'rulings'>): boolean =>
  rulings.some(({ reviewer }) => reviewer === null);

const EVENTS = [
  troveRecordSubmitted,
  troveProofSubmitted,
  troveRecordApproved,
  troveRecordRejected,
  troveRecordRevoked,
  troveRejectionLifted,
  // An approval relays an action in the same append. That may be withdrawn, and the record stays approved.
  actionRelayed,
  credonationRecorded,
  actionWithdrawn,
  actionReinstated,
] as const;
export type TroveEvent = Decoded<(typeof EVENTS)[number]>;

/** Folds a `trove-<record id>` stream. @throws Problem history_unreadable */
export const troveRecordOf = streamFold(EVENTS, evolve);

/** The record after an event of its stream. The read model of records uses it too. */
export function evolve(record: TroveRecord | undefined, event: TroveEvent): TroveRecord | undefined {
  if (event.type === 'TroveRecordSubmitted') {
    const { proof, ...data } = event.data;
    return {
      ...data,
      record_id: event.stream.slice(PREFIX.length),
      position: event.position,
      occurred_at: event.occurred_at,
      submitted_at: event.recorded_at,
      status: 'Pending',
      proof,
      proofs: proof === null ? 0 : 1,
      lifted: 0,
      rulings: [],
    };
  }
  if (!record) return undefined;
  const { rulings } = record;
  switch (event.type) {
    case 'TroveProofSubmitted': {
      const standing = rulings.filter((ruling) => ruling.reviewer !== null || isByOperator(ruling));
      return ruled({ ...record, proof: event.data.proof, proofs: record.proofs + 1 }, standing);
    }
    case 'TroveRejectionLifted': {
      const standing = rulings.filter((ruling) => !isByOperator(ruling));
      return ruled({ ...record, lifted: record.lifted + 1 }, standing);
    }
    case 'TroveRecordApproved':
      return ruled(record, [...rulings, rulingOf(event, event.data.method, null)]);
    case 'TroveRecordRejected':
      return ruled(record, [...rulings, rulingOf(event, event.data.method, event.data.reason_code)]);
    case 'TroveRecordRevoked': {
      const others = rulings.filter(({ reviewer }) => reviewer !== event.data.reviewer);
      return ruled(record, [...others, rulingOf(event, 'review', event.data.reason)]);
    }
    case 'ActionRelayed': {
      // In the same append as the approval.
      const last = rulings.at(-1);
      if (!last) return record;
      const { platform_id } = event.data;
      return ruled(record, [...rulings.slice(0, -1), { ...last, action_id: event.id, platform_id }]);
    }
    case 'CredonationRecorded':
    case 'ActionWithdrawn':
    case 'ActionReinstated':
      return record;
    default:
      return event satisfies never;
  }
}

function ruled(record: TroveRecord, rulings: Ruling[]): TroveRecord {
  const decision = decisionOn({ rulings });
  return { ...record, rulings, status: decision === null ? 'Pending' : decision.approved ? 'Approved' : 'Rejected' };
}

/** @param reason_code null: an approval */
function rulingOf(
  { data, recorded_at }: { data: Pick<Ruling, 'reviewer' | 'decided_by'>; recorded_at: number },
  method: string,
  reason_code: string | null,
): Ruling {
  const { reviewer, decided_by } = data;
  const outcome = { reason_code, decided_at: recorded_at, action_id: null, platform_id: null };
  return { reviewer, approved: reason_code === null, method, decided_by, ...outcome };
}

/**
 * The text that an issuer signs: canonical JSON (RFC 8785) of the record's fields without free text, times in ISO 8601.
 * Only ai_behavior records contain the agent and its operator.
 */
export function statementOf(record: Statement): string {
  const { tris_id, record_type, metric, criticality, content_hash, agent_id, operator_tris } = record;
  const occurred_at = new Date(record.occurred_at).toISOString();
  const agent = agent_id === null ? {} : { agent_id, operator_tris };
  return canonicalJson({ tris_id, record_type, metric, criticality, content_hash, occurred_at, ...agent });
}

/**
 * The same content is the same record. Submitting it again changes nothing, but can add a proof if there is none or the
 * last one failed.
 * @throws Problem record_conflict if the content was submitted as another record; record_decided for another proof if an
 * operator rejected the record
 */
export function decideSubmit(record: TroveRecord | undefined, submission: Submission): Fact[] {
  const { title, uri, occurred_at, proof, ...data } = submission;
  const title_hash = sha256Hex(title);
  const uri_hash = uri === null ? null : sha256Hex(uri);
  if (!record) return [fact(troveRecordSubmitted, { ...data, title_hash, uri_hash, proof }, occurred_at)];
  const same =
    statementOf(record) === statementOf(submission) && record.title_hash === title_hash && record.uri_hash === uri_hash;
  if (!same) {
    const detail = 'This content was already submitted as a record with other fields.';
    throw fieldProblem('/content_hash', 'record_conflict', 'belongs to a record with other fields', detail);
  }
  const isNews = proof !== null && (record.proof === null || canonicalJson(proof) !== canonicalJson(record.proof));
  if (!isNews || record.status === 'Approved') return [];
  if (record.rulings.some(isByOperator)) {
    throw new Problem('record_decided', 'An operator rejected the record: no proof is accepted until that is lifted.');
  }
  const { content_hash, tris_id } = record;
  return [fact(troveProofSubmitted, { content_hash, tris_id, proof })];
}

/**
 * Decides the record of a stream. Each organization decides for its own platforms, whatever others decided; its keys
 * count as one, and so do operators and the proof. An approved record becomes an action in the same append, with the
 * credonation that such an action earns.
 * @param owner TRIS of the organization that owns the platform, or null
 * @throws Problem record_decided if the same reviewer decided otherwise before; record_counted if it is an action of the
 * platform already, by another's approval
 */
export function decideRecord(history: readonly RecordedEvent[], decision: Decision, owner: string | null): Fact[] {
  const record = troveRecordOf(history)!;
  const { content_hash, tris_id } = record;
  const { method, decided_by, reviewer, outcome } = decision;
  const own = record.rulings.filter((ruling) => ruling.reviewer === reviewer);
  // In older logs, a proof could approve what an operator had rejected.
  const earlier = own.find(({ approved }) => approved) ?? own[0];
  if (earlier) {
    const stands =
      earlier.approved === outcome.approved &&
      (reviewer !== null || earlier.decided_by === decided_by) &&
      (outcome.approved ? earlier.platform_id === outcome.platform_id : earlier.reason_code === outcome.reason_code);
    if (stands) return [];
    throw new Problem('record_decided', `The record is already ${earlier.approved ? 'Approved' : 'Rejected'}.`);
  }
  if (outcome.approved && countsOn(record, outcome.platform_id)) throw alreadyCounted(outcome.platform_id);
  const about = { content_hash, tris_id, method, decided_by, reviewer };
  if (!outcome.approved) return [fact(troveRecordRejected, { ...about, reason_code: outcome.reason_code })];
  const action = {
    tris_id,
    ...splitMetric(record.metric),
    criticality: record.criticality,
    platform_id: outcome.platform_id,
    occurred_at: record.occurred_at,
    external_id: null,
    evidence_uri: null,
  };
  const [relayed, ...credonation] = decideRelay(action, owner, outcome.source);
  return [
    fact(troveRecordApproved, about),
    { ...relayed!, data: { ...relayed!.data, evidence_hash: content_hash } },
    ...credonation,
  ];
}

/** Whether an approval has made the record an action of the platform. */
export const countsOn = ({ rulings }: TroveRecord, platformId: string): boolean =>
  rulings.some(({ platform_id }) => platform_id === platformId);

export const alreadyCounted = (platformId: string): Problem =>
  new Problem('record_counted', `This content counts on ${platformId} already.`);

/** The approval that a reviewer may revoke: the organization's own or, for operators (null), theirs or the proof's. */
export const approvalOf = ({ rulings }: TroveRecord, reviewer: string | null): Ruling | undefined =>
  rulings.find((ruling) => ruling.reviewer === reviewer && ruling.approved);

/**
 * A reviewer revokes an approval, which withdraws its action. Nothing happens if it was revoked for that reason before.
 * @param by the reviewer
 * @param owner that of the action's platform when its credonation was recorded, or null
 * @throws Problem record_decided if the reviewer has not approved the record
 */
export function decideRevoke(
  history: readonly RecordedEvent[],
  reason: Reason,
  by: Pick<Decision, 'decided_by' | 'reviewer'>,
  owner: string | null,
): Fact[] {
  const record = troveRecordOf(history)!;
  const { content_hash, tris_id, rulings } = record;
  const action_id = approvalOf(record, by.reviewer)?.action_id;
  if (action_id) {
    const withdrawal = decideChange(actionIn(history, action_id)!, 'withdrawn', reason, owner);
    return [fact(troveRecordRevoked, { content_hash, tris_id, action_id, ...by, reason }), ...withdrawal];
  }
  if (rulings.some(({ reviewer, reason_code }) => reviewer === by.reviewer && reason_code === reason)) return [];
  throw new Problem('record_decided', 'The reviewer has not approved the record, so that there is nothing to revoke.');
}

/**
 * An operator lifts a rejection by an operator. Nothing happens if there is none.
 * @throws Problem record_decided if the record was approved, or rejected for its proof: another proof is decided again
 */
export function decideLift(history: readonly RecordedEvent[], lifted_by: string): Fact[] {
  const { content_hash, tris_id, rulings } = troveRecordOf(history)!;
  const earlier = rulings.find(({ reviewer }) => reviewer === null);
  if (!earlier) return [];
  if (!rulings.some(isByOperator) || rulings.some(({ reviewer, approved }) => reviewer === null && approved)) {
    const how = earlier.approved ? 'Approved' : 'Rejected for its proof';
    throw new Problem('record_decided', `The record is ${how}, and not rejected by an operator.`);
  }
  return [fact(troveRejectionLifted, { content_hash, tris_id, lifted_by })];
}

/**
 * Whether nobody approves a record for a platform any more, unless a rejection is lifted or another proof submitted:
 * operators or the proof have rejected it, and so has the platform's owner, or the owner may not review it.
 * @param owner TRIS of the organization that owns the platform, or null
 */
export function isRuledOut(record: TroveRecord, platformId: string, owner: string | null): boolean {
  const { rulings, submitter, tris_id, operator_tris } = record;
  if (countsOn(record, platformId)) return false;
  const isRejectedBy = (by: string | null) => rulings.some(({ reviewer, approved }) => reviewer === by && !approved);
  const ownerMayReview = owner !== null && ![submitter, tris_id, operator_tris].includes(owner);
  return isRejectedBy(null) && (!ownerMayReview || isRejectedBy(owner));
}
