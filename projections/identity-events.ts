import { type DomainEvent, type EventOf, isAnyOf } from './events.js';

/** The events about an identity. In log order they are its timeline. */
export type IdentityEvent = EventOf<
  | ActionEvent['type']
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

/** The events that change which actions count. */
export type ActionEvent = EventOf<'ActionRelayed' | 'ActionWithdrawn' | 'ActionReinstated'>;
export const isOfAction = isAnyOf('ActionRelayed', 'ActionWithdrawn', 'ActionReinstated');

/** The events by which a recorded action counts no longer, or counts again. */
export const isActionChange = isAnyOf('ActionWithdrawn', 'ActionReinstated');

/** The events of the dispute of a statement. */
export const isOfDispute = isAnyOf('DisputeOpened', 'DisputeAnswered', 'DisputeLapsed');

/** By how many actions the event changes their number. */
export function signOf({ type }: ActionEvent): 1 | -1 {
  return type === 'ActionWithdrawn' ? -1 : 1;
}

/** By how many actions the event changes the number of those that are withdrawn. */
export function withdrawnBy({ type }: ActionEvent): 1 | 0 | -1 {
  return type === 'ActionRelayed' ? 0 : type === 'ActionWithdrawn' ? 1 : -1;
}

/** The identity an event is about, if any. Credonations have a separate view. */
export function subjectOf(event: DomainEvent): { tris_id: string; event: IdentityEvent } | undefined {
  switch (event.type) {
    case 'ActionRelayed':
    case 'ActionWithdrawn':
    case 'ActionReinstated':
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
