import type { DomainEvent, EventOf } from './events.js';

/** The events about an identity. In log order they are its timeline. */
export type IdentityEvent = EventOf<
  | 'ActionRelayed'
  | 'BadStatusSet'
  | 'BadStatusCleared'
  | 'VerificationGranted'
  | 'VerificationRevoked'
  | 'WalletLinked'
  | 'WalletUnlinked'
  | 'OrganizationRegistered'
  | 'OrganizationVetted'
  | 'OrganizationVettingRevoked'
  | 'Undecodable'
  | 'DeadLetterAcknowledged'
>;

/** The identity an event is about, if any. Credonations have a separate view. */
export function subjectOf(event: DomainEvent): { tris_id: string; event: IdentityEvent } | undefined {
  switch (event.type) {
    case 'ActionRelayed':
    case 'BadStatusSet':
    case 'BadStatusCleared':
    case 'VerificationGranted':
    case 'VerificationRevoked':
    case 'WalletLinked':
    case 'WalletUnlinked':
      return { tris_id: event.data.tris_id, event };
    case 'OrganizationRegistered':
    case 'OrganizationVetted':
    case 'OrganizationVettingRevoked':
      return { tris_id: event.data.tris_org, event };
    case 'Undecodable':
    case 'DeadLetterAcknowledged':
      return event.data.tris_id === null ? undefined : { tris_id: event.data.tris_id, event };
    default:
      return undefined;
  }
}
