import { type Projection, RowOverlay } from '../../projections/projection.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { type DomainEvent, decodeFolded } from '../../projections/events.js';
import type { Json, JsonObject } from '../../src/kernel/json.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { foldInBatches, loadRows, runsOf } from '../../src/read-side/fold.js';
import type { RowKey, RowSink } from '../../src/stores/ports/read-models.js';

/** An event as the log gives it, with everything a test does not care about filled in. */
export interface Given {
  type: string;
  data: JsonObject;
  stream?: string;
  schema?: number;
  occurred_at?: string;
  recorded_at?: string;
  /** As the store tells it of an event that it cannot read. */
  damage?: RecordedEvent['damage'];
}

export const RECORDED = '2026-03-01T10:00:00.000Z';

/** A log of single-event appends, positions from 1. */
export function logOf(events: readonly Given[]): RecordedEvent[] {
  return events.map(
    ({ type, data, stream, schema = 1, recorded_at = RECORDED, occurred_at = recorded_at, damage }, i) => ({
      id: `e${i + 1}`,
      type,
      data,
      stream: stream ?? `stream-${i + 1}`,
      revision: 0,
      position: i + 1,
      metadata: {
        schema,
        occurred_at,
        recorded_at,
        correlation_id: 'test',
        actor: 'key:test',
        body_hash: '0'.repeat(64),
        index: 0,
        size: 1,
      },
      ...(damage && { damage }),
    }),
  );
}

class Texts implements RowSink {
  readonly texts: [string, string][] = [];

  get size(): number {
    return this.texts.length;
  }

  put(row: RowKey, value: unknown): void {
    this.texts.push([address(row), JSON.stringify(value)]);
  }
}

/** Rows by view, key and sort, as a store keeps them: JSON text. */
export class StoredRows {
  readonly texts = new Map<string, string>();
  /** Sorts by view and key. */
  private readonly ranges = new Map<string, Set<string>>();

  /** Most rows that one batch changed. */
  largestBatch = 0;
  /** Characters of all rows that were put. */
  written = 0;

  /** Applies one slice on top of what is stored, in batches of so many rows, as the projector does. */
  async apply(
    events: readonly DomainEvent[],
    projections: readonly Projection[] = PROJECTIONS,
    rowsPerBatch = Infinity,
  ): Promise<void> {
    for (const run of runsOf(projections, events)) await this.applyRun(run, projections, rowsPerBatch);
  }

  private async applyRun(
    events: readonly DomainEvent[],
    projections: readonly Projection[],
    rowsPerBatch: number,
  ): Promise<void> {
    const overlay = new RowOverlay(() => new Texts());
    await loadRows(projections, events, async (rows) => rows.map((row) => this.get(row)), overlay);
    for await (const { changes } of foldInBatches(projections, events, () => true, overlay, rowsPerBatch)) {
      const { puts, deletes } = changes;
      for (const [name, text] of puts.texts) {
        this.texts.set(name, text);
        this.written += text.length;
        this.rangeOf(name)?.add(sortIn(name));
      }
      for (const row of deletes) {
        this.texts.delete(address(row));
        this.rangeOf(address(row))?.delete(sortIn(address(row)));
      }
      this.largestBatch = Math.max(this.largestBatch, puts.size + deletes.length);
    }
  }

  get(row: RowKey): Json | undefined {
    const text = this.texts.get(address(row));
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  }

  /** Rows of one key of a view in sort order. */
  range(
    { view, key }: { view: string; key: string },
    isWanted: (sort: string) => boolean = () => true,
    reverse = false,
    limit = Infinity,
  ): { sort: string; value: Json }[] {
    const sorts = [...(this.ranges.get(`${view}|${key}`) ?? [])].filter(isWanted).sort();
    if (reverse) sorts.reverse();
    return sorts
      .slice(0, limit)
      .map((sort) => ({ sort, value: JSON.parse(this.texts.get(`${view}|${key}|${sort}`)!) as Json }));
  }

  private rangeOf(name: string): Set<string> | undefined {
    const [view, key, sort] = name.split('|');
    if (sort === undefined) return undefined;
    let range = this.ranges.get(`${view}|${key}`);
    if (!range) this.ranges.set(`${view}|${key}`, (range = new Set()));
    return range;
  }

