import { disputeIdIn } from '../src/features/disputes/domain/dispute.js';
import { type OperatorState, evolve as evolveStatements } from '../src/features/identity/domain/identity.js';
import { type Evidence, addAction } from '../src/scoring/evidence.js';
import { isFlags } from '../src/scoring/names.js';
import { CRITICALITIES, TCT_BY_CRITICALITY } from '../src/scoring/model.js';
import type { DomainEvent } from './events.js';
import { type Owner, type Spread, addToRows, endorse, ownerRow, rowsToChange, spread } from './evidence-rows.js';
import {
  type ActionEvent,
  type IdentityEvent,
  type OrganizationEvent,
  isActionChange,
  isOfAction,
  isOfDispute,
  isOfLink,
  isOfStatement,
  isOnPlatform,
  signOf,
  subjectOf,
  withdrawnBy,
} from './identity-events.js';
import { type Projection, keysOf, rowAt, rowIn } from './projection.js';

/** What is known of one identity besides its evidence. */
export interface IdentityFacts extends OperatorState {
  /** Without those that are withdrawn. */
  actions: number;
  /** How many are withdrawn; absent before the first withdrawal. */
  withdrawn?: number;
  /** Addresses of its wallets; absent before the first was linked. */
  wallets?: string[];
  /** Position of the last event about it. */
  changed: number;
  /** Latest occurrence of its events, ms. An `as_of` before this needs the timeline. */
  latest: number;
  /** Ids of undecodable and unacknowledged events about it, whose content is missing here. */
  dead_letters: string[];
}

/** What is known of one identity: everything a score, a metric or a decision is computed from. */
export interface IdentityState extends IdentityFacts {
  /** Integer accumulators per metric, day and criticality. */
  evidence: Evidence;
  /** Latest occurrence, ms, of each metric whose actions are all withdrawn. */
  gone?: Record<string, number>;
}

/** The row of an identity, whose size is bounded. */
export interface IdentityRow extends IdentityFacts, Pick<IdentityState, 'gone'> {
  /** The number of events about it. */
  events: number;
  /** Latest recording time of its events, ms. Not always that of the last event, since clocks are set back. */
  recorded: number;
  /**
   * Latest time at which its events occurred by the clock of the process that recorded them, ms; 0 if clients gave all
   * times. The present is not before it, even if that clock was ahead.
   */
  stamped: number;
  /** TCT of its actions under the model's own lens. */
  earned: number;
  flagged: number;
  /** The evidence of an identity with few events; null if it is in separate rows (see evidence-rows.ts). */
  evidence: Evidence | null;
  /** The state of the separate rows; only if there are any. */
  spread?: Spread;
  /** Ids of open disputes of statements about it; absent without one. No coordinates of an answer determine them. */
  disputes?: string[];
}

/** The evidence of an identity with more events than this is in separate rows. */
export const FEW_EVENTS = 64;

export function newIdentity(): IdentityState {
  return { evidence: {}, actions: 0, bad_status: null, verifications: [], changed: 0, latest: 0, dead_letters: [] };
}

/** Whether events about it are missing. An incomplete identity is granted no access. */
export function isIncomplete({ dead_letters }: Pick<IdentityState, 'dead_letters'>): boolean {
  return dead_letters.length > 0;
}

/** Applies one event to an identity, in place. */
export function evolve(state: IdentityState, event: IdentityEvent): void {
  evolveFacts(state, event);
  if (isOfAction(event)) evolveEvidence(state, event);
}

function evolveEvidence(state: Pick<IdentityState, 'evidence' | 'gone'>, event: ActionEvent): void {
  const { evidence, gone } = state;
  const { metric, criticality } = event.data;
  const last = Math.max(event.occurred_at, evidence[metric]?.last ?? gone?.[metric] ?? -Infinity);
  addAction(evidence, metric, CRITICALITIES.indexOf(criticality), event.occurred_at, signOf(event));
  if (gone) delete gone[metric];
  if (evidence[metric]) evidence[metric].last = last;
  else (state.gone ??= {})[metric] = last;
}

/** Applies one event to all but the evidence, in place. The same fold serves the live row and any past state. */
export function evolveFacts(state: IdentityFacts, event: IdentityEvent): void {
  state.changed = event.position;
  state.latest = Math.max(state.latest, event.occurred_at);
  if (isOfAction(event)) {
    state.actions += signOf(event);
    if (isActionChange(event)) state.withdrawn = (state.withdrawn ?? 0) + withdrawnBy(event);
  } else if (isOfStatement(event)) evolveStatements(state, event);
  else if (isOfLink(event)) {
    const { wallet } = event.data;
    const others = (state.wallets ?? []).filter((linked) => linked !== wallet);
    state.wallets = event.type === 'WalletLinked' ? [...others, wallet] : others;
  } else if (event.type === 'Undecodable') state.dead_letters = [...state.dead_letters, event.id];
  else if (event.type === 'DeadLetterAcknowledged') {
    state.dead_letters = state.dead_letters.filter((id) => id !== event.data.event_id);
  } else event satisfies OrganizationEvent; // It makes the identity known; nothing else changes.
}

