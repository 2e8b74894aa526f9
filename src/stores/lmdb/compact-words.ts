/**
 * Strings that the compact form of an event replaces with their place in a list (docs/log.md). Places are stored, so no
 * place ever changes: another list needs another form.
 */

/** The first 128 take one byte, the others two. The words of the metadata come first. */
export const WORDS: readonly string[] = (
  'schema occurred_at recorded_at correlation_id causation_id actor body_hash idempotency traceparent index size ' +
  // Relayed actions and their categories, criticalities and commonest metrics.
  'ActionRelayed CredonationRecorded IdempotencyKeyClaimed IdempotencyKeyAnswered tris_id metric criticality ' +
  'platform_id evidence_hash amount category stream events Minimal Low Moderate High Critical financial creative ' +
  'educational behavioral social security compliance cli key:dev ' +
  // Access decisions.
  'AccessChecked policy_id policy_hash subject_tris granted audience wallet chain_id verifying_contract jti iss kid ' +
  'iat exp voucher_issuer as_of log position lens_policy_id lens_hash model_id model_hash score reasons how_to_pass ' +
  'advice trust pointer rule required actual outcome failed unknown fact pointers disc-1 disc-2 ' +
  'disc_min tct_min rating_min reliability_min evidence_min metrics verification ' +
  // Identities and wallets.
  'WalletLinked WalletUnlinked SessionsEnded RefreshFamilyRevoked EligibilityRevoked VerificationGranted ' +
  'VerificationRevoked BadStatusSet BadStatusCleared NullifierUsed address family_id reason reason_code proof ' +
  'asserted_by status issuer scheme operator expires_at level scope statuses operator_tris ' +
  // The rest.
  'OrganizationRegistered OrganizationVetted OrganizationVettingRevoked PlatformRegistered tris_org ' +
  'AccessPolicyCreated AccessPolicyRetired owner rules ttl_seconds vp visibility content_hash ' +
  'ValidationPolicyCreated ValidationPolicyRetired PolicyNameAssigned LensActivated ModelActivated inputs metadata ' +
  'names replay_id previous model name weight total_weight version public private platform organization ' +
  'IssuerAccredited AccreditationWithdrawn DeadLetterAcknowledged event_id event_type acknowledged_by ' +
  'TroveRecordSubmitted TroveProofSubmitted TroveRecordApproved TroveRecordRejected TroveContentCounted ' +
  'IssuerRegistered IssuerRetired issuer_id ed25519 eas_domain record_id method decided_by reviewer submitter ' +
  'record_type title_hash uri_hash agent_id public_inputs milestone activity ai_behavior ' +
  'SchemeRegistered SchemeTranscriptDeclared SchemeRootAdded SchemeRootRemoved SchemeRetired verification_key ' +
  'verification_key_hash transcript_hash roots root ' +
  'WebhookCreated WebhookChanged WebhookSecretRotated WebhookReplayed WebhookDisabled WebhookEnabled WebhookDeleted ' +
  'webhook_id url_hash filter after ' +
  // Since form 2.
  'salt source vouched unvouched counterparty ActionWithdrawn ActionReinstated action_id credonation_id endorser'
).split(' ');

/** Starts of strings that end with a hash, a UUID or an address: streams above all. */
export const PREFIXES: readonly string[] = (
  'action- idem- access- platform- family- trove- trove-counted- accreditation- webhook- dead-letter- issuer- ' +
  'wallet-0x 0x urn:uuid: sha256:'
).split(' ');