  /** Every row, ordered by address: equal bytes mean equal rows. */
  get bytes(): string {
    return JSON.stringify([...this.texts].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

const sortIn = (name: string) => name.split('|')[2]!;
const address = ({ view, key, sort }: RowKey) => (sort === undefined ? `${view}|${key}` : `${view}|${key}|${sort}`);

/** Folds a log in batches of the given sizes (repeated as needed); by default in one. */
export async function rowsAfter(
  events: readonly Given[],
  {
    sizes = [Infinity],
    projections = PROJECTIONS,
    rowsPerBatch = Infinity,
  }: { sizes?: number[]; projections?: readonly Projection[]; rowsPerBatch?: number } = {},
): Promise<StoredRows> {
  const decoded = logOf(events).map(decodeFolded);
  const rows = new StoredRows();
  for (let from = 0, i = 0; from < decoded.length; i++) {
    const size = sizes[i % sizes.length]!;
    await rows.apply(decoded.slice(from, from + size), projections, rowsPerBatch);
    from += size;
  }
  return rows;
}

export const relayed = (trisId: string, metric: string, criticality: string, more: Partial<Given> = {}): Given => ({
  type: 'ActionRelayed',
  data: { tris_id: trisId, metric, criticality, platform_id: 'lender', evidence_hash: null },
  ...more,
});
export const endorsed = (trisId: string, platformId: string, amount: number, more: Partial<Given> = {}): Given => ({
  type: 'CredonationRecorded',
  data: { tris_id: trisId, platform_id: platformId, amount, category: 'financial' },
  ...more,
});
/**
 * Replaces each number by the withdrawal of one of the actions of an identity before it or, if that one is withdrawn, by
 * its reinstatement. The events get their positions in a log of their own.
 */
export function withChanges(trisId: string, list: readonly (readonly Given[] | number)[]): Given[] {
  const log: Given[] = [];
  const owners = new Map<string, string>();
  const actions: { data: JsonObject; occurred_at: string | undefined; out: boolean }[] = [];
  for (const each of list) {
    if (typeof each === 'number') {
      const action = actions[each % actions.length];
      if (!action) continue;
      const { data, occurred_at } = action;
      const type = action.out ? 'ActionReinstated' : 'ActionWithdrawn';
      action.out = !action.out;
      log.push({ type, data: { ...data, reason: 'mistake' }, ...(occurred_at !== undefined && { occurred_at }) });
      continue;
    }
    for (const given of each) {
      const id = `e${log.push(given)}`;
      const { tris_id, platform_id, counterparty, amount } = given.data as Record<string, string>;
      if (given.type === 'PlatformRegistered') owners.set(platform_id!, (given.data as { tris_org: string }).tris_org);
      if (tris_id !== trisId) continue;
      if (given.type === 'ActionRelayed') {
        const { evidence_hash: _, ...data } = { source: 'vouched', ...given.data } as JsonObject;
        actions.push({ data: { ...data, action_id: id }, occurred_at: given.occurred_at, out: false });
      }
      if (given.type === 'CredonationRecorded') {
        const endorser = counterparty ?? owners.get(platform_id!) ?? `tris:platform:${platform_id}`;
        Object.assign(actions.at(-1)!.data, { endorser, amount, credonation_id: id });
      }
    }
  }
  return log;
}

/** A log as if the actions that are withdrawn at a position, and all changes, were about nobody known. */
export function withoutWithdrawn(log: readonly DomainEvent[], position: number): DomainEvent[] {
  const out = new Set<string>();
  for (const { type, data, position: at } of log) {
    if (at > position || (type !== 'ActionWithdrawn' && type !== 'ActionReinstated')) continue;
    for (const id of [data.action_id, data.credonation_id ?? data.action_id]) {
      if (type === 'ActionWithdrawn') out.add(id);
      else out.delete(id);
    }
  }
  return log.map((event) => {
    const isChange = event.type === 'ActionWithdrawn' || event.type === 'ActionReinstated';
    if (!isChange && !out.has(event.id)) return event;
    return { ...event, type: 'BadStatusCleared', data: { tris_id: 'tris:nobody' } };
  });
}

export const platformOf = (platformId: string, trisOrg: string): Given => ({
  type: 'PlatformRegistered',
  data: { platform_id: platformId, tris_org: trisOrg },
});
export const about = (type: string, trisOrg: string): Given => ({ type, data: { tris_org: trisOrg } });
export const badStatus = (trisId: string, level: number): Given => ({
  type: 'BadStatusSet',
  data: { tris_id: trisId, level, reason_code: 'fraud' },
});
export const badStatusCleared = (trisId: string): Given => ({ type: 'BadStatusCleared', data: { tris_id: trisId } });
export const granted = (trisId: string, issuer: string, expiresAt: string | null = null): Given => ({
  type: 'VerificationGranted',
  schema: 2,
  data: {
    tris_id: trisId,
    status: 'zk-KYH',
    issuer,
    scheme: 'operator',
    operator: true,
    expires_at: expiresAt,
    evidence_hash: 'aa',
  },
});
export const linked = (trisId: string, wallet: string, proof = 'signed', assertedBy: string | null = null): Given => ({
  type: 'WalletLinked',
  schema: 2,
  data: { tris_id: trisId, wallet, proof, chain_id: null, asserted_by: assertedBy },
});
export const unlinked = (trisId: string, wallet: string, reason = 'unlinked'): Given => ({
  type: 'WalletUnlinked',
  data: { tris_id: trisId, wallet, reason },
});
export const acknowledged = (eventId: string, trisId: string | null): Given => ({
  type: 'DeadLetterAcknowledged',
  data: {
    event_id: eventId,
    event_type: 'ActionRelayed',
    tris_id: trisId,
    reason_code: 'lost_for_good',
    acknowledged_by: 'key:ops',
  },
});
export const revoked = (trisId: string, issuer: string | null): Given => ({
  type: 'VerificationRevoked',
  data: { tris_id: trisId, status: 'zk-KYH', issuer },
});

const TROVE = { tris_id: 'tris:alice', content_hash: 'c'.repeat(64) };
/** Events of one submitted record; `stream` is that of all of them. */
export const trove = (
  type:
    | 'TroveRecordSubmitted'
    | 'TroveProofSubmitted'
    | 'TroveRecordApproved'
    | 'TroveRecordRejected'
    | 'TroveRecordRevoked'
    | 'TroveRejectionLifted',
) => {
  const proof = { type: 'signature', issuer: 'lab', signature: 'x', attestation: null };
  const decided = { method: 'review', decided_by: 'key:reviewer', reason_code: 'wrong' };
  const submitted = {
    record_type: 'milestone',
    metric: 'creative_code',
    criticality: 'High',
    title_hash: 'd'.repeat(64),
    uri_hash: null,
    agent_id: null,
    operator_tris: null,
    proof: null,
  };
  const more = {
    TroveRecordSubmitted: submitted,
    TroveProofSubmitted: { proof },
    TroveRecordApproved: decided,
    TroveRecordRejected: decided,
    TroveRecordRevoked: { action_id: 'e1', decided_by: 'key:reviewer', reviewer: null, reason: 'mistake' },
    TroveRejectionLifted: { lifted_by: 'key:reviewer' },
  };
  return { type, stream: `trove-${TROVE.content_hash}`, data: { ...TROVE, ...more[type] } } as Given;
};

/** @param owner TRIS of an organization; null: the operators */
export function accessPolicy(policy_id: string, owner: string | null): Given {
  const data = { policy_id, owner, rules: { disc_min: 1 }, ttl_seconds: 600, vp: null, visibility: 'private' };
  return { type: 'AccessPolicyCreated', schema: 2, stream: `ap-${policy_id}`, data: { ...data, content_hash: 'c' } };
}

/** A denial, at a time. */
export function checked(subject_tris: string, policy_id: string, occurred_at = RECORDED, jti = 'j'): Given {
  const nothing = { audience: null, wallet: null, chain_id: null, verifying_contract: null };
  const token = { iss: null, kid: null, iat: null, exp: null, voucher_issuer: null };
  const coordinates = { as_of: occurred_at, log: null, position: 0, lens_policy_id: null, lens_hash: null };
  const model = { model_id: 'disc-1', model_hash: 'm', advice: 3, trust: 2 };
  const decision = { granted: false, score: null, reasons: [], how_to_pass: [] };
  const data = {
    policy_id,
    policy_hash: 'c',
    subject_tris,
    jti,
    ...nothing,
    ...token,
    ...coordinates,
    ...model,
    ...decision,
  };
  return { type: 'AccessChecked', schema: 7, data, occurred_at };
}