function shareOf(event: DomainEvent): string | undefined {
  return event.type === 'CredonationRecorded' || isOfDispute(event) ? event.data.tris_id : subjectOf(event)?.tris_id;
}

/**
 * One row per identity, the rows that the evidence of a large one is spread over, and `identities.changes`: each identity
 * once, at the position of its last event, which is the feed of /v1/disc/changes. `identities.search` has each identity
 * under its `textsOf`.
 */
export const identities: Projection = {
  name: 'identities',
  version: 14,
  views: [
    'identities',
    'identities.changes',
    'identities.search',
    'identities.metrics',
    'identities.platforms',
    'identities.totals',
    'identities.cells',
    'identities.actions',
    'identities.names',
    'identities.senders',
    'identities.owners',
    'identities.relayed',
    'identities.earlier',
    'identities.blocks',
    'identities.days',
    'identities.parts',
    'identities.statements',
  ],
  share: shareOf,

  reads(event) {
    const trisId = shareOf(event);
    if (trisId === undefined) return [];
    return isOnPlatform(event) ? [identityRow(trisId), ownerRow(event.data.platform_id)] : [identityRow(trisId)];
  },

  // The owner of a platform decides which row an action on it is counted in.
  precede: ['PlatformRegistered'],

  readsNext(event, rows) {
    if (!isOnPlatform(event)) return [];
    const { tris_id, platform_id } = event.data;
    const state = rows.get<IdentityRow>(identityRow(tris_id))?.spread;
    return state ? rowsToChange(tris_id, state, event, rows.get<Owner>(ownerRow(platform_id))) : [];
  },

  apply(event, rows) {
    if (event.type === 'PlatformRegistered') {
      const { platform_id, tris_org } = event.data;
      return rows.put(ownerRow(platform_id), { org: tris_org, at: event.position } satisfies Owner);
    }
    if (event.type === 'CredonationRecorded') {
      const { tris_id, platform_id } = event.data;
      const at = identityRow(tris_id);
      const row = rows.get<IdentityRow>(at);
      if (!row?.spread) return;
      const owner = rows.get<Owner>(ownerRow(platform_id));
      if (endorse(tris_id, row.spread, event, owner, rows)) rows.put(at, row);
      return;
    }
    if (isOfDispute(event)) {
      const at = identityRow(event.data.tris_id);
      const row = rows.get<IdentityRow>(at);
      if (!row) return;
      const { disputes = [], ...rest } = row;
      const open = disputes.filter((id) => id !== disputeIdIn(event));
      if (event.type === 'DisputeOpened') open.push(disputeIdIn(event));
      return rows.put(at, open.length > 0 ? { ...rest, disputes: open } : rest);
    }
    const subject = subjectOf(event);
    if (!subject) return;
    const { tris_id } = subject;
    const at = identityRow(tris_id);
    const row = rows.get<IdentityRow>(at) ?? newRow();
    if (row.changed > 0) rows.delete(rowAt(CHANGES, row.changed));
    else for (const text of textsOf(tris_id)) rows.insert(rowIn(SEARCH, `${text} ${tris_id}`), tris_id);
    rows.put(rowAt(CHANGES, event.position), tris_id);
    if (row.evidence && row.events === FEW_EVENTS) {
      row.spread = spread(tris_id, row.evidence, row.gone ?? {}, row.changed, rows);
      row.evidence = null;
      delete row.gone;
    }
    row.events++;
    evolveFacts(row, subject.event);
    if (isOfAction(event)) {
      const tct = TCT_BY_CRITICALITY[CRITICALITIES.indexOf(event.data.criticality)]!;
      row[isFlags(event.data.metric) ? 'flagged' : 'earned'] += signOf(event) * tct;
      if (row.evidence) evolveEvidence(row as IdentityRow & IdentityState, event);
    }
    if (row.spread) {
      const owner = isOfAction(event) ? rows.get<Owner>(ownerRow(event.data.platform_id)) : undefined;
      addToRows(tris_id, row.spread, subject.event, row.recorded, owner, rows);
      // The credonation of a relayed action is an event of its own.
      endorse(tris_id, row.spread, event, owner, rows);
    }
    row.recorded = Math.max(row.recorded, event.recorded_at);
    if (event.occurred_at === event.recorded_at) row.stamped = Math.max(row.stamped, event.occurred_at);
    rows.put(at, row);
  },
};

function newRow(): IdentityRow {
  const { evidence, ...facts } = newIdentity();
  return { events: 0, recorded: 0, stamped: 0, earned: 0, flagged: 0, ...facts, evidence };
}

export const identityRow = keysOf('identities');

export const CHANGES = { view: 'identities.changes', key: 'all' };

export const SEARCH = { view: 'identities.search', key: 'all' };

/** What an identity is searched by: its id, and what follows its first and its last colon, in lower case. */
export function textsOf(trisId: string): string[] {
  const id = trisId.toLowerCase();
  return [...new Set([0, id.indexOf(':') + 1, id.lastIndexOf(':') + 1])].map((from) => id.slice(from));
}
