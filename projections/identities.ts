import { type OperatorState, evolve as evolveStatements } from '../src/features/identity/domain/identity.js';
import { type Evidence, addAction } from '../src/scoring/evidence.js';
import { CRITICALITIES } from '../src/scoring/model.js';
import { type IdentityEvent, subjectOf } from './identity-events.js';
import { type Projection, rowAt } from './projection.js';

/** What is known of one identity: everything a score, a metric or a decision is computed from. */
export interface IdentityState extends OperatorState {
  /** Integer accumulators per metric, day and criticality. */
  evidence: Evidence;
  actions: number;
  /** Addresses of its wallets; absent before the first was linked. */
  wallets?: string[];
  /** Position of the last event about it. */
  changed: number;
  /** Latest occurrence among its events, ms: an `as_of` before this needs the timeline. */
  latest: number;
  /** Ids of events about it that could not be decoded and that nobody has acknowledged: what they say is missing here. */
  dead_letters: string[];
}

export function newIdentity(): IdentityState {
  return {
    evidence: {},
    actions: 0,
    bad_status: null,
    verifications: [],
    changed: 0,
    latest: 0,
    dead_letters: [],
  };
}

/** Is something missing in what is known of it? Then no access is granted by it. */
export function isIncomplete({ dead_letters }: Pick<IdentityState, 'dead_letters'>): boolean {
  return dead_letters.length > 0;
}

/** Applies one event to an identity, in place. The same fold serves the live row and any past state. */
export function evolve(state: IdentityState, event: IdentityEvent): void {
  state.changed = event.position;
  state.latest = Math.max(state.latest, event.occurred_at);
  switch (event.type) {
    case 'ActionRelayed':
      addAction(state.evidence, event.data.metric, CRITICALITIES.indexOf(event.data.criticality), event.occurred_at);
      state.actions++;
      break;
    case 'BadStatusSet':
    case 'BadStatusCleared':
    case 'VerificationGranted':
    case 'VerificationRevoked':
      evolveStatements(state, event);
      break;
    case 'WalletLinked':
    case 'WalletUnlinked': {
      const { wallet } = event.data;
      const others = (state.wallets ?? []).filter((linked) => linked !== wallet);
      state.wallets = event.type === 'WalletLinked' ? [...others, wallet] : others;
      break;
    }
    case 'Undecodable':
      state.dead_letters = [...state.dead_letters, event.id];
      break;
    case 'DeadLetterAcknowledged':
      state.dead_letters = state.dead_letters.filter((id) => id !== event.data.event_id);
      break;
    case 'OrganizationRegistered':
    case 'OrganizationVetted':
    case 'OrganizationVettingRevoked':
      break; // The identity is known by it; nothing else changes.
    default:
      event satisfies never;
  }
}

/**
 * One row per identity, and `identities.changes`: who changed at which position, which is the feed of /v1/disc/changes.
 * A change that a later one has superseded stays; its position is no longer the identity's `changed`, so readers skip it.
 */
export const identities: Projection = {
  name: 'identities',
  version: 3,
  views: ['identities', 'identities.changes'],
  share: {
    ofEvent: (event) => subjectOf(event)?.tris_id,
    ofRow: ({ view, key }, value) => (view === 'identities.changes' ? String(value) : key),
  },

  reads(event) {
    const subject = subjectOf(event);
    return subject ? [identityRow(subject.tris_id)] : [];
  },

  apply(event, rows) {
    const subject = subjectOf(event);
    if (!subject) return;
    const row = identityRow(subject.tris_id);
    const state = rows.get<IdentityState>(row) ?? newIdentity();
    evolve(state, subject.event);
    rows.put(row, state);
    rows.insert(rowAt(CHANGES, event.position), subject.tris_id);
  },
};

export function identityRow(trisId: string) {
  return { view: 'identities', key: trisId };
}

export const CHANGES = { view: 'identities.changes', key: 'all' };
