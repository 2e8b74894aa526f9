import type { Reference } from '../http/openapi.js';
import { JobKinds } from '../features/jobs/job-kinds.js';
import { RULES_SCHEMAS } from '../features/access/rules-schema.js';
import { MESSAGES } from '../features/webhooks/messages.dto.js';
import { find } from './find.js';
import { MODEL } from '../scoring/model.js';

const DATE_TIME = { format: 'date-time' };
const COUNT = { type: 'integer', minimum: 0 };
/** Fields that are whole numbers, where they are numbers. */
const WHOLE =
  'denied unknown events not_applied rows passes disk_bytes damaged_events applied_events lag_events open ' +
  'acknowledged expiresAt expires_in to_block logs recorded counted_elsewhere identities ratings_changed decisions decisions_differ';
const SHARE = { minimum: 0, maximum: 1 };
const HEALTH = Object.fromEntries(
  MODEL.categories.map((name) => [name, { description: `Health of the category \`${name}\`.`, ...SHARE }]),
);

/**
 * What the OpenAPI document says beside the declarations of controllers and DTOs: the order of its sections, and the
 * fields that mean the same wherever they occur. What a DTO says of its own field has precedence.
 */
export const REFERENCE: Reference = {
  schemas: RULES_SCHEMAS,
  variants: (app) => {
    const of = new Map(find(app, JobKinds)?.all.map(({ kind, result }) => [kind, result]));
    const messages = Object.entries(MESSAGES);
    const data = new Map(messages.map(([type, [dto]]) => [type, dto]));
    const webhooks = Object.fromEntries(messages.map(([type, [, tells]]) => [type, tells]));
    return [
      { dto: 'JobDto', by: 'kind', field: 'result', of },
      { dto: 'WebhookMessageDto', by: 'type', field: 'data', of: data, webhooks },
    ];
  },
  tags: [
    ['Relay', 'Actions', 'Submit verified actions, from which scores are computed.'],
    ['Withdrawals', 'Withdrawals', 'Withdraw actions that were wrong, and reinstate them.'],
    ['Disputes', 'Disputes', 'Dispute what is stated about oneself, and answer disputes.'],
    ['Disc', 'Scores', 'Scores, ranks, histories, explanations, metrics, reports, and the feed of changes.'],
    ['Credonations', 'Credonations', 'Credibility endorsements that an identity received.'],
    ['AccessPolicies', 'Access policies', 'Conditions for access, and checks by them.'],
    ['Decisions', 'Access decisions', 'What access checks decided, why, and from which state.'],
    ['Eligibility', 'Eligibility', 'Verify and revoke the tokens and vouchers of granted checks.'],
    ['ValidationPolicies', 'Validation policies', 'How actions are weighed: create, preview, promote, roll back.'],
    ['Models', 'Scoring models', 'Versions of the scoring model.'],
    ['PolicyNames', 'Policy names', 'Which organization may create versions of a policy.'],
    ['Sessions', 'Sign-in', 'Sign in with a wallet (EIP-4361), and sessions.'],
    ['Wallets', 'Wallets', 'Links of wallets to TRIS ids.'],
    ['Person', 'My record', 'Who sends a request, and everything recorded about the holder of a wallet.'],
    ['Ingestion', 'On-chain history', 'Read the history of linked wallets on a chain.'],
    ['Verifications', 'Proofs', 'Verification statuses by zero-knowledge proof, and the schemes of these proofs.'],
    ['Identity', 'Statements', 'What operators and organizations state about an identity.'],
    ['Accreditation', 'Accredited issuers', 'Issuers whose verifications count in every access policy.'],
    ['Trove', 'Records', 'Verifiable records: submit, review, read.'],
    ['Issuers', 'Record issuers', 'Issuers whose proofs approve records.'],
    ['Webhooks', 'Webhooks', 'Signed messages about changes.'],
    ['Organizations', 'Organizations', 'Organizations, their vetting and their platforms.'],
    ['Operations', 'Operations', 'Operate the read models: build, serve, verify and save generations.'],
    ['Keys', 'API keys', 'The keys that requests are sent with.'],
    ['Usage', 'Usage', 'What an organization, or a key without one, has used of its bounds.'],
    ['Jobs', 'Jobs', 'Work in the background: its progress, its result, and how to cancel it.'],
    ['DeadLetters', 'Dead letters', 'Events that cannot be decoded.'],
    ['Audit', 'Audit', 'Proofs that the log was only extended, for strangers.'],
    ['Proofs', 'Keys', 'The public keys that verify proofs and tokens.'],
    ['Ops', 'Health', 'Whether the service works.'],
  ],
  // A `type` of integer is said of a field only where it is a number: a name can mean a text or a yes elsewhere.
  fields: {
    // Identifiers
    tris_id: { description: 'The TRIS id of an identity.' },
    tris_ids: { description: 'The TRIS ids of the identities, each once.' },
    tris_org: { description: 'The TRIS id of the organization.' },
    subject_tris: { description: 'The TRIS id of the identity that is checked.' },
    platform_id: { description: 'The id of a platform, which verifies actions.' },
    policy_id: { description: 'The id of a policy, with its version.' },
    key_id: { description: 'The id of an API key.' },
    scopes: { description: 'What the key permits.' },
    replay_id: { description: 'The id of a replay.' },
    job_id: { description: 'The id of a job, for querying its status.' },
    dispute_id: { description: 'The id of the dispute.' },
    action_id: { description: 'The id of an action: that of its event in the log.', format: 'uuid' },
    event_id: { description: 'The id of an event in the log.', format: 'uuid' },
    event_type: { description: 'The type of the event.' },
    issuer_id: { description: 'The id of a registered issuer of records.' },
    jti: { description: 'The id of an eligibility token.', format: 'uuid' },

    // Webhooks
    webhook_id: { description: 'The id of a webhook.' },
    delivery_id: { description: 'The number of a delivery of the webhook, after `dlv_`.' },
    pending: COUNT,
    disabled_at: { description: 'When it was disabled; null while it is active.', ...DATE_TIME },
    next_attempt_at: { description: 'When the next attempt is due; null if there is none.', ...DATE_TIME },
    attempts: { description: 'The number of attempts so far.', ...COUNT },
    ms: { description: 'How long the attempt took, in milliseconds.', ...COUNT },
    score_below: { description: 'The threshold that a score falls below.', minimum: 0, maximum: 100 },
    score_above: { description: 'The threshold that a score rises above.', minimum: 0, maximum: 100 },

    // Pages
    next_cursor: { description: 'The `cursor` of the next page; null on the last page.' },
    index: COUNT,
    results: { description: 'One result for each item of the request, in order.' },

    // Times and places
    as_of: { description: 'Only events that occurred by then count.', ...DATE_TIME },
    position: { description: 'A position in the log, `<log id>.<decimal>`.', type: 'integer' },
    occurred_at: { description: 'When it happened.', ...DATE_TIME },
    recorded_at: { description: 'When the service recorded it.', ...DATE_TIME },
    last_at: { description: 'When the last of these actions occurred.', ...DATE_TIME },
    registered_at: { description: 'When it was registered.', ...DATE_TIME },
    created_at: { description: 'When it was created.', ...DATE_TIME },
    submitted_at: { description: 'When it was submitted.', ...DATE_TIME },
    decided_at: { description: 'When it was decided.', ...DATE_TIME },
    opened_at: { description: 'When it was opened last.', ...DATE_TIME },
    answered_at: { description: 'When it was answered.', ...DATE_TIME },
    checked_at: { description: 'When the check was made.', ...DATE_TIME },
    evaluated_at: { description: 'When the preview was computed.', ...DATE_TIME },
    generated_at: { description: 'When the report was generated.', ...DATE_TIME },
    linked_at: { description: 'When the wallet was linked.', ...DATE_TIME },
    started_at: { description: 'When it was requested.', ...DATE_TIME },
    finished_at: { description: 'When it ended; null while it has not.', ...DATE_TIME },
    expires_at: { description: 'When it expires; null if it does not.', ...DATE_TIME },
    signs_from: DATE_TIME,
    ends_at: DATE_TIME,
    since: { description: 'When the status was set.', ...DATE_TIME },
    at: { description: 'The time of this entry.', ...DATE_TIME },
    timestamp: { description: 'The time of the answer.', ...DATE_TIME },

    // Scores
    score: { description: 'The DISC score, one decimal.', minimum: 0, maximum: 100 },
    score_rating: { description: 'The rating of the score.' },
    total_tct: { description: 'Net TCT, at least 0.' },
    earned_tct: { description: 'TCT of all actions without flags.', minimum: 0 },
    tct_total: { description: 'Accumulated TCT, at least 0.', minimum: 0 },
    disc_metrics: { description: 'Health by category.' },
    ...HEALTH,
    reliability: { description: 'The probability that the next action is a good one.', ...SHARE },
    reliability_interval: { description: 'The range that contains the reliability with a probability of 90 %.' },
    evidence: { description: 'The amount of evidence for the reliability.' },
    verification: { description: 'The current verification statuses of the identity.' },
    bad_status: { description: 'The BAD status that overrides the score; null if none is set.' },
    level: { description: 'The level of the BAD status, 1 (worst) to 6.', type: 'integer', minimum: 1, maximum: 6 },
    reason_code: { description: 'The reason, as a code of lower-case letters, digits and underscores.' },
    lens: { description: 'The lens: the validation policy by which actions are weighed.' },
    model: { description: 'The version of the scoring model.' },
    metric: { description: 'A metric, `<category>_<name>`.' },
    criticality: { description: 'The criticality, from which the weight follows.' },
    actions: { description: 'Number of actions.', ...COUNT },
    flagged_tct: { description: 'TCT of negative evidence.' },
    count: { description: 'Number of credonations.', ...COUNT },
    wallets_count: { description: 'Number of linked wallets.', ...COUNT },
    depth: { description: 'How much detail the report has.' },

    // Results of a batch, problems
    problem: { description: 'Why there is no data.' },
    data: { description: 'The answer that a request for this item alone would have returned.' },
    title: { description: 'The name of the kind of problem.' },
    error: { description: 'Why it failed; null if it did not.' },

    // Statements, issuers, schemes
    issuer: { description: 'Who granted it: the TRIS id of an organization, or `key:<id>`.' },
    scheme: { description: 'The id of a verification scheme.' },
    revoked: { description: 'Always true.' },
    role: { description: 'What the public signal means.' },
    verification_key: { description: 'The verification key of the circuit.' },
    root: { description: 'A Merkle root or key of the issuer, as a decimal number.' },
    scope: { description: 'Whether it is for the platform or for an organization.' },
    retired: { description: 'Whether it was retired.' },
    protocol: { description: 'The proof system.' },

    // Records
    record_type: { description: 'The kind of record.' },
    content_hash: { description: 'A SHA-256 that identifies the content.' },
    uri: {
      description: 'The location of the content; null if it was not given, or after it was deleted.',
      format: 'uri',
    },
    organization: { description: 'The TRIS id of the organization.' },
    domain: { description: 'The EIP-712 domain.' },
    name: { description: 'The name in the EIP-712 domain.' },
    version: { description: 'The version in the EIP-712 domain.', type: 'integer' },
    chainId: { description: 'The chain (EIP-155).', type: 'integer' },
    chain_id: { description: 'The chain (EIP-155).', type: 'integer' },
    time: { description: 'When the attestation was made.' },

    // Wallets, sessions, ingestion
    wallet: { description: 'The address of a wallet.' },
    progress: { description: 'How much of the work is done.' },
    done: { description: 'How much is done.', ...COUNT },
    total: { description: 'How much there is to do.', ...COUNT },
    result: { description: 'The result; null before it is completed.' },
    from_block: { description: 'The first block that was read.', ...COUNT },
    already_present: { description: 'Actions that were recorded earlier.', ...COUNT },

    // Policies
    inputs: { description: 'The metrics that count, with their weights.' },
    metadata: { description: 'What the owner declares about the policy.' },
    visibility: { description: 'Who may read the policy.' },
    policies: { description: 'The policies, by id.' },
    // Where it is a number, that of HTTP.
    status: { type: 'integer' },
    ...Object.fromEntries(WHOLE.split(' ').map((name) => [name, { type: 'integer' }])),
    ttl_seconds: { description: 'Lifetime of the tokens, s.', type: 'integer', minimum: 1, maximum: 86_400 },
    granted: { description: 'Whether access is granted.', type: 'integer' },
    iat: { description: 'When the token was issued.', type: 'integer' },
    exp: { description: 'When the token expires.', type: 'integer' },
    policy_hash: { description: 'The content hash of the policy.' },
    access: { description: 'The decisions of the compared access policies, now and with the policy.' },
    before: { description: 'As it is now.' },
    after: { description: 'As it would be.' },
    delta: { description: 'The change.' },
    previous: { description: 'What was active before.' },
    granted_before: COUNT,
    granted_after: { description: 'Number of identities that it would grant access.', ...COUNT },
    gained: { description: 'Number of identities that gain access.', ...COUNT },
    lost: { description: 'Number of identities that lose access.', ...COUNT },

    // Organizations, dead letters
    vetted: { description: 'Whether the organization is vetted and so has a public rank.' },
  },
};
