import { type DomainEvent, type Passing, isAnyOf } from './events.js';

/** The events that change which actions count. */
export const isOfAction = isAnyOf('ActionRelayed', 'ActionWithdrawn', 'ActionReinstated');
export type ActionEvent = Passing<typeof isOfAction>;

/** The events by which a recorded action counts no longer, or counts again. */
export const isActionChange = isAnyOf('ActionWithdrawn', 'ActionReinstated');

/** The events of an action on a platform: the action, what changes it, and its credonation. */
export const isOnPlatform = isAnyOf('ActionRelayed', 'ActionWithdrawn', 'ActionReinstated', 'CredonationRecorded');

/** The events of the dispute of a statement. */
export const isOfDispute = isAnyOf('DisputeOpened', 'DisputeAnswered', 'DisputeLapsed');

/** What operators and issuers say of an identity. */
export const isOfStatement = isAnyOf('BadStatusSet', 'BadStatusCleared', 'VerificationGranted', 'VerificationRevoked');

export const isOfLink = isAnyOf('WalletLinked', 'WalletUnlinked');

const isOfOrganization = isAnyOf('OrganizationRegistered', 'OrganizationVetted', 'OrganizationVettingRevoked');
export type OrganizationEvent = Passing<typeof isOfOrganization>;

const isOfDeadLetter = isAnyOf('Undecodable', 'DeadLetterAcknowledged');

/** The events about an identity. In log order they are its timeline. */
export type IdentityEvent =
  ActionEvent | OrganizationEvent | Passing<typeof isOfStatement | typeof isOfLink | typeof isOfDeadLetter>;

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
  if (isOfAction(event) || isOfStatement(event) || isOfLink(event)) return { tris_id: event.data.tris_id, event };
  if (isOfOrganization(event)) return { tris_id: event.data.tris_org, event };
  if (!isOfDeadLetter(event) || event.data.tris_id === null) return undefined;
  return { tris_id: event.data.tris_id, event };
}
