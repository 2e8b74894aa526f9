import { keyGone, keySeen } from '../src/features/keys/domain/keys.events.js';
import { deadLetterAcknowledged } from '../src/features/dead-letters/domain/dead-letters.events.js';
import { logCheckpointed, logOriginBegun } from '../src/features/checkpoints/domain/checkpoints.events.js';
import { type Decoded, type Undecodable, decoderFor } from '../src/kernel/event-definition.js';
import type { RecordedEvent } from '../src/kernel/event.js';
import { leafOf } from '../src/kernel/merkle.js';
import { idempotencyKeyAnswered, idempotencyKeyClaimed } from '../src/commands/idempotency.events.js';
import { accreditationWithdrawn, issuerAccredited } from '../src/features/identity/domain/accreditation.events.js';
import {
  badStatusCleared,
  badStatusSet,
  verificationGranted,
  verificationRevoked,
} from '../src/features/identity/domain/identity.events.js';
import {
  organizationRegistered,
  organizationVetted,
  organizationVettingRevoked,
  platformRegistered,
} from '../src/features/organizations/domain/organizations.events.js';
import {
  accessChecked,
  accessPolicyCreated,
  accessPolicyRetired,
  eligibilityRevoked,
} from '../src/features/access/domain/ap.events.js';
import {
  lensActivated,
  modelActivated,
  validationPolicyCreated,
  validationPolicyRetired,
} from '../src/features/lenses/domain/lenses.events.js';
import { policyNameAssigned } from '../src/features/policy-names/domain/policy-names.events.js';
import {
  actionReinstated,
  actionRelayed,
  actionWithdrawn,
  credonationRecorded,
} from '../src/features/relay/domain/relay.events.js';
import {
  issuerRegistered,
  issuerRetired,
  troveContentCounted,
  troveProofSubmitted,
  troveRecordApproved,
  troveRecordRejected,
  troveRecordRevoked,
  troveRecordSubmitted,
  troveRejectionLifted,
} from '../src/features/trove/domain/trove.events.js';
import { refreshFamilyRevoked } from '../src/features/accounts/domain/sessions.events.js';
import { sessionsEnded, walletLinked, walletUnlinked } from '../src/features/accounts/domain/wallets.events.js';
import {
  nullifierUsed,
  schemeRegistered,
  schemeRetired,
  schemeRootAdded,
  schemeRootRemoved,
  schemeTranscriptDeclared,
} from '../src/features/verifications/domain/verifications.events.js';
import {
  webhookChanged,
  webhookCreated,
  webhookDeleted,
  webhookDisabled,
  webhookEnabled,
  webhookReplayed,
  webhookSecretRotated,
} from '../src/features/webhooks/domain/webhooks.events.js';

/** Every event type of the log. */
const DEFINITIONS = [
  actionRelayed,
  credonationRecorded,
  actionWithdrawn,
  actionReinstated,
  organizationRegistered,
  organizationVetted,
  organizationVettingRevoked,
  platformRegistered,
  badStatusSet,
  badStatusCleared,
  verificationGranted,
  verificationRevoked,
  issuerAccredited,
  accreditationWithdrawn,
  schemeRegistered,
  schemeTranscriptDeclared,
  schemeRootAdded,
  schemeRootRemoved,
  schemeRetired,
  nullifierUsed,
  validationPolicyCreated,
  validationPolicyRetired,
  policyNameAssigned,
  lensActivated,
  modelActivated,
  accessPolicyCreated,
  accessPolicyRetired,
  accessChecked,
  eligibilityRevoked,
  walletLinked,
  walletUnlinked,
  sessionsEnded,
  refreshFamilyRevoked,
  idempotencyKeyClaimed,
  idempotencyKeyAnswered,
  deadLetterAcknowledged,
  logCheckpointed,
  logOriginBegun,
  troveRecordSubmitted,
  troveProofSubmitted,
  troveRecordApproved,
  troveRecordRejected,
  troveRecordRevoked,
  troveRejectionLifted,
  troveContentCounted,
  issuerRegistered,
  issuerRetired,
  webhookCreated,
  webhookChanged,
  webhookSecretRotated,
  webhookReplayed,
  webhookDisabled,
  webhookEnabled,
  webhookDeleted,
  keySeen,
  keyGone,
] as const;

export type DomainEvent = Decoded<(typeof DEFINITIONS)[number]> | Undecodable;
export type EventOf<T extends DomainEvent['type']> = Extract<DomainEvent, { type: T }>;

/** Decodes a stored event and upcasts it to the current schema. @throws NewerSchema */
export const decodeEvent = decoderFor(DEFINITIONS) as (event: RecordedEvent) => DomainEvent;

/** Decodes an event that is folded. @throws NewerSchema */
export function decodeFolded(event: RecordedEvent): DomainEvent {
  const decoded = decodeEvent(event);
  if (!event.damage) decoded.leaf = () => leafOf(event);
  return decoded;
}
