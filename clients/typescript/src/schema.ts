/** Made from the OpenAPI document of the service by generate.mjs. */
export interface paths {
    "/api/decision-relay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Submit a verified, score-relevant action
         * @description Needs a key with the scope `relay:write`.
         */
        post: operations["Relay_relay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/decision-relay/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Submit up to 1,000 actions, each with a result of its own
         * @description Each action is accepted or refused as if it were sent alone, by the same rules; one that is refused affects no other. As NDJSON (`application/x-ndjson`), a line that is not JSON is refused alone, too. A retry with the same Idempotency-Key, or of actions with an `external_id`, has no second effect. Actions with the same `external_id` are recorded in their order, others in any. `Credence-Position` covers all. If the log takes none of the actions, the answer is 503; if it takes some, those that it did not take have the status 503. Needs a key with the scope `relay:write`.
         */
        post: operations["Relay_relayMany"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{action_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an action: its organization, whether it counts, and its withdrawals
         * @description For who relayed it (its key, and keys of the organization that owns the platform), a session of the identity that it is about, `ops`, or a key of the operators with `audit:read`. An action is found once the read models have applied it. Needs a key of any scope, or the session of a wallet.
         */
        get: operations["Withdrawals_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{action_id}/affected-decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the recorded access decisions that would differ without an action
         * @description Each decision about the identity in which the action counted is derived again at its own time, position, lens and model, without the action. Nothing recorded changes, and tokens stay valid until they expire. Needs what `GET /v1/access/decisions` needs, and considers the same decisions. Needs a key of any scope.
         */
        get: operations["Withdrawals_affected"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{action_id}/withdraw": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Withdraw an action: it counts nowhere from now on
         * @description For a key of the organization that owns the platform (`relay:write`), the key that relayed it if nobody owns the platform, or `ops`; never for a key of an organization that the action is about. What was known before stays as it was. Asked again, the first answer is given again. Needs a key of any scope.
         */
        post: operations["Withdrawals_withdraw"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/{action_id}/reinstate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Reinstate a withdrawn action: it counts again
         * @description For a key of the organization that owns the platform (`relay:write`), the key that relayed it if nobody owns the platform, or `ops`; never for a key of an organization that the action is about. Asked again, the first answer is given again. Needs a key of any scope.
         */
        post: operations["Withdrawals_reinstate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/actions/withdrawals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Withdraw many actions, in the background: a dry run finds them, then exactly these are withdrawn
         * @description With `dry_run`, finds the actions that count and that all conditions are met by, of which the key may withdraw each (a key needs `relay:write` or `ops`). The job’s `result` says what would change; `GET /v1/jobs/:job_id/result` has, for 24 hours, a line for each action, and one for each access decision that would differ. With `apply`, withdraws the set of a dry run. Asked again, it continues what was interrupted. Needs a key of any scope.
         */
        post: operations["Withdrawals_withdrawMany"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disputes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List disputes: a session its own, a key those of its statements, operators all
         * @description Needs a key of any scope, or the session of a wallet.
         */
        get: operations["Disputes_list"];
        put?: never;
        /**
         * Dispute an action, a verification or the BAD status of the TRIS of the session
         * @description For the session of a wallet that is linked to the TRIS, not for keys. A statement is disputed once at a time, after a rejection again with another text. Needs a key of any scope, or the session of a wallet.
         */
        post: operations["Disputes_open"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disputes/{dispute_id}/answer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answer a dispute
         * @description For whoever made the statement (of an action `relay:write`, of a verification `identity:write`: the organization that owned the platform when the dispute was opened or granted the verification, or the key), or for operators (`ops`). Also after it has lapsed: a rejection reinstates the action. Needs a key of any scope.
         */
        post: operations["Disputes_answer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/disc-score/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the DISC score of an individual
         * @description The present score. With a key, by the lens of its organization.
         */
        get: operations["Disc_discScore"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/disc-rank/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the rank of a vetted organization
         * @description Other organizations have no rank: 404.
         */
        get: operations["Disc_discRank"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/overview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count identities, actions and organizations, relays and checks of the last hour, and list changes of rating
         * @description Relays and checks are those of the process that answers. It answers the same for ten seconds. Needs a key with the scope `ops`.
         */
        get: operations["Disc_overview"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/score/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a score with everything needed to reproduce it
         * @description The same lens, model, `as_of` and position always give the same numbers.
         */
        get: operations["Disc_score"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/score/{tris_id}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the events behind a score, in log order
         * @description Each with the score after it. `from` and `to` limit the time at which the events were recorded: an entry shows the same numbers with and without them.
         */
        get: operations["Disc_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/score/{tris_id}/explain": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Explain a score: its contributions, and what the next rating requires
         * @description Lists the metrics, the platforms and the negative evidence that make up the score.
         */
        get: operations["Disc_explain"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/metrics/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the health of categories or metrics, with a proof
         * @description The proof is a JWS, which the published keys verify.
         */
        get: operations["Disc_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/report/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a report over a window of months, with a proof
         * @description The same coordinates, window and depth give the same `report_hash`, and the same ETag.
         */
        get: operations["Disc_report"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/score/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Get the scores of up to 100 identities
         * @description Each result is what a request for its identity alone would return; a problem with one affects no other.
         */
        post: operations["Disc_scores"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/metrics/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Get the metrics of up to 100 identities
         * @description Each result is what a request for its identity alone would return; a problem with one affects no other.
         */
        post: operations["Disc_metricsOfMany"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/report/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Get reports of up to 25 identities
         * @description Each result is what a request for its identity alone would return; a problem with one affects no other.
         */
        post: operations["Disc_reports"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List identities in the order of their last change, as a feed
         * @description Needs a key, of any scope, unless the service publishes the feed (`CREDENCE_PUBLIC_READS=all`).
         */
        get: operations["Disc_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/disc/changes/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get changes as they happen, as server-sent events
         * @description Events: `change` (its data has the schema given here), `reset` (lens, model or log changed: every score may differ, and all identities follow), `heartbeat` every 15 s (data: `{position}`). The id of an event is a cursor of the change feed; with it as `Last-Event-ID` the stream continues without a gap or a repeat. Begins now, unless a cursor is given. A client that reads too slowly gets a comment line and is disconnected; so is one whose key is deleted, whose access token expires, or whose session ends. Needs a key, of any scope, unless the service publishes the feed.
         */
        get: operations["Disc_liveChanges"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tris-validations/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the credonations that an identity received, in log order
         * @description Credonations follow from relayed actions; they cannot be requested.
         */
        get: operations["Credonations_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List access policies
         * @description By id, without their rules.
         */
        get: operations["AccessPolicies_list"];
        put?: never;
        /**
         * Create an access policy
         * @description A policy cannot be changed. Repeating the same content returns 200. The key’s organization owns it, and its name. Needs a key with the scope `policies:write`.
         */
        post: operations["AccessPolicies_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Check a subject by an access policy
         * @description Records the decision. A grant comes with a token, and with a voucher if a wallet was named; a denial with the reasons and how to pass, if the caller may read the rules. Needs a key with the scope `access:check`.
         */
        post: operations["AccessPolicies_check"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/check/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Check up to 100 subjects by an access policy, or one subject by up to 20
         * @description Send `policy_id` with a list of subjects, or `policy_ids` with one subject. Each result is what its check alone would return, and each decision is recorded; a problem with one affects no other. A retry with the same Idempotency-Key returns the same decisions. `Credence-Position` covers all. There are no vouchers. Needs a key with the scope `access:check`.
         */
        post: operations["AccessPolicies_checkMany"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/evaluate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Try the rules of an access policy on some subjects; writes nothing
         * @description Decides as a check by a policy of the key’s organization would, for up to 100 subjects, and gives the outcome of every node of the rules. The policy need not exist. Nothing is recorded, and there are no tokens. Needs a key with the scope `policies:write`.
         */
        post: operations["AccessPolicies_evaluate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Decide recorded access decisions again by other rules, in the background
         * @description Each decision that the key may read, as in `GET /v1/access/decisions`, is decided again at its own time, position, lens and model, by a stored policy or by rules that need not be stored. The job’s `result` has the sums; `GET /v1/jobs/:job_id/result` has, for 24 hours, a line for each decision that would differ. Nothing is recorded. Needs a key with the scope `policies:write`.
         */
        post: operations["AccessPolicies_replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/{policy_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an access policy
         * @description A private one needs a key of its owner, or a key with `ops`.
         */
        get: operations["AccessPolicies_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/{policy_id}/population": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Evaluate an access policy for all identities, in the background
         * @description For callers that may read the rules. The job’s `result` has the sums; `GET /v1/jobs/:job_id/result` has, for 24 hours, a line `{tris_id, outcome}` for each identity, with the outcome `granted`, `denied` or `unknown`. No decision is recorded. Needs a key with the scope `policies:write`.
         */
        post: operations["AccessPolicies_population"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/ap/{policy_id}/retire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retire an access policy: it can no longer be checked
         * @description Tokens that it granted stay valid until they expire, unless they are revoked. Needs a key with the scope `policies:write`.
         */
        post: operations["AccessPolicies_retire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/access/decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List recorded access decisions, the latest first
         * @description Needs `audit:read`, or a key of an organization with `policies:write` or `access:check`. A key of an organization sees the decisions by its own policies only, a session those about its own TRIS. A page looks at up to 1,000 decisions, so with filters it may contain few or none: continue until `next_cursor` is null. Needs a key of any scope, or the session of a wallet.
         */
        get: operations["Decisions_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/access/decisions/{jti}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a recorded access decision
         * @description Needs `audit:read`, or a key of an organization with `policies:write` or `access:check`. A key of an organization sees the decisions by its own policies only, a session those about its own TRIS. Needs a key of any scope, or the session of a wallet.
         */
        get: operations["Decisions_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/access/decisions/{jti}/notice": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a notice of a recorded access decision, for the person it is about
         * @description At most four principal reasons, signed (`credence-notice+jws`). As JSON, as text or as HTML, whichever `Accept` names first. Needs `audit:read`, or a key of an organization with `policies:write` or `access:check`. A key of an organization sees the decisions by its own policies only, a session those about its own TRIS. Thresholds are for readers of the rules. Needs a key of any scope, or the session of a wallet.
         */
        get: operations["Decisions_notice"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/eligibility/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Check whether an eligibility token is valid now
         * @description Also checks whether it was revoked, which a verifier without access to the service cannot do.
         */
        post: operations["Eligibility_verify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/eligibility/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Revoke an eligibility token
         * @description Needs a key with the scope `access:check`.
         */
        post: operations["Eligibility_revoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/eligibility/issuers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the addresses that sign vouchers, for contracts to trust, and the type they sign
         * @description A contract accepts a voucher if one of them signed it.
         */
        get: operations["Eligibility_issuers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List validation policies
         * @description By id.
         */
        get: operations["ValidationPolicies_list"];
        put?: never;
        /**
         * Create a validation policy
         * @description A policy cannot be changed. Repeating it with the same content returns 200. It has no effect until promoted. Needs a key with the scope `policies:write`.
         */
        post: operations["ValidationPolicies_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp/{policy_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a validation policy and its history
         * @description Where it is active now, and each promotion, rollback and retirement.
         */
        get: operations["ValidationPolicies_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp/{policy_id}/retire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retire a validation policy: it can no longer be promoted
         * @description It can still be selected with `vp`, and stays active where it is until another is promoted. Needs a key with the scope `policies:write`.
         */
        post: operations["ValidationPolicies_retire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp/evaluate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Preview what a policy would change, for some identities or for all; writes nothing
         * @description Compares with the active lens of the scope. One preview over all identities runs at a time; a replay does the same in the background. Needs a key with the scope `policies:write`.
         */
        post: operations["ValidationPolicies_evaluate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp/{policy_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replay all identities under a policy, in the background
         * @description Needs a key with the scope `policies:write`.
         */
        post: operations["ValidationPolicies_replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replays/{replay_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the progress and the result of a replay
         * @description Needs a key with the scope `policies:write`.
         */
        get: operations["ValidationPolicies_getReplay"];
        put?: never;
        post?: never;
        /**
         * Cancel a replay; has no effect on a finished one
         * @description Needs a key with the scope `policies:write`.
         */
        delete: operations["ValidationPolicies_cancelReplay"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp/{policy_id}/promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a policy the lens of the platform or of the owning organization
         * @description Requires the scope `ops` for the platform, `policies:write` for the organization. For the platform the weights of the inputs must add up to 0.95 to 1.05. Returns 202 with a job_id if the read models take longer than two seconds to switch. Needs a key of any scope.
         */
        post: operations["ValidationPolicies_promote"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/vp/{policy_id}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Return to the lens that was active before a policy was promoted
         * @description Scopes and answers are those of a promotion. Needs a key of any scope.
         */
        post: operations["ValidationPolicies_rollBack"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/promotions/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the status of a promotion that returned 202
         * @description Needs a key of any scope.
         */
        get: operations["ValidationPolicies_promotion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the versions of the scoring model
         * @description And which of them serves the platform.
         */
        get: operations["Models_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{model_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replay all identities by a version of the model, in the background
         * @description Compares with the version that serves the platform, under the platform’s lens. Needs a key with the scope `ops`.
         */
        post: operations["Models_replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{model_id}/promote": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make a version of the model the one that serves the platform
         * @description Returns 202 if the read models take longer than two seconds to switch. Needs a key with the scope `ops`.
         */
        post: operations["Models_promote"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models/{model_id}/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Return to the version that was active before a version of the model was promoted
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Models_rollBack"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/policies/names": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Give the name of policies to an organization
         * @description The name is the id of a policy without its version. Whoever creates the first version owns it; an operator can reserve it before, or take it back from somebody who should not have it. Existing policies keep their owner. Needs a key with the scope `ops`.
         */
        post: operations["PolicyNames_assign"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tris/auth/siwe/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Start a wallet sign-in: returns the message to sign (EIP-4361)
         * @description The message is valid for ten minutes.
         */
        post: operations["Sessions_start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tris/auth/siwe/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Complete a wallet sign-in: exchanges the signed message for a session
         * @description A message can be used once, whether or not its signature is valid.
         */
        post: operations["Sessions_verify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tris/token/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange a refresh token for a new one and an access token
         * @description The same token sent again within 15 seconds gets the same new refresh token; sent later it ends the session. A contract wallet is asked again whether it accepts the signature of the sign-in.
         */
        post: operations["Sessions_refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tris/token/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End the session of a refresh token permanently
         * @description An unknown token gets the same answer (RFC 7009).
         */
        post: operations["Sessions_revoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tris/sessions/end": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End all sessions of a wallet that signed for it
         * @description The message comes from /v1/tris/auth/siwe/start with the purpose `end_sessions`.
         */
        post: operations["Sessions_end"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/link-account": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Link a wallet to a TRIS ID on the caller’s statement
         * @description A link made by a key is only asserted: it gives no right to act for the TRIS, and a signed link replaces it. A session links its own wallet, to the TRIS it acts for or to the wallet’s own: `tris:<address>`, of a contract `tris:eip155:<chain>:<address>`. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        post: operations["Wallets_linkAccount"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wallets/link": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Link a wallet that signed for it to the TRIS of the session
         * @description The message comes from /v1/tris/auth/siwe/start with the purpose `link` and is signed by the new wallet. An operator’s key may send it for any TRIS, to link its first wallet or to replace a lost one. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        post: operations["Wallets_link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wallets/unlink": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End the link of a wallet
         * @description A session of the TRIS can end any of its links, a session of the wallet only its own; the link of the wallet that founded the TRIS only with `message` and `signature` of that wallet. A key can end asserted links, an operator’s key with `ops` any link with a `reason_code`. All sessions of the wallet end with a link it signed. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        post: operations["Wallets_unlink"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wallets/end-sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * End all sessions of a wallet, on every chain
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Wallets_endSessions"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wallets/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the wallets of a TRIS by address, for its own session or a key
         * @description A key of an organization sees only the wallets whose links its organization asserted. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        get: operations["Wallets_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get who sends this request: a key and what it permits, or a session and whom it acts for
         * @description Of a session the TRIS, its wallets, verifications and open disputes, and the BAD status if one is set. Needs a key of any scope, or the session of a wallet.
         */
        get: operations["Person_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/me/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download everything that is recorded about the TRIS of the session, as lines of JSON (NDJSON)
         * @description A line for each event, then one with `end_of_export`: the number of events, and the SHA-256 of the lines before. If that is missing, the export broke off: read it again. docs/privacy.md describes the lines, and what can be erased. Needs the session of a wallet.
         */
        get: operations["Person_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wallets/ingest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Read a linked wallet’s history on a chain, in the background
         * @description Its events in listed contracts become actions of its TRIS, each counted once. The wallet must have signed its link. Takes a session of the TRIS or a key. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        post: operations["Ingestion_ingest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/wallets/ingest/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the progress and the result of reading a wallet’s history
         * @description A session sees those of its own TRIS, a key of an organization those that its organization started. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        get: operations["Ingestion_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tris/verifications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Verify an identity by a zero-knowledge proof
         * @description Takes a session of the TRIS or a key. The proof is bound to the identity. Repeating it returns 200. Needs a key with the scope `identity:write`, or the session of a wallet.
         */
        post: operations["Verifications_submit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/verification-schemes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List verification schemes
         * @description By id, without their keys.
         */
        get: operations["Verifications_list"];
        put?: never;
        /**
         * Register a verification scheme: what a proof under a verification key grants
         * @description Only the roots of a scheme can change. Registering the same content again returns 200. transcript_hash binds the key to the record of its setup; it is declared, for auditors to compare. Needs a key with the scope `ops`.
         */
        post: operations["Verifications_register"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/verification-schemes/{scheme}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a verification scheme, with everything a prover needs
         * @description Its verification key, public inputs and accepted roots.
         */
        get: operations["Verifications_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/verification-schemes/{scheme}/roots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Accept proofs of another root of the issuer
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Verifications_addRoot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/verification-schemes/{scheme}/roots/{root}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Stop accepting proofs of a root; what it granted stays
         * @description Needs a key with the scope `ops`.
         */
        delete: operations["Verifications_removeRoot"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/verification-schemes/{scheme}/retire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retire a scheme: it accepts no more proofs; what it granted stays
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Verifications_retire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/identities": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find identities by the beginning of their id, also after its namespace, or by a platform they own
         * @description A page may have fewer entries than `limit`, or none: continue until `next_cursor` is null. Needs a key of any scope.
         */
        get: operations["Identity_find"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/identities/{tris_id}/bad-status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Set an identity’s BAD status: it overrides the computed score
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Identity_setBadStatus"];
        /**
         * Clear an identity’s BAD status
         * @description Needs a key with the scope `ops`.
         */
        delete: operations["Identity_clearBadStatus"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/identities/{tris_id}/verifications": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Grant an identity a verification status
         * @description Needs a key with the scope `identity:write`.
         */
        post: operations["Identity_grant"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/identities/{tris_id}/verifications/{status}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revoke a verification status: with an organization’s key its own grants, with an operator’s key all
         * @description Needs a key with the scope `identity:write`.
         */
        delete: operations["Identity_revoke"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/issuers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List accredited issuers
         * @description Needs a key of any scope.
         */
        get: operations["Accreditation_list"];
        put?: never;
        /**
         * Accredit an issuer of verifications: its grants of these statuses count in every policy
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Accreditation_accredit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/issuers/{issuer}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Withdraw an accreditation: the issuer’s grants then count only in policies that name it
         * @description Needs a key with the scope `ops`.
         */
        delete: operations["Accreditation_withdraw"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove/submit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Submit a verifiable record: a milestone, an activity or an AI agent’s behavior
         * @description It counts once it is approved: by its proof, which is verified in the background, or by a reviewer. Needs a key with the scope `trove:write`.
         */
        post: operations["Trove_submit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List records in order of submission
         * @description Needs a key of any scope.
         */
        get: operations["Trove_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove/{record_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a record
         * @description Needs a key of any scope.
         */
        get: operations["Trove_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove/{record_id}/review": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Approve or reject a record, lift a rejection, or revoke an approval
         * @description An organization decides for its own platforms; its rejection leaves the record to others. An operator’s rejection stands until an operator lifts it. Nobody reviews what their own organization, or the same key, submitted. Needs a key with the scope `trove:review`.
         */
        post: operations["Trove_review"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove-issuers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Register an issuer: records with its proof are approved from now on
         * @description An issuer cannot be changed. Registering the same content again returns 200. Needs a key with the scope `ops`.
         */
        post: operations["Issuers_register"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove-issuers/{issuer_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an issuer
         * @description Needs a key of any scope.
         */
        get: operations["Issuers_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/trove-issuers/{issuer_id}/retire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retire an issuer: its proofs are no longer trusted
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Issuers_retire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List webhooks of the key’s organization
         * @description Needs a key with the scope `webhooks:write`.
         */
        get: operations["Webhooks_list"];
        put?: never;
        /**
         * Create a webhook: receive changes instead of polling for them
         * @description It belongs to the organization of the key, and sees scores as its keys do. Needs a key with the scope `webhooks:write`.
         */
        post: operations["Webhooks_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a webhook
         * @description Needs a key with the scope `webhooks:write`.
         */
        get: operations["Webhooks_get"];
        put?: never;
        post?: never;
        /**
         * Delete a webhook
         * @description Needs a key with the scope `webhooks:write`.
         */
        delete: operations["Webhooks_delete"];
        options?: never;
        head?: never;
        /**
         * Change a webhook, pause it, or enable it again
         * @description What happened while it was disabled is delivered once it is enabled again. Needs a key with the scope `webhooks:write`.
         */
        patch: operations["Webhooks_change"];
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}/rotate-secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replace the secret of a webhook
         * @description For a day, messages have a signature by the old secret, too. Needs a key with the scope `webhooks:write`.
         */
        post: operations["Webhooks_rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test message at once, and say what the receiver answered
         * @description Its type is `webhook.test`. It is neither repeated nor listed. Needs a key with the scope `webhooks:write`.
         */
        post: operations["Webhooks_test"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Deliver everything after a position, again if it was delivered before
         * @description Repeated messages have the `webhook-id` that they had before. Needs a key with the scope `webhooks:write`.
         */
        post: operations["Webhooks_replay"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List deliveries of a webhook, newest first
         * @description The newest 1,000 deliveries of the last seven days, and older ones that still wait. Needs a key with the scope `webhooks:write`.
         */
        get: operations["Webhooks_deliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a delivery again at once, and say what the receiver answered
         * @description Needs a key with the scope `webhooks:write`.
         */
        post: operations["Webhooks_redeliver"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/organizations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List registered organizations
         * @description Needs a key with the scope `ops`.
         */
        get: operations["Organizations_list"];
        put?: never;
        /**
         * Register an organization and the platforms it owns
         * @description For a registered organization it adds platforms, or returns 200 if there is nothing to add. Needs a key with the scope `ops`.
         */
        post: operations["Organizations_register"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/organizations/{tris_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an organization
         * @description Needs a key with the scope `ops`.
         */
        get: operations["Organizations_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/organizations/{tris_id}/vet": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Vet an organization: it has a public rank from now on
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Organizations_vet"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/organizations/{tris_id}/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Revoke an organization’s vetting
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Organizations_revoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/platforms": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Register a platform to an organization
         * @description Needs a key with the scope `ops`.
         */
        post: operations["Organizations_registerPlatform"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the state of the log, the read models, dead letters and failed jobs
         * @description It can be asked for every second or two: what would take long to count is null. Needs a key with the scope `ops`.
         */
        get: operations["Operations_status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/rebuild": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Build a generation of views beside the one that serves
         * @description An interrupted build of the same views starts again. A worker runs it; `GET /v1/jobs/{job_id}` shows its progress and its result. Needs a key with the scope `ops`.
         */
        post: operations["Operations_rebuild"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/swap": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Serve the views of a ready generation
         * @description The previous one is kept for a rollback. A worker runs it; `GET /v1/jobs/{job_id}` shows its progress and its result. Needs a key with the scope `ops`.
         */
        post: operations["Operations_swap"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/rollback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Undo the last swap
         * @description A worker runs it; `GET /v1/jobs/{job_id}` shows its progress and its result. Needs a key with the scope `ops`.
         */
        post: operations["Operations_rollback"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fold the whole log again and compare every row of the read models that serve
         * @description A worker runs it; `GET /v1/jobs/{job_id}` shows its progress and its result. Needs a key with the scope `ops`.
         */
        post: operations["Operations_verify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/generations/{generation}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete a generation that does not serve
         * @description Needs a key with the scope `ops`.
         */
        delete: operations["Operations_drop"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the API keys, without their secrets
         * @description Needs a key with the scope `ops`.
         */
        get: operations["Keys_list"];
        put?: never;
        /**
         * Create an API key
         * @description The answer contains the key, which is stored nowhere: a repeated request is refused. Except for `reads`, it cannot have scopes that the key of this request lacks. Not in the cluster profile, where all processes share the file of the keys. Needs a key with the scope `ops`.
         */
        post: operations["Keys_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/ops/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an API key, without its secret
         * @description Needs a key with the scope `ops`.
         */
        get: operations["Keys_get"];
        put?: never;
        post?: never;
        /**
         * Delete an API key: this process refuses it from now on, others within a second
         * @description Needs a key with the scope `ops`.
         */
        delete: operations["Keys_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get what the organization of the key of this request, or the key without one, has used of its bounds
         * @description What other processes have counted in the last second may be missing. Needs a key of any scope.
         */
        get: operations["Usage_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the newest jobs of all callers
         * @description Needs a key with the scope `ops`.
         */
        get: operations["Jobs_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{job_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the progress and the result of a job
         * @description A key needs `ops` or the scope that starts such a job. A key of an organization sees only the jobs that its organization started. Needs a key of any scope.
         */
        get: operations["Jobs_get"];
        put?: never;
        post?: never;
        /**
         * Cancel a job; has no effect on a finished one
         * @description A key needs `ops` or the scope that starts such a job. A key of an organization sees only the jobs that its organization started. Needs a key of any scope.
         */
        delete: operations["Jobs_cancel"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/jobs/{job_id}/result": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Download the result of a job as lines of JSON (NDJSON)
         * @description A key needs `ops` or the scope that starts such a job. A key of an organization sees only the jobs that its organization started. Of a job about all identities, one line for each; else the `result` as one line. If it breaks off, the connection is closed before the end of the answer: read it again. Needs a key of any scope.
         */
        get: operations["Jobs_result"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List events that could not be decoded
         * @description Needs a key with the scope `ops`.
         */
        get: operations["DeadLetters_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dead-letters/{event_id}/acknowledge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Acknowledge an undecodable event: its identity no longer counts as incomplete because of it
         * @description Only the first acknowledgement is stored; later ones return it. Needs a key with the scope `ops`.
         */
        post: operations["DeadLetters_acknowledge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit/inclusion": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Prove that an event is in the log (RFC 9162)
         * @description docs/verify.md says how to check the proof, and what it proves.
         */
        get: operations["Audit_inclusion"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit/consistency": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Prove that the log begins with the events that it had before (RFC 9162)
         * @description docs/verify.md says how to check the proof, and what it proves.
         */
        get: operations["Audit_consistency"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/.well-known/jwks.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the public keys that verify proofs and tokens (RFC 7517)
         * @description A key is published here at least ten minutes before it signs.
         */
        get: operations["Proofs_jwks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check whether the process responds
         * @description For the supervisor of the process.
         */
        get: operations["Ops_live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check whether every part of the service works, or all that reads or writes need
         * @description For load balancers, `for=reads` or `for=writes`: 503 names the part that does not work.
         */
        get: operations["Ops_ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        LivenessDto: {
            /** @description Always `ok`. */
            status: string;
        };
        CheckDto: {
            /**
             * @description `ok` or `failed`.
             * @enum {string}
             */
            status: "ok" | "failed";
            /** @description The name of the part. */
            name: string;
            /** @description The state of the part, in words. */
            detail: string;
        };
        ReadinessDto: {
            /**
             * @description `ok` or `unavailable`.
             * @enum {string}
             */
            status: "ok" | "unavailable";
            /** @description The parts of the service. */
            checks: components["schemas"]["CheckDto"][];
        };
        PublicJwkDto: {
            /** @description The family of the algorithm, `OKP`. */
            kty: string;
            /** @description The curve, `Ed25519`. */
            crv: string;
            /** @description The public key, base64url. */
            x: string;
            /** @description RFC 7638 thumbprint. */
            kid: string;
            /** @description What the key is for: signatures. */
            use: string;
            /** @description The algorithm, `EdDSA`. */
            alg: string;
        };
        JwkSetDto: {
            /** @description The keys (RFC 7517). */
            keys: components["schemas"]["PublicJwkDto"][];
        };
        AcknowledgementDto: {
            /**
             * Format: date-time
             * @description The time of this entry.
             */
            at: string;
            /** @description `key:<id>`, or `cli:<user>`. */
            by: string;
            /** @description The reason, as a code of lower-case letters, digits and underscores. */
            reason_code: string;
        };
        DeadLetterDto: {
            /**
             * Format: uuid
             * @description The id of an event in the log.
             */
            event_id: string;
            /** @description The type of the event. */
            event_type: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The identity that the event is about; null if it could not be determined. */
            tris_id: string | null;
            /** @description Why the event cannot be decoded. */
            reason: string;
            /** @description null: open, and the identity is incomplete. */
            acknowledged: components["schemas"]["AcknowledgementDto"] | null;
        };
        DeadLettersDto: {
            /** @description The events, in log order. */
            dead_letters: components["schemas"]["DeadLetterDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        AcknowledgeDeadLetterDto: {
            /**
             * @description Why the event can be ignored.
             * @example confirmed_fraud
             */
            reason_code: string;
        };
        JobProgressDto: {
            /** @description How much is done. */
            done: number;
            /** @description How much there is to do. */
            total: number;
        };
        /**
         * @description Stable, machine-readable name of the kind.
         * @enum {string}
         */
        ProblemCode: "validation_failed" | "malformed_request" | "malformed_json" | "unknown_criticality" | "unknown_metric" | "batch_too_large" | "position_unknown" | "personal_data" | "address_checksum" | "chain_not_configured" | "vouchers_not_configured" | "siwe_malformed" | "siwe_too_long" | "siwe_signature_form" | "siwe_signature_compact" | "unauthorized" | "siwe_domain" | "siwe_uri" | "siwe_not_yet_valid" | "siwe_expired" | "siwe_too_old" | "siwe_nonce_unknown" | "nonce_used" | "siwe_address" | "siwe_chain" | "siwe_resources" | "siwe_changed" | "siwe_purpose" | "siwe_signature" | "siwe_signature_high_s" | "siwe_claim" | "siwe_no_contract" | "refresh_unknown" | "refresh_reused" | "refresh_revoked" | "session_revoked" | "token_malformed" | "token_type" | "token_algorithm" | "token_signature" | "token_audience" | "token_expired" | "forbidden" | "self_statement" | "own_submission" | "signature_required" | "platform_not_owned" | "policy_name_not_owned" | "not_found" | "event_id_unknown" | "identity_not_found" | "policy_not_found" | "decision_not_found" | "replay_not_found" | "job_not_found" | "generation_not_found" | "key_not_found" | "ingestion_not_found" | "record_not_found" | "issuer_not_found" | "organization_not_found" | "organization_not_vetted" | "wallet_not_linked" | "scheme_not_found" | "webhook_not_found" | "delivery_not_found" | "method_not_allowed" | "request_timeout" | "withdrawals_changed" | "job_not_completed" | "platform_already_registered" | "external_id_conflict" | "action_not_withdrawn" | "wallet_already_linked" | "policy_conflict" | "ingestion_open" | "record_conflict" | "record_decided" | "record_counted" | "issuer_conflict" | "policy_retired" | "policy_not_active" | "model_not_active" | "promotion_conflict" | "replay_not_usable" | "scheme_conflict" | "scheme_retired" | "nullifier_used" | "verification_revoked" | "dispute_open" | "dispute_answered" | "statement_withdrawn" | "delivery_pending" | "generation_conflict" | "operation_open" | "key_conflict" | "key_in_use" | "keys_read_only" | "write_conflict" | "job_result_expired" | "payload_too_large" | "uri_too_long" | "unsupported_media_type" | "weight_criticality_mismatch" | "duplicate_metric" | "total_weight_out_of_range" | "too_many_metrics" | "too_many_decisions" | "too_many_disputes" | "too_many_webhooks" | "idempotency_key_reused" | "public_signal_mismatch" | "proof_expired" | "proof_invalid" | "rate_limited" | "quota_exceeded" | "headers_too_large" | "internal_error" | "job_failed" | "history_unreadable" | "shutting_down" | "newer_schema" | "chain_unavailable" | "store_unavailable" | "too_many_streams" | "preview_busy" | "verifier_unavailable" | "store_busy" | "store_full" | "log_replaced" | "read_models_foreign" | "read_models_damaged" | "projection_behind" | "projection_rebuilding";
        FieldErrorDto: {
            /** @description RFC 6901 JSON pointer into the body, `?name` for a query parameter, the plain name of a path parameter or header. */
            pointer: string;
            /** @description The stable, machine-readable name of the rule that the field breaks. */
            code: string;
            /** @description What is wrong, in words. */
            message: string;
        };
        ItemProblemDto: {
            /**
             * Format: uri-reference
             * @description URI reference that identifies the kind of problem.
             */
            type: string;
            /** @description Stable, machine-readable name of the kind. */
            code: components["schemas"]["ProblemCode"];
            /** @description The name of the kind of problem. */
            title: string;
            /** @description The HTTP status of the problem. */
            status: number;
            /** @description What is wrong with this item. */
            detail: string;
            /** @description The first ten wrong fields, with pointers into the item. */
            errors?: components["schemas"]["FieldErrorDto"][];
        };
        JobSummaryDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /** @description What it does, such as `vp_replay`. */
            kind: string;
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        JobsDto: {
            /** @description The newest first. */
            jobs: components["schemas"]["JobSummaryDto"][];
        };
        JobDto: components["schemas"]["VpReplayJobDto"] | components["schemas"]["ApReplayJobDto"] | components["schemas"]["ApPopulationJobDto"] | components["schemas"]["RebuildJobDto"] | components["schemas"]["SwapJobDto"] | components["schemas"]["RollbackJobDto"] | components["schemas"]["VerifyJobDto"] | components["schemas"]["WithdrawalsDryRunJobDto"] | components["schemas"]["WithdrawalsJobDto"] | components["schemas"]["TroveVerificationJobDto"] | components["schemas"]["DisputeWithdrawalJobDto"] | components["schemas"]["ChainIngestionJobDto"];
        InclusionDto: {
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The index of the event: how many events are before it. */
            index: number;
            /** @description The number of events in the tree. */
            size: number;
            /** @description The root of the tree. */
            root: string;
            /** @description The leaf of the event: its hash. */
            leaf: string;
            /** @description The hashes from the sibling of the leaf up. */
            proof: string[];
            /** @description The same for the newest signed checkpoint, as a file (C2SP tlog-proof); null while none includes the event. */
            tlog_proof: string | null;
        };
        ConsistencyDto: {
            /** @description The number of events in the older tree. */
            from: number;
            /** @description The number of events in the newer tree. */
            to: number;
            /** @description The root of the older tree. */
            from_root: string;
            /** @description The root of the newer tree. */
            to_root: string;
            /** @description The hashes, in the order of RFC 9162. */
            proof: string[];
        };
        LeaseDto: {
            /** @description Identifies the worker that applies events to it. */
            holder: string;
            /**
             * Format: date-time
             * @description When it expires; null if it does not.
             */
            expires_at: string;
        };
        GenerationDto: {
            /**
             * @description Whether it is being built, can be read, is damaged, or was dropped.
             * @enum {string}
             */
            status: "building" | "ready" | "damaged" | "dropped";
            /** @description The versions of its views. */
            views: {
                [key: string]: number;
            };
            /** @description Such as `g2`. */
            id: string;
            /** @description Whether it was folded from this log. */
            of_this_log: boolean;
            /** @description The views that requests read from it. */
            serves: string[];
            /** @description Its checkpoint: the last event that it has applied. */
            position: string;
            /** @description Null if it is of another log. */
            applied_events: number | null;
            /** @description Events that it has not applied: of more than 1,000, EventStoreDB gives an estimate. */
            lag_events: number;
            /** @description Age of the oldest event that it has not applied; 0 at the head. */
            lag_seconds: number;
            /** @description The worker that applies events to it now; null if none does. */
            lease: components["schemas"]["LeaseDto"] | null;
        };
        OpenDeadLetterDto: {
            /**
             * Format: uuid
             * @description The id of an event in the log.
             */
            event_id: string;
            /** @description The type of the event. */
            event_type: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The identity that the event is about; null if it could not be determined. */
            tris_id: string | null;
            /** @description Why the event cannot be decoded. */
            reason: string;
        };
        DeadLetterCountsDto: {
            /** @description Over HTTP at most 1,000. */
            open: number;
            /** @description Over HTTP at most 1,000. */
            acknowledged: number;
            /** @description The oldest 20. */
            oldest_open: components["schemas"]["OpenDeadLetterDto"][];
        };
        FailedJobDto: {
            /** @description What it was to do. */
            kind: string;
            /** @description Its `job_id`. */
            id: string;
            /** @description The number of attempts so far. */
            attempts: number;
            /** @description Why it failed; null if it did not. */
            error: string | null;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        FailedJobsDto: {
            /** @description Over HTTP among the newest 50 jobs. */
            count: number;
            /** @description The newest 20. */
            newest: components["schemas"]["FailedJobDto"][];
        };
        StatusDto: {
            /** @description The generation of each view before the last swap, to which a rollback returns; null if there was no swap. */
            previous_views: {
                [key: string]: string;
            } | null;
            /** @description Identifies the log. */
            log_id: string;
            /** @description The position of the last event. */
            head: string;
            /** @description Events of the log: of those that no generation that serves has applied, EventStoreDB gives an estimate. */
            events: number;
            /** @description Every generation that was not dropped. */
            generations: components["schemas"]["GenerationDto"][];
            /** @description How many events cannot be decoded. */
            dead_letters: components["schemas"]["DeadLetterCountsDto"];
            /** @description Jobs that failed their last attempt. */
            failed_jobs: components["schemas"]["FailedJobsDto"];
        };
        RebuildDto: {
            /** @description The views to build. Default: all. */
            views?: ("identities" | "timeline" | "actions" | "credonations" | "organizations" | "policies" | "access_policies" | "decisions" | "lenses" | "trove" | "disputes" | "wallets" | "schemes" | "accreditations" | "webhooks" | "dead_letters" | "log_tree")[];
            /**
             * @description Serve the generation once it is built.
             * @default false
             */
            swap?: boolean;
        };
        JobStartedDto: {
            /** @description The id of a job, for querying its status. */
            job_id: string;
        };
        SwapDto: {
            /** @description A ready generation. */
            generation: string;
        };
        DroppedGenerationDto: {
            /** @description The id of the generation that was deleted. */
            generation: string;
        };
        KeyDto: {
            /** @description What the key permits. */
            scopes: ("reads" | "relay:write" | "policies:write" | "access:check" | "audit:read" | "identity:write" | "trove:write" | "trove:review" | "webhooks:write" | "ops")[];
            /** @description The id of an API key. */
            key_id: string;
            /** @description The TRIS id of the organization. */
            organization: string | null;
            /** @description Whether it is the development key, which is in a separate file and cannot be deleted here. */
            is_development: boolean;
        };
        KeysDto: {
            /** @description The keys, without their secrets. */
            keys: components["schemas"]["KeyDto"][];
            /** @description Why keys can be neither created nor deleted here; null if they can. */
            read_only: string | null;
        };
        CreateKeyDto: {
            /** @description Events record it as the actor `key:<id>`. */
            key_id: string;
            /** @description What it permits: scopes that the key of this request has, or `reads`. */
            scopes: ("reads" | "relay:write" | "policies:write" | "access:check" | "audit:read" | "identity:write" | "trove:write" | "trove:review" | "webhooks:write" | "ops")[];
            /**
             * @description The organization that it acts for. Default: none.
             * @example tris@alice
             */
            organization?: string;
        };
        CreatedKeyDto: {
            /** @description What the key permits. */
            scopes: ("reads" | "relay:write" | "policies:write" | "access:check" | "audit:read" | "identity:write" | "trove:write" | "trove:review" | "webhooks:write" | "ops")[];
            /** @description The id of an API key. */
            key_id: string;
            /** @description The TRIS id of the organization. */
            organization: string | null;
            /** @description Whether it is the development key, which is in a separate file and cannot be deleted here. */
            is_development: boolean;
            /** @description The key itself. It is shown only this once. */
            key: string;
        };
        DeletedKeyDto: {
            /** @description The id of an API key. */
            key_id: string;
        };
        UsedBoundDto: {
            /**
             * @description `actions` and their `bytes` that were relayed today; `job_results` and their `job_bytes` that are kept, and
             *     `delivery_bytes` of webhooks.
             * @enum {string}
             */
            name: "actions" | "bytes" | "job_results" | "job_bytes" | "delivery_bytes";
            /** @description How much of it. */
            used: number;
            /** @description null: there is none. */
            limit: number | null;
            /** @description When it begins at 0 again; null for what is kept. */
            resets_at: string | null;
        };
        UsageDto: {
            /** @description The organization of the key of this request; `key:<id>` if it has none. */
            owner: string;
            /** @description One for each name. */
            bounds: components["schemas"]["UsedBoundDto"][];
        };
        RelayActionDto: {
            /**
             * @description Identity that the action belongs to.
             * @example tris@alice
             */
            tris_id: string;
            /**
             * @description Kind of action; with the category it forms the metric. The suffix `_flags` makes it negative evidence.
             * @example loan_repayment
             */
            action_type: string;
            /**
             * @description Minimal, Low, Moderate, High or Critical, in any case.
             * @example High
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /**
             * @description Platform that verified and submits the action.
             * @example lending.example
             */
            platform_id: string;
            /**
             * Format: date-time
             * @description When it happened; default: when the request is received. At most a minute ahead of the server's clock.
             */
            occurred_at?: string;
            /**
             * @description The platform's own id of the action. A repeat with the same id is recorded once and gets the same answer.
             * @example order-2041
             */
            external_id?: string;
            /**
             * Format: uri
             * @description Location of the evidence. The log contains only its SHA-256.
             */
            evidence_uri?: string;
            /**
             * @description TRIS of the other side: who rated, lent or reviewed. It endorses the identity instead of the platform's owner.
             * @example tris@alice
             */
            counterparty?: string;
            /**
             * @description A metric category.
             * @enum {string}
             */
            category: "financial" | "creative" | "educational" | "behavioral" | "social" | "security" | "compliance" | "finance" | "governance";
        };
        RelayedDto: {
            /**
             * @description The action is recorded.
             * @enum {string}
             */
            status: "received";
            /**
             * @description `vouched` if an operator's key relayed it, or one of an organization that was vetted then; else `unvouched`.
             * @enum {string}
             */
            source: "vouched" | "unvouched";
            /** @description The outcome, and why the action has its source, in words. */
            message: string;
            /**
             * Format: uuid
             * @description Id of the recorded action.
             */
            action_id: string;
        };
        RelayBatchDto: {
            /** @description Each is judged and recorded by itself, as if it were sent alone. */
            actions: components["schemas"]["RelayActionDto"][];
        };
        BatchActionDto: {
            /**
             * @description As in the answer to one action.
             * @enum {string}
             */
            source: "vouched" | "unvouched";
            /**
             * Format: uuid
             * @description Id of the recorded action.
             */
            action_id: string;
            /** @description Where the action is in the log, for `Credence-Min-Position`. */
            position: string;
        };
        RelayBatchItemDto: {
            /** @description The place of the action in the request, from 0; blank lines do not count. */
            index: number;
            /** @description The HTTP status that a request with this action alone would have returned: 202 if it is recorded. */
            status: number;
            /** @description The answer that a request for this item alone would have returned. */
            data?: components["schemas"]["BatchActionDto"];
            /** @description Why there is no data. */
            problem?: components["schemas"]["ItemProblemDto"];
        };
        RelayBatchResultDto: {
            /** @description One for each action, in order. */
            results: components["schemas"]["RelayBatchItemDto"][];
        };
        ActionChangeDto: {
            /**
             * @description The state since then.
             * @enum {string}
             */
            state: "counted" | "withdrawn";
            /**
             * @description Why.
             * @enum {string}
             */
            reason: "mistake" | "duplicate" | "reversed" | "disputed" | "key_compromised";
            /**
             * Format: date-time
             * @description The time of this entry.
             */
            at: string;
            /** @description `key:<id>`, `cli:<user>`, or the job of the service that did it. null: a session is not told. */
            by: string | null;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        ActionDto: {
            /**
             * @description The criticality, from which the weight follows.
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /**
             * @description As in the answer to its relay.
             * @enum {string}
             */
            source: "vouched" | "unvouched";
            /**
             * @description Whether it counts.
             * @enum {string}
             */
            state: "counted" | "withdrawn";
            /**
             * Format: uuid
             * @description The id of an action: that of its event in the log.
             */
            action_id: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /** @description The id of a platform, which verifies actions. */
            platform_id: string;
            /** @description The organization that owns the platform; null: it is not registered. */
            organization: string | null;
            /** @description TRIS of the other side. Absent if it is not recorded. */
            counterparty?: string;
            /**
             * Format: date-time
             * @description When it happened.
             */
            occurred_at: string;
            /**
             * Format: date-time
             * @description When the service recorded it.
             */
            recorded_at: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description Its withdrawals and reinstatements, the oldest first. */
            changes: components["schemas"]["ActionChangeDto"][];
        };
        OutcomeDto: {
            /** @description Whether access is granted. */
            granted: boolean;
            /** @description null: the subject was unknown. */
            score: number | null;
        };
        AffectedDecisionDto: {
            /**
             * Format: uuid
             * @description The id of an eligibility token.
             */
            jti: string;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /**
             * Format: date-time
             * @description When the check was made.
             */
            checked_at: string;
            /** @description As it was recorded. */
            was: components["schemas"]["OutcomeDto"];
            /** @description At its own time, position, lens and model, without the action. */
            would_be: components["schemas"]["OutcomeDto"];
            /**
             * Format: date-time
             * @description Until when its token is valid; null: there is none.
             */
            expires_at: string | null;
        };
        AffectedDecisionsDto: {
            /**
             * Format: uuid
             * @description The id of an action: that of its event in the log.
             */
            action_id: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description Decisions in which the action counted. */
            decisions: number;
            /** @description Those that would be granted instead of denied, or denied instead of granted; the latest first. */
            differ: components["schemas"]["AffectedDecisionDto"][];
        };
        ChangeActionDto: {
            /**
             * @description Why.
             * @enum {string}
             */
            reason: "mistake" | "duplicate" | "reversed" | "disputed" | "key_compromised";
            /**
             * @description Only answer with the score before and after; nothing is recorded.
             * @default false
             */
            dry_run?: boolean;
        };
        EvidenceDto: {
            /**
             * @description The amount of evidence in a word.
             * @enum {string}
             */
            word: "none" | "thin" | "some" | "solid";
            /** @description Good days and flags that still count, four decimals. */
            amount: number;
        };
        DiscMetricsDto: {
            /** @description Health of the category `financial`. */
            financial: number;
            /** @description Health of the category `creative`. */
            creative: number;
            /** @description Health of the category `educational`. */
            educational: number;
            /** @description Health of the category `behavioral`. */
            behavioral: number;
            /** @description Health of the category `social`. */
            social: number;
            /** @description Health of the category `security`. */
            security: number;
            /** @description Health of the category `compliance`. */
            compliance: number;
        };
        VerificationDto: {
            /** @description The verification status. */
            status: string;
            /** @description Who granted it: the TRIS id of an organization, or `key:<id>`. */
            issuer: string;
            /** @description How it was established: `operator`, or the id of a verification scheme. */
            scheme: string;
            /**
             * Format: date-time
             * @description When it expires; null if it does not.
             */
            expires_at: string | null;
            /** @description Whether it counts in policies that name no issuer: a proof, an operator's grant, or an accredited issuer's. */
            accredited: boolean;
        };
        BadStatusSinceDto: {
            /** @description The level of the BAD status, 1 (worst) to 6. */
            level: number;
            /** @description The reason, as a code of lower-case letters, digits and underscores. */
            reason_code: string;
            /**
             * Format: date-time
             * @description When the status was set.
             */
            since: string;
        };
        LensDto: {
            /** @description null: the model's own lens, which weighs an action by its criticality. */
            policy_id: string | null;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string;
        };
        ModelDto: {
            /**
             * @description The version of the model.
             * @enum {string}
             */
            id: "disc-1" | "disc-2";
            /** @description Identifies the version: equal hashes mean the same constants and formulas. */
            hash: string;
        };
        ScoreDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The range that contains the reliability with a probability of 90 %. From disc-2 on. */
            reliability_interval?: [
                number,
                number
            ];
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description 1.0..100.0, one decimal. */
            score: number;
            /** @description max(0, earned − forfeited). */
            total_tct: number;
            /** @description TCT of all actions without flags. */
            earned_tct: number;
            /** @description Ten times the flagged TCT. */
            forfeited_tct: number;
            /** @description 0..1, four decimals: the probability that the next action is a good one. */
            reliability: number;
            /** @description The amount of evidence for the reliability. From disc-2 on. */
            evidence?: components["schemas"]["EvidenceDto"];
            /** @description Health by category. */
            disc_metrics: components["schemas"]["DiscMetricsDto"];
            /** @description The current verification statuses of the identity. */
            verification: components["schemas"]["VerificationDto"][];
            /** @description The BAD status that overrides the score; null if none is set. */
            bad_status: components["schemas"]["BadStatusSinceDto"] | null;
            /** @description Generation of the read models that the answer comes from. */
            generation: string;
            /** @description Present if an event about the identity could not be decoded and has not been acknowledged. */
            incomplete?: boolean;
            /** @description How many statements about the identity are disputed now, whatever the viewpoint. Absent if none is. */
            disputed?: number;
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
            /** @description The last position that counts, `<log id>.<decimal>`. */
            position: string;
        };
        ChangedActionDto: {
            /**
             * @description Whether the action counts now or, in a dry run, would count.
             * @enum {string}
             */
            state: "counted" | "withdrawn";
            /**
             * Format: uuid
             * @description The id of an action: that of its event in the log.
             */
            action_id: string;
            /** @description Of the event that brought it into this state; for `Credence-Min-Position`. Absent in a dry run. */
            position?: string;
            /** @description The present score of the identity. Only in a dry run, as the next. */
            before?: components["schemas"]["ScoreDto"];
            /** @description What the score would be. */
            after?: components["schemas"]["ScoreDto"];
        };
        WithdrawActionsDto: {
            /**
             * Format: uuid
             * @description Only this action.
             */
            action_id?: string;
            /** @description Only actions that this API key relayed. */
            key_id?: string;
            /**
             * @description Only actions of this platform.
             * @example lending.example
             */
            platform_id?: string;
            /**
             * Format: date-time
             * @description Only actions that were recorded at this time or later.
             */
            recorded_from?: string;
            /**
             * Format: date-time
             * @description Only actions that were recorded at this time or earlier. Default: now.
             */
            recorded_to?: string;
            /** @description The id of a completed dry run, whose set is withdrawn. Nothing else may be given with it. */
            apply?: string;
            /**
             * @description Why. Required for a dry run, and used when its set is withdrawn.
             * @enum {string}
             */
            reason?: "mistake" | "duplicate" | "reversed" | "disputed" | "key_compromised";
            /** @description Must be `true`, unless `apply` is given: what is withdrawn is always the set of a dry run. */
            dry_run?: boolean;
        };
        DiscScoreDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description Net TCT, at least 0. */
            total_tct: number;
            /** @description Health by category. */
            disc_metrics: components["schemas"]["DiscMetricsDto"];
        };
        DiscRankDto: {
            /**
             * @description The rank by accumulated TCT.
             * @enum {string}
             */
            disc_rank: "Unranked" | "Bronze" | "Silver" | "Gold" | "Platinum" | "Diamond";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description Accumulated TCT, at least 0. */
            tct_total: number;
        };
        MinuteDto: {
            /**
             * Format: date-time
             * @description The time of this entry.
             */
            at: string;
            /** @description Accepted relays. */
            relayed: number;
            /** @description Access checks that granted access. */
            granted: number;
            /** @description Access checks that denied it. */
            denied: number;
        };
        LatestRatingChangeDto: {
            /**
             * @description The rating before.
             * @enum {string}
             */
            from: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /**
             * @description The rating after.
             * @enum {string}
             */
            to: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /**
             * Format: date-time
             * @description When the service recorded it.
             */
            recorded_at: string;
            /** @description After the change. */
            score: number;
        };
        OverviewDto: {
            /** @description Number of identities. */
            identities: number;
            /** @description Number of actions, with those that are withdrawn; null: no module that is enabled keeps them. */
            actions: number | null;
            /** @description Number of registered organizations. */
            organizations: number;
            /** @description The last 60: what this process has recorded. */
            minutes: components["schemas"]["MinuteDto"][];
            /** @description The latest change of rating of those of the 50 identities that changed last, within their last 64 events. */
            rating_changes: components["schemas"]["LatestRatingChangeDto"][];
        };
        HistoryEntryDto: {
            /**
             * @description Present if the operators do not stand behind the action: its organization was not vetted.
             * @enum {string}
             */
            source?: "unvouched";
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /**
             * Format: date-time
             * @description When it happened.
             */
            occurred_at: string;
            /**
             * Format: date-time
             * @description When the service recorded it.
             */
            recorded_at: string;
            /**
             * Format: uuid
             * @description The id of an event in the log.
             */
            event_id: string;
            /** @description The type of the event. */
            event_type: string;
            /** @description A metric, `<category>_<name>`. */
            metric: string | null;
            /** @description The id of a platform, which verifies actions. */
            platform_id: string | null;
            /** @description TRIS of the other side of an action. Absent if it is not recorded. */
            counterparty?: string;
            /**
             * Format: uuid
             * @description The action that is withdrawn or reinstated: the id of its event. Absent in other entries.
             */
            action_id?: string;
            /** @description Why, such as `mistake` or `duplicate`. Absent in other entries. */
            reason?: string;
            /** @description Change of net TCT: the TCT of the action, or minus ten times its TCT for a flag. */
            tct_delta: number;
            /** @description The standing after this event: this field and the next three. */
            total_tct: number;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description The BAD status that determines the score. Absent if none is set. */
            bad_status?: components["schemas"]["BadStatusSinceDto"];
        };
        HistoryDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The events, in log order. */
            entries: components["schemas"]["HistoryEntryDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        ContributionDto: {
            /**
             * @description The category of the metric.
             * @enum {string}
             */
            category: "financial" | "creative" | "educational" | "behavioral" | "social" | "security" | "compliance";
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /** @description Number of actions. */
            actions: number;
            /** @description Its contribution to the earned TCT. If a day's TCT is limited, its share of the limit. */
            tct: number;
            /** @description Share of the earned TCT, 0..1. */
            share: number;
            /**
             * Format: date-time
             * @description When the last of these actions occurred.
             */
            last_at: string;
        };
        PlatformShareDto: {
            /** @description The id of a platform, which verifies actions. */
            platform_id: string;
            /** @description Number of actions. */
            actions: number;
            /** @description Earned TCT. */
            tct: number;
            /** @description TCT of negative evidence. */
            flagged_tct: number;
        };
        CounterpartyShareDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description Number of actions. */
            actions: number;
            /** @description Earned TCT. */
            tct: number;
            /** @description TCT of negative evidence. */
            flagged_tct: number;
        };
        ForfeitDto: {
            /**
             * @description The category of the metric.
             * @enum {string}
             */
            category: "financial" | "creative" | "educational" | "behavioral" | "social" | "security" | "compliance";
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /** @description Number of actions. */
            actions: number;
            /** @description TCT of negative evidence. */
            flagged_tct: number;
            /** @description Ten times the flagged TCT. */
            forfeited_tct: number;
            /**
             * Format: date-time
             * @description When the last of these actions occurred.
             */
            last_at: string;
        };
        NextRatingDto: {
            /**
             * @description The next rating.
             * @enum {string}
             */
            rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The minimum number of UTC days it takes, since the TCT of a day is limited; null: never. From disc-2 on. */
            days_needed?: number | null;
            /** @description Net TCT that is still missing. */
            tct_needed: number;
        };
        ExplanationDto: {
            /** @description The range that contains the reliability with a probability of 90 %. */
            reliability_interval?: [
                number,
                number
            ];
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description The BAD status that determines the score. Absent if none is set. */
            bad_status?: components["schemas"]["BadStatusSinceDto"];
            /** @description Explains the reliability. This field and the next three are present from disc-2 on. */
            summary?: string;
            /** @description The probability that the next action is a good one. */
            reliability?: number;
            /** @description The amount of evidence for the reliability. */
            evidence?: components["schemas"]["EvidenceDto"];
            /** @description The 1,000 metrics with the most TCT. */
            contributions: components["schemas"]["ContributionDto"][];
            /** @description The hundred with the largest effect on the score. */
            platforms: components["schemas"]["PlatformShareDto"][];
            /** @description The hundred with the largest effect on the score. Absent if no action has a counterparty. */
            counterparties?: components["schemas"]["CounterpartyShareDto"][];
            /** @description The 1,000 metrics with the most flagged TCT. */
            forfeits: components["schemas"]["ForfeitDto"][];
            /** @description How many actions are withdrawn and count nowhere. Absent if none is. */
            withdrawn?: number;
            /** @description null at the highest rating, and under an explicit BAD status. */
            next_rating: components["schemas"]["NextRatingDto"] | null;
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
            /** @description The last position that counts, `<log id>.<decimal>`. */
            position: string;
        };
        MetricsDto: {
            /**
             * @description Always `success`.
             * @enum {string}
             */
            status: "success";
            /** @description Health 0..1 by requested name. */
            payload: {
                [key: string]: number;
            };
            /** @description Compact Ed25519 JWS over subject, payload, timestamp and coordinates. */
            proof: string;
            /**
             * Format: date-time
             * @description The time of the answer.
             */
            timestamp: string;
        };
        PeriodDto: {
            /**
             * Format: date-time
             * @description The start of the period.
             */
            from: string;
            /**
             * Format: date-time
             * @description The end of the period.
             */
            to: string;
        };
        TrajectoryPointDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /**
             * Format: date-time
             * @description The time of this entry.
             */
            at: string;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
        };
        CredonatorDto: {
            /** @description The TRIS id of the sender. */
            from: string;
            /** @description The TCT of all endorsed actions. */
            amount: number;
            /** @description Number of credonations. */
            count: number;
        };
        ReportDto: {
            /**
             * @description In months.
             * @enum {integer}
             */
            window: 1 | 3 | 6 | 12;
            /**
             * @description How much detail the report has.
             * @enum {string}
             */
            depth: "snapshot" | "insight" | "analysis";
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The range that contains the reliability with a probability of 90 %. */
            reliability_interval?: [
                number,
                number
            ];
            /** @description The 1,000 metrics with the most actions. */
            actions_by_metric: {
                [key: string]: number;
            };
            /** @description The id of the report. It follows from its content hash. */
            report_id: string;
            /**
             * @description SHA-256 of the RFC 8785 JSON of this report without report_id, report_hash, portable_hash, proof, generated_at and
             *     disputed, and by disc-1 without bad_status.
             */
            report_hash: string;
            /**
             * @description SHA-256 of the RFC 8785 JSON of this report without report_id, report_hash, portable_hash, proof, generated_at,
             *     disputed and position: the same after a migration of the log.
             */
            portable_hash: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The time that the report covers. */
            period: components["schemas"]["PeriodDto"];
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Change since the start of the period. */
            score_delta: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
            /** @description The BAD status that determines the score. Absent if none is set. */
            bad_status?: components["schemas"]["BadStatusSinceDto"];
            /** @description This and the next two: from disc-2 on. */
            reliability?: number;
            /** @description The amount of evidence for the reliability. */
            evidence?: components["schemas"]["EvidenceDto"];
            /** @description The score over the period. */
            trajectory: components["schemas"]["TrajectoryPointDto"][];
            /** @description Health by category. */
            metrics: components["schemas"]["DiscMetricsDto"];
            /** @description Who endorsed the identity most in the period. */
            top_credonators: components["schemas"]["CredonatorDto"][];
            /** @description The platforms with the largest effect in the period. */
            top_platforms: components["schemas"]["PlatformShareDto"][];
            /** @description How many actions of the period are withdrawn and count nowhere. Absent if none is. */
            withdrawn?: number;
            /** @description The current verification statuses of the identity. */
            verification: components["schemas"]["VerificationDto"][];
            /** @description Number of linked wallets. */
            wallets_count: number;
            /** @description How many statements about the identity are disputed now, whatever the viewpoint. Absent if none is. */
            disputed?: number;
            /** @description Compact Ed25519 JWS over the report's id, hash and coordinates. */
            proof: string;
            /**
             * Format: date-time
             * @description When the report was generated.
             */
            generated_at: string;
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
            /** @description The last position that counts, `<log id>.<decimal>`. */
            position: string;
        };
        ScoreBatchDto: {
            /**
             * Format: date-time
             * @description Count only events that occurred by then. Default: the end of the current UTC hour.
             */
            as_of?: string;
            /**
             * Format: date-time
             * @description Count only events that were recorded by then.
             */
            known_at?: string;
            /** @description Id of the validation policy to use as the lens, or `model`. */
            vp?: string;
            /**
             * @description The TRIS ids of the identities, each once.
             * @example [
             *       "tris@alice"
             *     ]
             */
            tris_ids: string[];
            /**
             * @description Version of the scoring model. Default: the one that serves the platform.
             * @enum {string}
             */
            model?: "disc-1" | "disc-2";
        };
        ScoreResultDto: {
            /** @description The answer that a request for this item alone would have returned. */
            data?: components["schemas"]["ScoreDto"];
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The HTTP status that a request for this identity alone would have returned. */
            status: number;
            /** @description Why there is no data. */
            problem?: components["schemas"]["ItemProblemDto"];
        };
        ScoreBatchResultDto: {
            /** @description One result for each item of the request, in order. */
            results: components["schemas"]["ScoreResultDto"][];
        };
        MetricsBatchDto: {
            /**
             * Format: date-time
             * @description Count only events that occurred by then. Default: the end of the current UTC hour.
             */
            as_of?: string;
            /**
             * Format: date-time
             * @description Count only events that were recorded by then.
             */
            known_at?: string;
            /** @description Id of the validation policy to use as the lens, or `model`. */
            vp?: string;
            /**
             * @description The TRIS ids of the identities, each once.
             * @example [
             *       "tris@alice"
             *     ]
             */
            tris_ids: string[];
            /** @description Categories, aliases or full metrics; default: the seven categories. */
            metrics?: string[];
            /**
             * @description Version of the scoring model. Default: the one that serves the platform.
             * @enum {string}
             */
            model?: "disc-1" | "disc-2";
        };
        MetricsResultDto: {
            /** @description The answer that a request for this item alone would have returned. */
            data?: components["schemas"]["MetricsDto"];
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The HTTP status that a request for this identity alone would have returned. */
            status: number;
            /** @description Why there is no data. */
            problem?: components["schemas"]["ItemProblemDto"];
        };
        MetricsBatchResultDto: {
            /** @description One result for each item of the request, in order. */
            results: components["schemas"]["MetricsResultDto"][];
        };
        ReportBatchDto: {
            /**
             * Format: date-time
             * @description Count only events that occurred by then. Default: the end of the current UTC hour.
             */
            as_of?: string;
            /**
             * Format: date-time
             * @description Count only events that were recorded by then.
             */
            known_at?: string;
            /** @description Id of the validation policy to use as the lens, or `model`. */
            vp?: string;
            /**
             * @description The TRIS ids of the identities, each once.
             * @example [
             *       "tris@alice"
             *     ]
             */
            tris_ids: string[];
            /**
             * @description Months that the report covers.
             * @default 3
             * @enum {integer}
             */
            window?: 1 | 3 | 6 | 12;
            /**
             * @description How much detail the report has.
             * @default insight
             * @enum {string}
             */
            depth?: "snapshot" | "insight" | "analysis";
            /**
             * @description Version of the scoring model. Default: the one that serves the platform.
             * @enum {string}
             */
            model?: "disc-1" | "disc-2";
        };
        ReportResultDto: {
            /** @description The answer that a request for this item alone would have returned. */
            data?: components["schemas"]["ReportDto"];
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The HTTP status that a request for this identity alone would have returned. */
            status: number;
            /** @description Why there is no data. */
            problem?: components["schemas"]["ItemProblemDto"];
        };
        ReportBatchResultDto: {
            /** @description One result for each item of the request, in order. */
            results: components["schemas"]["ReportResultDto"][];
        };
        ChangeDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
            /** @description Position of the last event about the identity. */
            position: string;
        };
        ChangesDto: {
            /** @description The identities that changed, in the order of their last change. */
            changes: components["schemas"]["ChangeDto"][];
            /** @description Cursor for later changes. Never null: poll with it. */
            next_cursor: string;
            /** @description Present if the cursor was for another log, lens or model: the feed starts again from the beginning. */
            reset?: boolean;
        };
        LiveChangeDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
            /** @description Position of the last event about the identity. */
            position: string;
        };
        CredonationDto: {
            /**
             * @description The category of the endorsed action.
             * @enum {string}
             */
            category: "financial" | "creative" | "educational" | "behavioral" | "social" | "security" | "compliance";
            /** @description TRIS of the sender. */
            from: string;
            /** @description TCT of the endorsed action. */
            amount: number;
            /**
             * Format: date-time
             * @description When the action occurred.
             */
            timestamp: string;
        };
        ValidationsDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The credonations, in log order. */
            validations: components["schemas"]["CredonationDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        RegisterOrganizationDto: {
            /**
             * @description The TRIS id of the organization.
             * @example tris@alice
             */
            tris_org: string;
            /**
             * @description Platforms it owns. A platform belongs to one organization permanently. A repeated request may add platforms; its
             *     answer contains only those it names, `GET /v1/organizations/{tris_id}` returns all.
             * @example [
             *       "lending.example"
             *     ]
             */
            platform_ids: string[];
        };
        OrganizationDto: {
            /** @description The platforms that the organization owns. */
            platform_ids: string[];
            /** @description The TRIS id of the organization. */
            tris_org: string;
            /** @description Whether the organization is vetted and so has a public rank. */
            vetted: boolean;
            /**
             * Format: date-time
             * @description When it was registered.
             */
            registered_at: string;
        };
        ListedOrganizationDto: {
            /** @description The TRIS id of the organization. */
            tris_org: string;
            /** @description Whether the organization is vetted and so has a public rank. */
            vetted: boolean;
            /**
             * Format: date-time
             * @description When it was registered.
             */
            registered_at: string;
        };
        OrganizationsDto: {
            /** @description The organizations. */
            organizations: components["schemas"]["ListedOrganizationDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        VettingDto: {
            /** @description The TRIS id of the organization. */
            tris_org: string;
            /** @description Whether the organization is vetted and so has a public rank. */
            vetted: boolean;
        };
        RegisterPlatformDto: {
            /**
             * @description The id of a platform, which verifies actions.
             * @example lending.example
             */
            platform_id: string;
            /**
             * @description A registered organization.
             * @example tris@alice
             */
            tris_org: string;
        };
        PlatformDto: {
            /** @description The id of a platform, which verifies actions. */
            platform_id: string;
            /** @description The TRIS id of the organization. */
            tris_org: string;
        };
        AccreditIssuerDto: {
            /** @description The TRIS id of an organization, or `key:<id>`, as verifications list it. */
            issuer: string;
            /** @description Verification statuses. */
            statuses: ("zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)")[];
        };
        AccreditedIssuerDto: {
            /** @description Its grants of these count in every policy. */
            statuses: ("zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)")[];
            /** @description Who granted it: the TRIS id of an organization, or `key:<id>`. */
            issuer: string;
        };
        AccreditedIssuersDto: {
            /** @description The issuers. */
            issuers: components["schemas"]["AccreditedIssuerDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        FoundIdentityDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The platform of this organization that `prefix` names; null: its id begins so. */
            platform_id: string | null;
        };
        IdentitiesDto: {
            /** @description The owner of the platform, then the others in the order of what begins with `prefix`. */
            identities: components["schemas"]["FoundIdentityDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        SetBadStatusDto: {
            /** @description 1 (worst) to 6; becomes the identity's score. */
            level: number;
            /**
             * @description A code of lower-case letters, digits and underscores; no free text, since the log cannot be edited.
             * @example confirmed_fraud
             */
            reason_code: string;
        };
        BadStatusDto: {
            /** @description The level of the BAD status, 1 (worst) to 6. */
            level: number;
            /** @description The reason, as a code of lower-case letters, digits and underscores. */
            reason_code: string;
        };
        IdentityBadStatusDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The BAD status that overrides the score; null if none is set. */
            bad_status: components["schemas"]["BadStatusDto"] | null;
        };
        GrantVerificationDto: {
            /**
             * Format: date-time
             * @description Default: does not expire.
             */
            expires_at?: string;
            /** @description SHA-256 of the evidence, which the operator keeps. */
            evidence_hash: string;
            /**
             * @description The verification status.
             * @enum {string}
             */
            status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
        };
        GrantedVerificationDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The verification status. */
            status: string;
            /** @description Who granted it: the TRIS id of an organization, or `key:<id>`. */
            issuer: string;
            /** @description How it was established: `operator`, or the id of a verification scheme. */
            scheme: string;
            /**
             * Format: date-time
             * @description When it expires; null if it does not.
             */
            expires_at: string | null;
        };
        RevokedVerificationDto: {
            /**
             * @description Always true.
             * @enum {boolean}
             */
            revoked: true;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The verification status. */
            status: string;
        };
        ProofDto: {
            /** @description A point of the first group of bn254: `[x, y, "1"]`. */
            pi_a: string[];
            /** @description A point of the second group of bn254. */
            pi_b: string[][];
            /** @description A point of the first group of bn254: `[x, y, "1"]`. */
            pi_c: string[];
            /**
             * @description The proof system.
             * @enum {string}
             */
            protocol: "groth16";
            /**
             * @description Another name of bn254.
             * @enum {string}
             */
            curve: "bn128";
        };
        SubmitProofDto: {
            /** @description The id of a verification scheme. */
            scheme: string;
            /**
             * @description One for each public input of the scheme, in their order.
             * @example [
             *       "1814400"
             *     ]
             */
            public_signals: string[];
            /**
             * @description The subject of the proof. Default for a session: the TRIS it acts for.
             * @example tris@alice
             */
            tris_id?: string;
            /** @description The proof. */
            proof: components["schemas"]["ProofDto"];
        };
        VerificationGrantedDto: {
            /**
             * @description The verification status.
             * @enum {string}
             */
            status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description Who granted it: the TRIS id of an organization, or `key:<id>`. */
            issuer: string;
            /** @description The id of a verification scheme. */
            scheme: string;
            /**
             * Format: date-time
             * @description When it expires; null if it does not.
             */
            expires_at: string;
        };
        PublicInputDto: {
            /**
             * @description Required for a constant, not allowed for other roles.
             * @example 1814400
             */
            value?: string;
            /**
             * @description What the public signal means.
             * @enum {string}
             */
            role: "nullifier" | "root" | "scope" | "subject" | "expires_at" | "constant";
        };
        VerificationKeyDto: {
            /** @description Number of public signals. */
            nPublic: number;
            /** @description A point of the first group of bn254: `[x, y, "1"]`. */
            vk_alpha_1: string[];
            /** @description A point of the second group of bn254. */
            vk_beta_2: string[][];
            /** @description A point of the second group of bn254. */
            vk_gamma_2: string[][];
            /** @description A point of the second group of bn254. */
            vk_delta_2: string[][];
            /** @description Accepted and ignored: it follows from alpha and beta. */
            vk_alphabeta_12?: unknown[];
            /** @description One point of the first group for each public signal, and one more. */
            IC: string[][];
            /**
             * @description The proof system.
             * @enum {string}
             */
            protocol: "groth16";
            /**
             * @description Another name of bn254.
             * @enum {string}
             */
            curve: "bn128";
        };
        RegisterSchemeDto: {
            /** @description The id of a verification scheme. */
            scheme: string;
            /**
             * @description TRIS id of the organization whose roots it accepts, and whose API key can revoke what it grants.
             * @example tris@alice
             */
            issuer: string;
            /** @description A credential verifies at most one identity in a scope, across all schemes with that scope. */
            scope: string;
            /** @description What each public signal means, in their order. */
            public_inputs: components["schemas"]["PublicInputDto"][];
            /**
             * @description SHA-256, in hex, of the transcript of the trusted setup that made the key. With snarkjs: of the final .zkey file,
             *     which contains the hash of the circuit and all contributions.
             */
            transcript_hash: string;
            /**
             * @description Merkle roots or keys of the issuer whose proofs are accepted.
             * @example [
             *       "1814400"
             *     ]
             */
            roots: string[];
            /**
             * @description What a proof grants.
             * @enum {string}
             */
            status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
            /** @description The verification key of the circuit. */
            verification_key: components["schemas"]["VerificationKeyDto"];
        };
        StoredInputDto: {
            /**
             * @description What the public signal means.
             * @enum {string}
             */
            role: "nullifier" | "root" | "scope" | "subject" | "expires_at" | "constant";
            /** @description The value of a constant; null for other roles. */
            value: string | null;
        };
        SchemeDto: {
            /**
             * @description The verification status that a proof grants.
             * @enum {string}
             */
            status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
            /** @description The public signal that encodes the scope. */
            scope_value: string;
            /** @description What each public signal means, in their order. */
            public_inputs: components["schemas"]["StoredInputDto"][];
            /** @description The verification key of the circuit. */
            verification_key: components["schemas"]["VerificationKeyDto"];
            /** @description Merkle roots or keys of the issuer whose proofs are accepted. */
            roots: string[];
            /** @description The id of a verification scheme. */
            scheme: string;
            /** @description Who granted it: the TRIS id of an organization, or `key:<id>`. */
            issuer: string;
            /** @description A credential verifies at most one identity in a scope. */
            scope: string;
            /** @description SHA-256 of the key's RFC 8785 JSON, without vk_alphabeta_12. */
            verification_key_hash: string;
            /** @description SHA-256 of the transcript of the key's setup, as declared; null for a scheme registered before it was required. */
            transcript_hash: string | null;
            /**
             * Format: date-time
             * @description When it was registered.
             */
            registered_at: string;
            /** @description Whether it was retired. */
            retired: boolean;
        };
        ListedSchemeDto: {
            /**
             * @description The verification status that a proof grants.
             * @enum {string}
             */
            status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
            /** @description The id of a verification scheme. */
            scheme: string;
            /** @description Who granted it: the TRIS id of an organization, or `key:<id>`. */
            issuer: string;
            /** @description A credential verifies at most one identity in a scope. */
            scope: string;
            /** @description SHA-256 of the key's RFC 8785 JSON, without vk_alphabeta_12. */
            verification_key_hash: string;
            /** @description SHA-256 of the transcript of the key's setup, as declared; null for a scheme registered before it was required. */
            transcript_hash: string | null;
            /**
             * Format: date-time
             * @description When it was registered.
             */
            registered_at: string;
            /** @description Whether it was retired. */
            retired: boolean;
        };
        SchemesDto: {
            /** @description The schemes. */
            schemes: components["schemas"]["ListedSchemeDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        AddRootDto: {
            /**
             * @description A Merkle root or key of the issuer, as a decimal number.
             * @example 1814400
             */
            root: string;
        };
        EasDomainDto: {
            /** @description The chain (EIP-155). */
            chain_id: number;
            /**
             * @description In lower case, or with a correct EIP-55 checksum.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            verifying_contract: string;
        };
        RegisterIssuerDto: {
            /** @description The id of a registered issuer of records. */
            issuer_id: string;
            /**
             * @description Records it proves count as actions of this platform: its owner endorses the identity.
             * @example lending.example
             */
            platform_id: string;
            /** @description Public key: 32 bytes as base64url. */
            ed25519?: string;
            /**
             * @description Ethereum address: in lower case, or with a correct EIP-55 checksum.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            address?: string;
            /** @description Only with `address`: attestations of other domains are refused. Default: any domain is accepted. */
            eas_domain?: components["schemas"]["EasDomainDto"];
        };
        IssuerDto: {
            /** @description The id of a registered issuer of records. */
            issuer_id: string;
            /** @description The id of a platform, which verifies actions. */
            platform_id: string;
            /** @description The public key, 32 bytes as base64url; null if it has an address. */
            ed25519: string | null;
            /** @description The Ethereum address; null if it has an Ed25519 key. */
            address: string | null;
            /** @description null: attestations of any domain are accepted. */
            eas_domain: components["schemas"]["EasDomainDto"] | null;
            /** @description Whether it was retired. */
            retired: boolean;
        };
        AttestationDomainDto: {
            /** @description The chain (EIP-155). */
            chainId: number;
            /** @description The contract of the EIP-712 domain. */
            verifyingContract: string;
            /**
             * @description The name in the EIP-712 domain.
             * @enum {string}
             */
            name: "EAS Attestation";
            /** @description The version in the EIP-712 domain. */
            version: string;
        };
        AttestationMessageDto: {
            /** @description The UID of the schema, 32 bytes as hex. */
            schema: string;
            /** @description The address that the attestation is about. */
            recipient: string;
            /** @description When the attestation was made. */
            time: number;
            /** @description 0: does not expire. */
            expirationTime: number;
            /** @description The UID of a related attestation; zeros: none. */
            refUID: string;
            /** @description ABI-encoded values of the schema. */
            data: string;
            /** @description 32 bytes that make the attestation unique. */
            salt: string;
            /**
             * @description The version of off-chain attestations.
             * @enum {integer}
             */
            version: 2;
            /** @description Whether the attestation can be revoked. */
            revocable: boolean;
        };
        AttestationDto: {
            /** @description The EIP-712 domain. */
            domain: components["schemas"]["AttestationDomainDto"];
            /** @description The attested content. */
            message: components["schemas"]["AttestationMessageDto"];
        };
        RecordProofDto: {
            /** @description Id of a registered issuer. */
            issuer: string;
            /** @description Ed25519: 64 bytes as base64url. Ethereum: 65 bytes as hex after 0x. */
            signature: string;
            /**
             * @description `signature`: over the record's statement; `eas`: an off-chain attestation.
             * @enum {string}
             */
            type: "signature" | "eas";
            /** @description Required for `eas`, not allowed for `signature`. */
            attestation?: components["schemas"]["AttestationDto"];
        };
        SubmitRecordDto: {
            /**
             * @description Identity the record is about.
             * @example tris@alice
             */
            tris_id: string;
            /** @description Metric that it counts for once approved; the suffix `_flags` makes it negative evidence. */
            metric: string;
            /**
             * @description The criticality, from which the weight follows.
             * @example High
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /** @description Title for human readers. The log contains only its SHA-256. */
            title: string;
            /** @description SHA-256 of the content. The same content of the same submitter is the same record. */
            content_hash: string;
            /**
             * Format: uri
             * @description Location of the content. The log contains only its SHA-256.
             */
            uri?: string;
            /**
             * Format: date-time
             * @description When it happened; at most a minute ahead of the server's clock.
             */
            occurred_at: string;
            /**
             * @description The agent; required for ai_behavior records, not allowed for others.
             * @example lending.example
             */
            agent_id?: string;
            /**
             * @description TRIS of the agent's operator; required for ai_behavior records, not allowed for others.
             * @example tris@alice
             */
            operator_tris?: string;
            /**
             * @description The kind of record.
             * @enum {string}
             */
            record_type: "milestone" | "activity" | "ai_behavior";
            /** @description A record without a proof is decided by a reviewer. */
            proof?: components["schemas"]["RecordProofDto"];
        };
        SubmittedRecordDto: {
            /**
             * @description The state of the record.
             * @enum {string}
             */
            status: "Pending" | "Approved" | "Rejected";
            /** @description The content hash; of an organization's record followed by `-` and 16 hexadecimal digits. */
            record_id: string;
        };
        OfferedProofDto: {
            /**
             * @description The kind of proof.
             * @enum {string}
             */
            type: "signature" | "eas";
            /** @description The id of the issuer that signed. */
            issuer: string;
        };
        RecordDecisionDto: {
            /**
             * @description How the record was decided.
             * @enum {string}
             */
            method: "signature" | "attestation" | "review";
            /** @description An issuer's id, or `key:<id>` of the reviewer. */
            decided_by: string;
            /** @description The reason, as a code of lower-case letters, digits and underscores. */
            reason_code: string | null;
            /**
             * Format: date-time
             * @description When it was decided.
             */
            decided_at: string;
            /**
             * Format: uuid
             * @description Id of the action it became.
             */
            action_id: string | null;
            /** @description Platform of the action. */
            platform_id: string | null;
        };
        RecordReviewDto: {
            /**
             * @description How the record was decided.
             * @enum {string}
             */
            method: "signature" | "attestation" | "review";
            /** @description An issuer's id, or `key:<id>` of the reviewer. */
            decided_by: string;
            /** @description The reason, as a code of lower-case letters, digits and underscores. */
            reason_code: string | null;
            /**
             * Format: date-time
             * @description When it was decided.
             */
            decided_at: string;
            /**
             * Format: uuid
             * @description Id of the action it became.
             */
            action_id: string | null;
            /** @description Platform of the action. */
            platform_id: string | null;
            /** @description The TRIS id of the organization. */
            organization: string;
            /** @description Whether it approved the record. */
            approved: boolean;
        };
        RecordDto: {
            /**
             * @description The state of the record.
             * @enum {string}
             */
            status: "Pending" | "Approved" | "Rejected";
            /**
             * @description The kind of record.
             * @enum {string}
             */
            record_type: "milestone" | "activity" | "ai_behavior";
            /**
             * @description The criticality of the record.
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /** @description null after it was deleted. */
            title: string | null;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string;
            /**
             * Format: uri
             * @description The location of the content; null if it was not given, or after it was deleted.
             */
            uri: string | null;
            /**
             * Format: date-time
             * @description When it happened.
             */
            occurred_at: string;
            /**
             * Format: date-time
             * @description When it was submitted.
             */
            submitted_at: string;
            /** @description The AI agent; null for other records. */
            agent_id: string | null;
            /** @description The TRIS id of the agent’s operator; null for other records. */
            operator_tris: string | null;
            /** @description The proof that the record came with; null: without a proof. */
            proof: components["schemas"]["OfferedProofDto"] | null;
            /** @description The organization that submitted it; null: an operator. */
            submitter: string | null;
            /** @description The first approval, or the rejection by an operator or for the proof; null: pending. */
            decision: components["schemas"]["RecordDecisionDto"] | null;
            /** @description Those of organizations, each for its own platforms. */
            reviews: components["schemas"]["RecordReviewDto"][];
            /** @description The text that an issuer signs: canonical JSON, RFC 8785. */
            statement: string;
            /** @description The content hash; of an organization's record followed by `-` and 16 hexadecimal digits. */
            record_id: string;
        };
        RecordsDto: {
            /** @description The records, in order of submission. */
            records: components["schemas"]["RecordDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        ReviewRecordDto: {
            /**
             * @description Required to reject or revoke. A code of lower-case letters, digits and underscores; no free text, since the log cannot
             *     be edited. To revoke, one of the reasons for which an action is withdrawn, such as `mistake`.
             * @example confirmed_fraud
             */
            reason_code?: string;
            /**
             * @description Platform whose action an approved record becomes: its owner endorses the identity. Default `trove`.
             * @example lending.example
             */
            platform_id?: string;
            /**
             * @description `lift` ends a rejection by an operator, and needs an operator's key: the record is then decided again. `revoke` makes
             *     the reviewer's approval a rejection, and withdraws its action.
             * @enum {string}
             */
            decision: "approve" | "reject" | "lift" | "revoke";
        };
        StartSignInDto: {
            /**
             * @description The wallet that will sign.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            address: string;
            /** @description EIP-155. The chain of a contract wallet; any chain for other wallets. */
            chain_id: number;
            /**
             * @description The TRIS to link to or to unlink from. For `claim` it may be left out: a key claims `tris:<address>`, a contract
             *     `tris:eip155:<chain>:<address>`.
             * @example tris@alice
             */
            tris_id?: string;
            /**
             * @description `sign_in`; `claim`: also link the wallet to its own TRIS, `tris:<address in lower case>`; `link`: agree to be
             *     linked to another TRIS, whose session then sends the message to /v1/wallets/link; `unlink`: agree to end the link
             *     of the wallet that founded a TRIS, at /v1/wallets/unlink; `end_sessions`: end all its sessions, at
             *     /v1/tris/sessions/end.
             * @default sign_in
             * @enum {string}
             */
            purpose?: "sign_in" | "link" | "claim" | "unlink" | "end_sessions";
        };
        ChallengeDto: {
            /** @description The nonce in the message. It can be used once. */
            nonce: string;
            /** @description An EIP-4361 message, to be signed unchanged (EIP-191, `personal_sign`). */
            message: string;
            /**
             * Format: date-time
             * @description By when it must be signed and sent.
             */
            expires_at: string;
        };
        SignedMessageDto: {
            /** @description `0x` and hex digits: 65 bytes r, s, v by the wallet's key, or what the wallet's contract accepts, which may be empty. */
            signature: string;
            /** @description Exactly as it was issued. */
            message: string;
        };
        TokensDto: {
            /**
             * @description How the access token is sent.
             * @enum {string}
             */
            token_type: "Bearer";
            /** @description For `Authorization: Bearer`. */
            access_token: string;
            /** @description Lifetime of the access token, s. */
            expires_in: number;
            /** @description Can be used once. */
            refresh_token: string;
            /** @description The TRIS the session acts for; null: the wallet is not linked, or did not sign for its link. */
            tris_id: string | null;
            /** @description EIP-55. */
            wallet: string;
        };
        RefreshTokenDto: {
            /** @description The refresh token. */
            refresh_token: string;
        };
        RevokedDto: {
            /**
             * @description Always true.
             * @enum {boolean}
             */
            revoked: true;
        };
        SessionsEndedDto: {
            /**
             * @description Always true.
             * @enum {boolean}
             */
            ended: true;
            /** @description EIP-55. */
            wallet: string;
        };
        LinkAccountDto: {
            /**
             * @description The address of a wallet.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            wallet: string;
            /**
             * @description The TRIS id of an identity.
             * @example tris@alice
             */
            tris_id: string;
        };
        AccountLinkedDto: {
            /**
             * @description The wallet is linked.
             * @enum {string}
             */
            status: "linked";
        };
        WalletLinkedDto: {
            /**
             * @description The wallet is linked.
             * @enum {string}
             */
            status: "linked";
            /** @description EIP-55. */
            wallet: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
        };
        UnlinkWalletDto: {
            /**
             * @description The address of a wallet.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            wallet: string;
            /** @description The signature, `0x` and hexadecimal digits. */
            signature?: string;
            /**
             * @description Why an operator ends a link that the wallet signed; recorded with it.
             * @example confirmed_fraud
             */
            reason_code?: string;
            /** @description With `signature`: what a wallet that founded its TRIS signed, with the purpose `unlink`. */
            message?: string;
        };
        WalletUnlinkedDto: {
            /**
             * @description The link has ended.
             * @enum {string}
             */
            status: "unlinked";
            /** @description EIP-55. */
            wallet: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
        };
        EndSessionsDto: {
            /**
             * @description The address of a wallet.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            wallet: string;
            /**
             * @description The reason, as a code of lower-case letters, digits and underscores.
             * @example confirmed_fraud
             */
            reason_code: string;
        };
        WalletDto: {
            /**
             * @description `signed` by the wallet, or `asserted` by an API key, which gives no rights.
             * @enum {string}
             */
            proof: "signed" | "asserted";
            /** @description EIP-55. */
            wallet: string;
            /** @description The chain whose contract accepted the signature; null: signed by the key of the address, or not signed. */
            chain_id: number | null;
            /**
             * Format: date-time
             * @description When the wallet was linked.
             */
            linked_at: string;
        };
        WalletsDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The linked wallets, by address. */
            wallets: components["schemas"]["WalletDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        OwnSessionDto: {
            /** @description EIP-55. */
            wallet: string;
            /** @description The chain of the contract wallet that signed in; null: the key of the address did. */
            chain_id: number | null;
            /**
             * Format: date-time
             * @description When its access token expires.
             */
            expires_at: string;
        };
        OwnDisputeDto: {
            /**
             * @description What kind of statement it is.
             * @enum {string}
             */
            about: "action" | "verification" | "bad_status";
            /**
             * Format: date-time
             * @description When it was opened last.
             */
            opened_at: string;
            /** @description The id of the dispute. */
            dispute_id: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /**
             * Format: uuid
             * @description Of an action; else null.
             */
            action_id: string | null;
            /** @description Of an action; else null. */
            platform_id: string | null;
            /** @description Of a verification; else null. */
            verification: string | null;
        };
        MeDto: {
            /** @description What a key permits; empty for a session. */
            scopes: ("reads" | "relay:write" | "policies:write" | "access:check" | "audit:read" | "identity:write" | "trove:write" | "trove:review" | "webhooks:write" | "ops")[];
            /** @description Of a session `session:<wallet>`. */
            key_id: string;
            /** @description The TRIS id of the organization. */
            organization: string | null;
            /** @description The TRIS that the session may act for; empty if the wallet has signed for none. Only of a session, as all below. */
            tris_ids?: string[];
            /** @description Of this request. Sessions cannot be listed: of each, the service stores only what recognises its token. */
            session?: components["schemas"]["OwnSessionDto"];
            /** @description Up to 100 of its wallets, by address; `GET /v1/wallets/:tris_id` lists all. */
            wallets?: components["schemas"]["WalletDto"][];
            /** @description The current verification statuses of the identity. */
            verification?: components["schemas"]["VerificationDto"][];
            /** @description Absent without one. */
            bad_status?: components["schemas"]["BadStatusSinceDto"];
            /** @description Those that are open. */
            disputes?: components["schemas"]["OwnDisputeDto"][];
        };
        OpenDisputeDto: {
            /**
             * Format: uuid
             * @description An action.
             */
            action_id?: string;
            /**
             * @description The BAD status that is set.
             * @enum {boolean}
             */
            bad_status?: true;
            /** @description Of a verification that several have granted: who granted the disputed one. */
            issuer?: string;
            /**
             * @description A verification that is held, by its status.
             * @enum {string}
             */
            verification?: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
            /** @description What is wrong, in words. The log contains only its SHA-256. */
            statement?: string;
        };
        DisputeAnswerDto: {
            /**
             * @description Whether the person was right.
             * @enum {string}
             */
            outcome: "upheld" | "rejected";
            /**
             * Format: date-time
             * @description When it was answered.
             */
            answered_at: string;
            /** @description The organization, or the key of an operator. null: a session is not told the key. */
            decided_by: string | null;
            /** @description null: none, or it was deleted. */
            note: string | null;
        };
        DisputeDto: {
            /**
             * @description What kind of statement it is.
             * @enum {string}
             */
            about: "action" | "verification" | "bad_status";
            /**
             * @description How it stands. `lapsed`: nobody answered in time, so the action does not count; it can be answered still.
             * @enum {string}
             */
            status: "open" | "lapsed" | "upheld" | "rejected";
            /** @description Who made the statement: an organization, or a key. null: the operators, or a session is not told the key. */
            issuer: string | null;
            /** @description null: none, or it was deleted. */
            statement: string | null;
            /**
             * Format: date-time
             * @description When it was opened last.
             */
            opened_at: string;
            /** @description Whether it waits for an answer. */
            open: boolean;
            /** @description When it lapsed last; null: never. */
            lapsed_at: string | null;
            /** @description All of them, the oldest first: it can be opened again after a rejection. */
            answers: components["schemas"]["DisputeAnswerDto"][];
            /** @description The id of the dispute. */
            dispute_id: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /**
             * Format: uuid
             * @description Of an action; else null.
             */
            action_id: string | null;
            /** @description Of an action; else null. */
            platform_id: string | null;
            /** @description Of a verification; else null. */
            verification: string | null;
        };
        DisputesDto: {
            /** @description In the order in which they were opened last. */
            disputes: components["schemas"]["DisputeDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        AnswerDisputeDto: {
            /**
             * @description Whether the person is right.
             * @enum {string}
             */
            outcome: "upheld" | "rejected";
            /** @description Why, for the person. The log contains only its SHA-256. */
            note?: string;
        };
        IngestWalletDto: {
            /**
             * @description The address of a wallet.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            wallet: string;
            /** @description The chain (EIP-155). */
            chain_id: number;
            /** @description First block to read. Default: the block after the last one read, or the chain's first. */
            from_block?: number;
        };
        IngestionProgressDto: {
            /** @description How much is done. */
            done: number;
            /** @description How much there is to do. */
            total: number;
        };
        IngestionResultDto: {
            /** @description Actions withdrawn by this job, since their attestations were revoked. */
            withdrawn: number;
            /** @description The first block that was read. */
            from_block: number;
            /** @description null if there were no new blocks. */
            to_block: number | null;
            /** @description Logs that concern the wallet. */
            logs: number;
            /** @description Actions recorded by this job. */
            recorded: number;
            /** @description Actions that were recorded earlier. */
            already_present: number;
            /** @description Recorded earlier for another identity that the wallet was linked to. */
            counted_elsewhere: number;
        };
        IngestionDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /** @description The TRIS that the history counts for; null for an organization's key. */
            tris_id: string | null;
            /** @description The address of a wallet. */
            wallet: string;
            /** @description The chain (EIP-155). */
            chain_id: number;
            /** @description How much of the work is done. */
            progress: components["schemas"]["IngestionProgressDto"];
            /** @description The result; null before it is completed. */
            result: components["schemas"]["IngestionResultDto"] | null;
            /** @description Why it failed; null if it did not. */
            error: string | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        WebhookFilterDto: {
            /**
             * @description Only events about these identities. Default: all identities.
             * @example [
             *       "tris@alice"
             *     ]
             */
            tris_ids?: string[];
            /** @description `rating.changed` only when the new rating is one of these. Default: any. */
            ratings?: ("BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent")[];
            /** @description `score.crossed` when a score of at least this falls below it. */
            score_below?: number;
            /** @description `score.crossed` when a score of at most this rises above it. */
            score_above?: number;
        };
        CreateWebhookDto: {
            /**
             * Format: uri
             * @description Where messages are sent: an https URL that leads to a public address.
             * @example https://lender.example/hooks/credence
             */
            url: string;
            /** @description The kinds of events to deliver. */
            events: ("rating.changed" | "score.crossed" | "verification.changed" | "bad_status.changed" | "policy.promoted" | "access.denied_now" | "action.withdrawn" | "action.reinstated" | "decision.would_differ" | "dispute.opened" | "dispute.answered")[];
            /** @description The access policy of `access.denied_now`: one of the organization, or a public one. */
            policy_id?: string;
            /** @description Limits what it reports. */
            filter?: components["schemas"]["WebhookFilterDto"];
        };
        StoredFilterDto: {
            /** @description The identities that it reports on; null: all. */
            tris_ids: string[] | null;
            /** @description New ratings that are reported; null: all. */
            ratings: string[] | null;
            /** @description The threshold that a score falls below. */
            score_below: number | null;
            /** @description The threshold that a score rises above. */
            score_above: number | null;
        };
        CreatedWebhookDto: {
            /** @description The events that it reports. */
            events: ("rating.changed" | "score.crossed" | "verification.changed" | "bad_status.changed" | "policy.promoted" | "access.denied_now" | "action.withdrawn" | "action.reinstated" | "decision.would_differ" | "dispute.opened" | "dispute.answered")[];
            /**
             * @description Whether messages are sent.
             * @enum {string}
             */
            status: "active" | "disabled";
            /** @description The key of its signatures. It is not shown again. */
            secret: string;
            /** @description The id of a webhook. */
            webhook_id: string;
            /** @description The owner; null: the platform's operators. */
            tris_org: string | null;
            /** @description null if it was deleted with `credence texts delete`; nothing is sent then. */
            url: string | null;
            /** @description Limits what it reports. */
            filter: components["schemas"]["StoredFilterDto"];
            /** @description The access policy of `access.denied_now`; null: none. */
            policy_id: string | null;
            /** @description `paused` by its owner; `gone`: the receiver answered 410; `failed`: a delivery failed for three days. */
            disabled_reason: string | null;
            /**
             * Format: date-time
             * @description When it was disabled; null while it is active.
             */
            disabled_at: string | null;
            /** @description Number of deliveries that wait for their first or next attempt. */
            pending: number;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description When its secret changed last: it was rotated, or operators have replaced the key from which secrets follow. */
            rotated_at: string | null;
        };
        WebhookDto: {
            /** @description The events that it reports. */
            events: ("rating.changed" | "score.crossed" | "verification.changed" | "bad_status.changed" | "policy.promoted" | "access.denied_now" | "action.withdrawn" | "action.reinstated" | "decision.would_differ" | "dispute.opened" | "dispute.answered")[];
            /**
             * @description Whether messages are sent.
             * @enum {string}
             */
            status: "active" | "disabled";
            /** @description The id of a webhook. */
            webhook_id: string;
            /** @description The owner; null: the platform's operators. */
            tris_org: string | null;
            /** @description null if it was deleted with `credence texts delete`; nothing is sent then. */
            url: string | null;
            /** @description Limits what it reports. */
            filter: components["schemas"]["StoredFilterDto"];
            /** @description The access policy of `access.denied_now`; null: none. */
            policy_id: string | null;
            /** @description `paused` by its owner; `gone`: the receiver answered 410; `failed`: a delivery failed for three days. */
            disabled_reason: string | null;
            /**
             * Format: date-time
             * @description When it was disabled; null while it is active.
             */
            disabled_at: string | null;
            /** @description Number of deliveries that wait for their first or next attempt. */
            pending: number;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /** @description When its secret changed last: it was rotated, or operators have replaced the key from which secrets follow. */
            rotated_at: string | null;
        };
        WebhooksDto: {
            /** @description The webhooks of the organization. */
            webhooks: components["schemas"]["WebhookDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        ChangeWebhookDto: {
            /**
             * Format: uri
             * @description Where messages are sent: an https URL that leads to a public address.
             * @example https://lender.example/hooks/credence
             */
            url?: string;
            /** @description The kinds of events to deliver. */
            events?: ("rating.changed" | "score.crossed" | "verification.changed" | "bad_status.changed" | "policy.promoted" | "access.denied_now" | "action.withdrawn" | "action.reinstated" | "decision.would_differ" | "dispute.opened" | "dispute.answered")[];
            /** @description The access policy of `access.denied_now`: one of the organization, or a public one. */
            policy_id?: string;
            /** @description Replaces the filter. */
            filter?: components["schemas"]["WebhookFilterDto"];
            /**
             * @description `disabled` pauses it; `active` continues where it ended.
             * @enum {string}
             */
            status?: "active" | "disabled";
        };
        DeletedWebhookDto: {
            /**
             * @description It is deleted.
             * @enum {string}
             */
            status: "deleted";
            /** @description The id of a webhook. */
            webhook_id: string;
        };
        RotatedSecretDto: {
            /** @description The id of a webhook. */
            webhook_id: string;
            /** @description The new key. The old one also signs for a day. */
            secret: string;
        };
        AttemptDto: {
            /** @description The `webhook-id` of the message. */
            message_id: string;
            /** @description Whether the receiver answered with a status of 2xx. */
            delivered: boolean;
            /** @description Status of the receiver's answer. */
            status: number | null;
            /** @description Why there is no status. */
            failure: string | null;
            /** @description How long the attempt took, in milliseconds. */
            ms: number;
        };
        ReplayWebhookDto: {
            /** @description A position, as in `Credence-Position`: what happened after it is delivered. */
            after: string;
        };
        ReplayedWebhookDto: {
            /** @description The id of a webhook. */
            webhook_id: string;
            /** @description Everything after this position is delivered. */
            after: string;
        };
        WebhookMessageDto: components["schemas"]["RatingChangedWebhookMessageDto"] | components["schemas"]["ScoreCrossedWebhookMessageDto"] | components["schemas"]["VerificationChangedWebhookMessageDto"] | components["schemas"]["BadStatusChangedWebhookMessageDto"] | components["schemas"]["PolicyPromotedWebhookMessageDto"] | components["schemas"]["AccessDeniedNowWebhookMessageDto"] | components["schemas"]["ActionWithdrawnWebhookMessageDto"] | components["schemas"]["ActionReinstatedWebhookMessageDto"] | components["schemas"]["DecisionWouldDifferWebhookMessageDto"] | components["schemas"]["DisputeOpenedWebhookMessageDto"] | components["schemas"]["DisputeAnsweredWebhookMessageDto"] | components["schemas"]["WebhookTestWebhookMessageDto"];
        LastAttemptDto: {
            /**
             * Format: date-time
             * @description The time of this entry.
             */
            at: string;
            /** @description Status of the receiver’s answer; null without one. */
            status: number | null;
            /** @description Why the attempt has no status, such as `timeout`; null if it has one. */
            failure: string | null;
            /** @description How long the attempt took, in milliseconds. */
            ms: number;
        };
        DeliveryDto: {
            /**
             * @description Whether it was delivered, has failed permanently, or is waiting.
             * @enum {string}
             */
            status: "pending" | "delivered" | "failed";
            /** @description The number of a delivery of the webhook, after `dlv_`. */
            delivery_id: string;
            /** @description The `webhook-id` of the message; the same whenever this event is sent to this webhook. */
            message_id: string;
            /** @description The kind of event that the message reports. */
            event: string;
            /** @description The TRIS id of an identity. */
            tris_id: string | null;
            /** @description The position of the event. */
            position: string;
            /** @description The number of attempts so far. */
            attempts: number;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
            /**
             * Format: date-time
             * @description When the next attempt is due; null if there is none.
             */
            next_attempt_at: string | null;
            /** @description The last attempt; null before the first. */
            last_attempt: components["schemas"]["LastAttemptDto"] | null;
            /** @description The message, which the section `webhooks` of the document describes. */
            payload: {
                [key: string]: unknown;
            };
        };
        DeliveriesDto: {
            /** @description The deliveries, newest first. */
            deliveries: components["schemas"]["DeliveryDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        PolicyInputDto: {
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /**
             * @description The criticality, from which the weight follows.
             * @example High
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /**
             * @description The weight of the criticality: 0.01, 0.03, 0.07, 0.1 or 0.14.
             * @enum {number}
             */
            weight: 0.01 | 0.03 | 0.07 | 0.1 | 0.14;
        };
        PolicyMetadataDto: {
            /** @description Declared by the owner, 0.95 to 1.05. */
            total_weight: number;
            /** @description `v<major>.<minor>`. */
            version: string;
            /**
             * @description Who may read the policy.
             * @enum {string}
             */
            visibility: "public";
        };
        CreatePolicyDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /**
             * @description TRIS id of the owning organization.
             * @example tris@alice
             */
            tris_org: string;
            /** @description The metrics that count, with their weights. */
            inputs: components["schemas"]["PolicyInputDto"][];
            /** @description What the owner declares about the policy. */
            metadata: components["schemas"]["PolicyMetadataDto"];
        };
        WarningDto: {
            /** @description RFC 6901 JSON pointer into the policy. */
            pointer: string;
            /** @description The stable, machine-readable name of the warning. */
            code: string;
            /** @description What may be a mistake, in words. */
            message: string;
        };
        CreatedPolicyDto: {
            /**
             * @description Whether the policy can be promoted.
             * @enum {string}
             */
            status: "available" | "retired";
            /** @description Sum of the inputs' weights by category. */
            category_weights: {
                [key: string]: number;
            };
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The TRIS id of the organization. */
            tris_org: string;
            /** @description SHA-256 of the RFC 8785 JSON of policy_id, tris_org, inputs and metadata with canonical names. */
            content_hash: string;
            /** @description Sum of the inputs' weights. */
            computed_weight: number;
            /** @description Things that are accepted but possibly not intended. */
            warnings: components["schemas"]["WarningDto"][];
        };
        ListedPolicyDto: {
            /**
             * @description Whether the policy can be promoted.
             * @enum {string}
             */
            status: "available" | "retired";
            /** @description Where it is the active lens now: for the platform, for its owner. */
            active_for: ("platform" | "organization")[];
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The TRIS id of the organization. */
            tris_org: string;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string;
            /** @description The version, `v<major>.<minor>`. */
            version: string;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
        };
        PoliciesDto: {
            /** @description The policies, by id. */
            policies: components["schemas"]["ListedPolicyDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        ShownInputDto: {
            /**
             * @description The criticality of the metric.
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /** @description The name that the policy was created with. */
            metric: string;
            /** @description The weight of the metric. */
            weight: number;
        };
        PolicyStateDto: {
            /**
             * @description What happened to the policy.
             * @enum {string}
             */
            status: "created" | "promoted" | "rolled_back" | "retired";
            /**
             * @description Only for promotions and rollbacks.
             * @enum {string}
             */
            scope?: "platform" | "organization";
            /** @description The replay that a promotion was based on. */
            replay_id?: string | null;
            /**
             * Format: date-time
             * @description The time of this entry.
             */
            at: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        PolicyDto: {
            /**
             * @description Whether the policy can be promoted.
             * @enum {string}
             */
            status: "available" | "retired";
            /** @description Sum of the inputs' weights by category. */
            category_weights: {
                [key: string]: number;
            };
            /** @description Where it is the active lens now. */
            active_for: ("platform" | "organization")[];
            /** @description The metrics that count, with their weights. */
            inputs: components["schemas"]["ShownInputDto"][];
            /** @description What the owner declares about the policy. */
            metadata: components["schemas"]["PolicyMetadataDto"];
            /** @description What happened to the policy, in order. */
            history: components["schemas"]["PolicyStateDto"][];
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The TRIS id of the organization. */
            tris_org: string;
            /** @description SHA-256 of the RFC 8785 JSON of policy_id, tris_org, inputs and metadata with canonical names. */
            content_hash: string;
            /** @description Sum of the inputs' weights. */
            computed_weight: number;
            /** @description Things that are accepted but possibly not intended. */
            warnings: components["schemas"]["WarningDto"][];
        };
        RetiredPolicyDto: {
            /**
             * @description Whether the policy can be promoted.
             * @enum {string}
             */
            status: "available" | "retired";
            /** @description The id of a policy, with its version. */
            policy_id: string;
        };
        EvaluatePolicyDto: {
            /** @description Access policies whose decisions to compare. Default: none in a preview, all that are not retired in a replay. */
            access_policies?: string[];
            /** @description A stored policy. Send either this or policy. */
            policy_id?: string;
            /**
             * @description Identities to compare. Default: all, and only the summary is returned.
             * @example [
             *       "tris@alice"
             *     ]
             */
            subjects?: string[];
            /** @description A policy that need not be stored. Send either this or policy_id. */
            policy?: components["schemas"]["CreatePolicyDto"];
            /**
             * @description Version of the scoring model, for both sides. Default: the one that serves the platform.
             * @enum {string}
             */
            model?: "disc-1" | "disc-2";
            /**
             * @description Whether it is for the platform or for an organization.
             * @enum {string}
             */
            scope?: "platform" | "organization";
        };
        LensNameDto: {
            /** @description null: the model's own lens, or the platform's lens if content_hash is null too. */
            policy_id: string | null;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string | null;
        };
        PreviewDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The range that contains the reliability with a probability of 90 %. */
            reliability_interval?: [
                number,
                number
            ];
            /** @description Health by category, 0..1. */
            disc_metrics: {
                [key: string]: number;
            };
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
            /** @description This and the next two: from disc-2 on. */
            reliability?: number;
            /** @description The amount of evidence for the reliability. */
            evidence?: components["schemas"]["EvidenceDto"];
        };
        DeltaDto: {
            /** @description Change of the score. */
            score: number;
            /** @description Change of the health of each category. */
            metrics: {
                [key: string]: number;
            };
            /** @description Change of the net TCT. */
            total_tct: number;
        };
        RatingChangeDto: {
            /**
             * @description The rating now.
             * @enum {string}
             */
            from: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /**
             * @description The rating with the policy.
             * @enum {string}
             */
            to: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
        };
        ReasonDto: {
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /** @description Its share of the net TCT under each lens. */
            before_tct: number;
            /** @description The same with the policy. */
            after_tct: number;
        };
        AccessFlipDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description Whether the check grants now. */
            before: boolean;
            /** @description Whether the check would grant. */
            after: boolean;
        };
        EvaluatedSubjectDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description This and the next three are null for an unknown identity. */
            current: components["schemas"]["PreviewDto"] | null;
            /** @description The answer with the policy. */
            projected: components["schemas"]["PreviewDto"] | null;
            /** @description The change. */
            delta: components["schemas"]["DeltaDto"] | null;
            /** @description null if the rating does not change. */
            rating_change: components["schemas"]["RatingChangeDto"] | null;
            /** @description The metrics whose shares of the net TCT change most, up to five. Empty for an unknown identity. */
            reasons: components["schemas"]["ReasonDto"][];
            /** @description The decisions of the compared access policies, now and with the policy. */
            access: components["schemas"]["AccessFlipDto"][];
            /** @description Why there is no data. */
            problem?: components["schemas"]["ItemProblemDto"];
        };
        HistogramDto: {
            /** @description Number of identities by rating. */
            by_rating: {
                [key: string]: number;
            };
            /** @description Identities with a score in [0, 10), [10, 20), … [90, 100]. */
            by_score: number[];
        };
        HistogramsDto: {
            /** @description As it is now. */
            before: components["schemas"]["HistogramDto"];
            /** @description As it would be. */
            after: components["schemas"]["HistogramDto"];
        };
        SideDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
        };
        MoverDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description As it is now. */
            before: components["schemas"]["SideDto"];
            /** @description As it would be. */
            after: components["schemas"]["SideDto"];
            /** @description The change. */
            delta: number;
            /** @description The metrics with the largest changes. */
            reasons: components["schemas"]["ReasonDto"][];
        };
        TopMoversDto: {
            /** @description The largest increases. */
            up: components["schemas"]["MoverDto"][];
            /** @description The largest decreases. */
            down: components["schemas"]["MoverDto"][];
        };
        AccessChangeDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description Identities that it grants access, before and after. */
            granted_before: number;
            /** @description Number of identities that it would grant access. */
            granted_after: number;
            /** @description Number of identities that gain access. */
            gained: number;
            /** @description Number of identities that lose access. */
            lost: number;
            /** @description Up to twenty in each direction. */
            gained_by: string[];
            /** @description Up to twenty identities that lose access. */
            lost_by: string[];
        };
        SummaryDto: {
            /** @description Identities whose score rises, falls, or does not change. */
            up: number;
            /** @description Number of identities whose score falls. */
            down: number;
            /** @description Number of identities whose score does not change. */
            unchanged: number;
            /** @description Number of identities by old and new rating. */
            rating_moves: {
                [key: string]: {
                    [key: string]: number;
                };
            };
            /** @description Identities compared. */
            count: number;
            /** @description The mean change of the score. */
            mean_delta: number;
            /** @description How many identities have which score and rating. */
            histogram: components["schemas"]["HistogramsDto"];
            /** @description The identities whose scores change most. */
            top_movers: components["schemas"]["TopMoversDto"];
            /** @description The decisions of the compared access policies, now and with the policy. */
            access: components["schemas"]["AccessChangeDto"][];
        };
        EvaluationDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string;
            /**
             * Format: date-time
             * @description When the preview was computed.
             */
            evaluated_at: string;
            /** @description The lens of `current`. */
            lens: components["schemas"]["LensNameDto"];
            /** @description The version of the model of both sides. */
            model: components["schemas"]["ModelDto"];
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The generation of the read models that the answer comes from. */
            generation: string;
            /** @description One per subject, in order. */
            results: components["schemas"]["EvaluatedSubjectDto"][];
            /** @description The changes of all compared identities. */
            summary: components["schemas"]["SummaryDto"];
        };
        StartReplayDto: {
            /** @description Access policies whose decisions to compare. Default: none in a preview, all that are not retired in a replay. */
            access_policies?: string[];
            /**
             * @description Version of the scoring model, for both sides. Default: the one that serves the platform.
             * @enum {string}
             */
            model?: "disc-1" | "disc-2";
            /**
             * @description Whether it is for the platform or for an organization.
             * @enum {string}
             */
            scope?: "platform" | "organization";
        };
        ProgressDto: {
            /** @description Identities compared so far. */
            done: number;
            /** @description How much there is to do. */
            total: number;
        };
        ScoringNameDto: {
            /** @description null: the model's own lens, or the platform's lens if content_hash is null too. */
            policy_id: string | null;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string | null;
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
        };
        ReplayResultDto: {
            /** @description Identities whose score rises, falls, or does not change. */
            up: number;
            /** @description Number of identities whose score falls. */
            down: number;
            /** @description Number of identities whose score does not change. */
            unchanged: number;
            /** @description Number of identities by old and new rating. */
            rating_moves: {
                [key: string]: {
                    [key: string]: number;
                };
            };
            /** @description Identities compared. */
            count: number;
            /** @description The mean change of the score. */
            mean_delta: number;
            /** @description How many identities have which score and rating. */
            histogram: components["schemas"]["HistogramsDto"];
            /** @description The identities whose scores change most. */
            top_movers: components["schemas"]["TopMoversDto"];
            /** @description The decisions of the compared access policies, now and with the policy. */
            access: components["schemas"]["AccessChangeDto"][];
            /** @description The lens and the version of the model that were active during the replay. */
            before: components["schemas"]["ScoringNameDto"];
            /** @description Those that they were compared with. */
            after: components["schemas"]["ScoringNameDto"];
            /** @description The generation of the read models that the answer comes from. */
            generation: string;
            /** @description All events up to this position are included. */
            position: string;
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
        };
        ReplayDto: {
            /**
             * @description Whether the policy is compared with the lens of the platform or with that of the organization.
             * @enum {string}
             */
            scope: "platform" | "organization";
            /**
             * @description The state of the replay.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description The id of a replay. */
            replay_id: string;
            /** @description null, as the next two, in a replay of a version of the model. */
            policy_id: string | null;
            /** @description The TRIS id of the organization. */
            tris_org: string | null;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string | null;
            /** @description The version of the model that is compared with the platform's; null in a replay of a policy. */
            promotes: components["schemas"]["ModelDto"] | null;
            /** @description How much of the work is done. */
            progress: components["schemas"]["ProgressDto"];
            /** @description The result; null before it is completed. */
            result: components["schemas"]["ReplayResultDto"] | null;
            /** @description Why it failed; null if it did not. */
            error: string | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        PromotePolicyDto: {
            /** @description A completed replay of this policy for the same scope, on which the decision is based. Recorded with it. */
            replay_id?: string;
            /**
             * @description Whether it is for the platform or for an organization.
             * @enum {string}
             */
            scope: "platform" | "organization";
        };
        SwitchDto: {
            /**
             * @description Whether it is for the platform or for an organization.
             * @enum {string}
             */
            scope: "platform" | "organization";
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The lens that is active from `position` on. */
            active: components["schemas"]["LensNameDto"];
            /** @description What was active before. */
            previous: components["schemas"]["LensNameDto"];
            /** @description Generation of the read models; null while the switch is not applied yet. */
            generation: string | null;
            /** @description The id of a replay. */
            replay_id: string | null;
            /** @description Reads at or after this position use the active lens. */
            position: string;
            /** @description Only with status 202: id for querying the status. */
            job_id?: string;
        };
        RollBackPolicyDto: {
            /**
             * @description Whether it is for the platform or for an organization.
             * @enum {string}
             */
            scope?: "platform" | "organization";
        };
        PromotionDto: {
            /**
             * @description Whether it is for the platform or for an organization.
             * @enum {string}
             */
            scope: "platform" | "organization";
            /**
             * @description Whether the read models have switched.
             * @enum {string}
             */
            status: "switching" | "applied";
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The lens that is active from `position` on. */
            active: components["schemas"]["LensNameDto"];
            /** @description What was active before. */
            previous: components["schemas"]["LensNameDto"];
            /** @description Generation of the read models; null while the switch is not applied yet. */
            generation: string | null;
            /** @description The id of a replay. */
            replay_id: string | null;
            /** @description Reads at or after this position use the active lens. */
            position: string;
            /** @description Only with status 202: id for querying the status. */
            job_id?: string;
        };
        KnownModelDto: {
            /**
             * @description The version of the model.
             * @enum {string}
             */
            id: "disc-1" | "disc-2";
            /** @description Identifies the version: equal hashes mean the same constants and formulas. */
            hash: string;
            /** @description Whether it serves the platform. */
            active: boolean;
        };
        ModelsDto: {
            /** @description The versions. */
            models: components["schemas"]["KnownModelDto"][];
        };
        StartModelReplayDto: {
            /** @description Access policies whose decisions to compare. Default: all that are not retired. */
            access_policies?: string[];
        };
        PromoteModelDto: {
            /** @description A completed replay of this version, on which the decision is based. Recorded with it. */
            replay_id?: string;
        };
        ModelSwitchDto: {
            /** @description The version that is active from `position` on. */
            active: components["schemas"]["ModelDto"];
            /** @description What was active before. */
            previous: components["schemas"]["ModelDto"];
            /** @description The id of a replay. */
            replay_id: string | null;
            /** @description Generation of the read models; null while the switch is not applied yet. */
            generation: string | null;
            /** @description Reads at or after this position are computed by the active version. */
            position: string;
            /** @description Only with status 202. Reads that wait for `position` see the switch. */
            job_id?: string;
        };
        AssignPolicyNameDto: {
            /** @description `VP_<NAME>` or `AP_<NAME>`: the ids of policies without their version. */
            name: string;
            /**
             * @description The organization whose keys may create versions of it from now on.
             * @example tris@alice
             */
            tris_org: string;
        };
        PolicyNameDto: {
            /** @description The id of a policy without its version. */
            name: string;
            /** @description The TRIS id of the organization. */
            tris_org: string;
        };
        CreateAccessPolicyDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /**
             * @description Conditions, all of which must hold: disc_min 0..100, tct_min, rating_min, reliability_min 0..1, evidence_min, metrics {category:
             *     0..1}, verification [a status, or {status, issuers?, schemes?}]. Or a combinator, alone in its object: {all: […]}, {any: […]}, {not: …},
             *     {at_least: n, of: […]}. At most 8 levels deep, with at most 64 combinators and conditions.
             */
            rules: {
                [key: string]: unknown;
            } & components["schemas"]["AccessRule"];
            /**
             * @description Lifetime of its tokens, s.
             * @default 600
             */
            ttl_seconds?: number;
            /** @description The validation policy to use as the lens. Default: the owner's lens, or the platform's. */
            vp?: string;
            /**
             * @description Who may read the rules: everybody, or only the owner's keys and operators. Everybody may check by the policy.
             * @default private
             * @enum {string}
             */
            visibility?: "public" | "private";
        };
        AccessPolicyDto: {
            /**
             * @description Whether the policy can be checked.
             * @enum {string}
             */
            status: "active" | "retired";
            /**
             * @description Who may read the policy.
             * @enum {string}
             */
            visibility: "public" | "private";
            /** @description The conditions for access. */
            rules: {
                [key: string]: unknown;
            } & components["schemas"]["AccessRule"];
            /**
             * @description SHA-256 of the RFC 8785 JSON of policy_id, rules, ttl_seconds, vp, and visibility unless it is private. null for
             *     callers who may not read the rules: the hash would confirm a guess of them.
             */
            content_hash: string | null;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description Lifetime of the tokens, s. */
            ttl_seconds: number;
            /** @description The validation policy that is used as the lens; null: the default lens. */
            vp: string | null;
            /** @description The owner; null: the platform's operators. */
            tris_org: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
        };
        CheckAccessDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /**
             * @description The TRIS id of the identity that is checked.
             * @example tris@alice
             */
            subject_tris: string;
            /** @description The audience of the token, such as the URL of an application. The token is then valid for that audience only. */
            audience?: string;
            /**
             * @description Requests a voucher that only this wallet of the subject can redeem. Requires `chain_id` and `verifying_contract`.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            wallet?: string;
            /** @description EIP-155: the chain of the contract that verifies the voucher. */
            chain_id?: number;
            /**
             * @description The contract that verifies the voucher, an `EligibilityVerifier`.
             * @example 0x9d85ca56217d2bb651b00f15e694eb7e713637d4
             */
            verifying_contract?: string;
        };
        VoucherTargetDto: {
            /**
             * @description The name in the EIP-712 domain.
             * @enum {string}
             */
            name: "Credence";
            /**
             * @description The version in the EIP-712 domain.
             * @enum {string}
             */
            version: "1";
            /** @description The chain (EIP-155). */
            chainId: number;
            /** @description EIP-55. */
            verifyingContract: string;
        };
        VoucherMessageDto: {
            /**
             * Format: uuid
             * @description The `jti` of the token without its hyphens: 16 bytes as hex.
             */
            jti: string;
            /** @description The only wallet that can redeem it, EIP-55. */
            wallet: string;
            /** @description keccak256 of the TRIS id. */
            subject: string;
            /** @description keccak256 of the policy's id. */
            policy: string;
            /** @description The policy's content hash, a SHA-256. */
            policyHash: string;
            /** @description keccak256 of the audience; 32 zero bytes: no audience. */
            audience: string;
            /** @description Seconds since the epoch, the token's `exp`. */
            expiresAt: number;
        };
        VoucherDto: {
            /** @description The EIP-712 domain. */
            domain: components["schemas"]["VoucherTargetDto"];
            /** @description The signed content. */
            message: components["schemas"]["VoucherMessageDto"];
            /** @description r, s and v (27 or 28), 65 bytes as hex. */
            signature: string;
        };
        AccessReasonDto: {
            /**
             * @description The rule that prevents access.
             * @enum {string}
             */
            rule: "identity" | "disc_min" | "tct_min" | "rating_min" | "reliability_min" | "evidence_min" | "metrics" | "verification" | "all" | "any" | "not" | "at_least";
            /** @description What the rule requires. */
            required: (number | string | boolean) | null;
            /** @description null: unknown, which is different from a low value. */
            actual: (number | string | boolean) | null;
            /**
             * @description `failed`: the value is known and not sufficient. `unknown`: there is no value.
             * @enum {string}
             */
            outcome: "failed" | "unknown";
            /** @description RFC 6901 JSON pointer into the policy's rules. */
            pointer: string;
        };
        FactChangeDto: {
            /** @description The lowest sufficient value; true for a verification; null: the BAD status must be cleared. */
            required: (number | string | boolean) | null;
            /** @description null: no evidence yet. */
            actual: (number | string | boolean) | null;
            /** @description `net_tct`, `health.<category>`, `reliability`, `evidence`, `verification.<status>`, `bad_status` or `actions`. */
            fact: string;
            /** @description The value must stay below this, since a rule sets an upper limit. */
            below?: number;
            /** @description JSON pointers to the conditions that the change fulfils, alone or with the others. */
            pointers: string[];
            /** @description For a verification: one of these issuers must grant it. */
            issuers?: string[];
            /** @description For a verification: it must be by one of these schemes. */
            schemes?: string[];
        };
        AccessDto: {
            /** @description Why access is denied, as in the notice of the decision: the most expensive to change first. Empty if granted. */
            codes: ("score_below_minimum" | "tct_below_minimum" | "negative_evidence_recent" | "negative_evidence_severe" | "reliability_below_minimum" | "evidence_not_enough" | "evidence_old" | "category_below_minimum" | "category_without_evidence" | "verification_missing" | "verification_expired" | "verification_issuer_not_accepted" | "bad_status" | "identity_unknown" | "record_incomplete" | "above_maximum")[];
            /** @description Whether access is granted. */
            granted: boolean;
            /** @description JWT of the type eligibility+jwt; null: not granted. */
            eligibility_token: string | null;
            /**
             * Format: date-time
             * @description When the token expires; null: not granted.
             */
            expires_at: string | null;
            /** @description The same decision for a contract to verify; null: not granted, or not requested. */
            voucher: components["schemas"]["VoucherDto"] | null;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The TRIS id of the identity that is checked. */
            subject_tris: string;
            /** @description null: the subject is unknown. */
            score: number | null;
            /** @description All parts of the rules that prevent access, in the order of the rules; empty if granted. */
            reasons: components["schemas"]["AccessReasonDto"][];
            /** @description A smallest set of changes after which the check grants; empty if granted, or if no increase is sufficient. */
            how_to_pass: components["schemas"]["FactChangeDto"][];
            /**
             * Format: date-time
             * @description When the check was made.
             */
            checked_at: string;
        };
        CheckManyDto: {
            /** @description The policy to check all subjects by. */
            policy_id?: string;
            /** @description The policies to check one subject by. */
            policy_ids?: string[];
            /** @description With `policy_id` a list of subjects, with `policy_ids` one subject. */
            subject_tris: string[] | string;
            /** @description The audience of the tokens. */
            audience?: string;
        };
        CheckManyItemDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The TRIS id of the identity that is checked. */
            subject_tris: string;
            /** @description The HTTP status that this check alone would have returned: 200, whether access is granted or denied. */
            status: number;
            /** @description The answer that a request for this item alone would have returned. */
            data?: components["schemas"]["AccessDto"];
            /** @description Why there is no data. */
            problem?: components["schemas"]["ItemProblemDto"];
        };
        CheckManyResultDto: {
            /** @description One for each subject or policy, in order. */
            results: components["schemas"]["CheckManyItemDto"][];
        };
        EvaluateRulesDto: {
            /** @description Rules as in `POST /v1/policies/ap`. */
            rules: {
                [key: string]: unknown;
            } & components["schemas"]["AccessRule"];
            /** @description The validation policy to use as the lens. Default: the lens of the key's organization, or the platform's. */
            vp?: string;
            /**
             * @description The subjects to decide about.
             * @example [
             *       "tris@alice"
             *     ]
             */
            subjects: string[];
        };
        RuleOutcomeDto: {
            /**
             * @description The name of the rule.
             * @enum {string}
             */
            rule: "disc_min" | "tct_min" | "rating_min" | "reliability_min" | "evidence_min" | "metrics" | "verification" | "all" | "any" | "not" | "at_least";
            /** @description null for nodes that only combine others, except `at_least`. */
            required: (number | string | boolean) | null;
            /** @description null: unknown. Of `at_least`, how many of its rules are met. */
            actual: (number | string | boolean) | null;
            /**
             * @description `failed`: the value is known and not sufficient. `unknown`: there is no value.
             * @enum {string}
             */
            outcome: "met" | "failed" | "unknown";
            /** @description RFC 6901 JSON pointer into the rules. */
            pointer: string;
        };
        DryRunResultDto: {
            /** @description All parts of the rules that prevent access, in the order of the rules; empty if granted. */
            reasons: components["schemas"]["AccessReasonDto"][];
            /** @description A smallest set of changes after which the rules grant; empty if they do, or if no increase is sufficient. */
            how_to_pass: components["schemas"]["FactChangeDto"][];
            /** @description As of a check. */
            codes: ("score_below_minimum" | "tct_below_minimum" | "negative_evidence_recent" | "negative_evidence_severe" | "reliability_below_minimum" | "evidence_not_enough" | "evidence_old" | "category_below_minimum" | "category_without_evidence" | "verification_missing" | "verification_expired" | "verification_issuer_not_accepted" | "bad_status" | "identity_unknown" | "record_incomplete" | "above_maximum")[];
            /** @description Every node of the rules, in their order, from the root down. */
            nodes: components["schemas"]["RuleOutcomeDto"][];
            /** @description The TRIS id of the identity that is checked. */
            subject_tris: string;
            /** @description Whether access is granted. */
            granted: boolean;
            /** @description null: the subject is unknown. */
            score: number | null;
            /**
             * Format: date-time
             * @description The facts are of this time: that of the request or, if it is later, the latest that a server gave to one of them.
             */
            as_of: string;
        };
        DryRunDto: {
            /** @description One for each subject, in order. */
            results: components["schemas"]["DryRunResultDto"][];
            /** @description null: no subject is known, so none was used. */
            lens: components["schemas"]["LensDto"] | null;
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        ReplayDecisionsDto: {
            /** @description The candidate, if it is stored. Send either this or rules. */
            policy_id?: string;
            /** @description The rules of the candidate, as in `POST /v1/policies/ap`. Send either this or policy_id. */
            rules?: {
                [key: string]: unknown;
            } & components["schemas"]["AccessRule"];
            /**
             * Format: date-time
             * @description Only decisions of checks at this time or later.
             */
            from: string;
            /**
             * Format: date-time
             * @description Only decisions of checks at this time or earlier.
             */
            to: string;
        };
        ListedAccessPolicyDto: {
            /**
             * @description Whether the policy can be checked.
             * @enum {string}
             */
            status: "active" | "retired";
            /**
             * @description Who may read the policy.
             * @enum {string}
             */
            visibility: "public" | "private";
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /**
             * @description SHA-256 of the RFC 8785 JSON of policy_id, rules, ttl_seconds, vp, and visibility unless it is private. null for
             *     callers who may not read the rules: the hash would confirm a guess of them.
             */
            content_hash: string | null;
            /** @description Lifetime of the tokens, s. */
            ttl_seconds: number;
            /** @description The validation policy that is used as the lens; null: the default lens. */
            vp: string | null;
            /** @description The owner; null: the platform's operators. */
            tris_org: string | null;
            /**
             * Format: date-time
             * @description When it was created.
             */
            created_at: string;
        };
        AccessPoliciesDto: {
            /** @description The policies, by id. */
            policies: components["schemas"]["ListedAccessPolicyDto"][];
            /** @description The `cursor` of the next page; null on the last page. */
            next_cursor: string | null;
        };
        RetiredAccessPolicyDto: {
            /**
             * @description Whether the policy can be checked.
             * @enum {string}
             */
            status: "active" | "retired";
            /** @description The id of a policy, with its version. */
            policy_id: string;
        };
        DecisionVoucherDto: {
            /** @description The address of a wallet. */
            wallet: string;
            /** @description The chain (EIP-155). */
            chain_id: number;
            /** @description The contract that verifies the voucher. */
            verifying_contract: string;
        };
        DecisionDto: {
            /** @description All parts of the rules that prevented access; empty if granted. */
            reasons: components["schemas"]["AccessReasonDto"][];
            /** @description A smallest set of changes after which the check would have granted. */
            how_to_pass: components["schemas"]["FactChangeDto"][];
            /**
             * Format: uuid
             * @description Id of the decision, and of its token if it granted.
             */
            jti: string;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The content hash of the policy. */
            policy_hash: string;
            /** @description The TRIS id of the identity that is checked. */
            subject_tris: string;
            /** @description Whether access is granted. */
            granted: boolean;
            /** @description The audience of the token; null: anybody, or no token. */
            audience: string | null;
            /** @description null: the subject was unknown. */
            score: number | null;
            /**
             * Format: date-time
             * @description When the check was made.
             */
            checked_at: string;
            /** @description Who asked: `key:<id>`. null: a session is not told. */
            checked_by: string | null;
            /**
             * Format: date-time
             * @description When its token expires; null: not granted.
             */
            expires_at: string | null;
            /** @description Whether its token was revoked. */
            revoked: boolean;
            /** @description null: none was requested. */
            voucher: components["schemas"]["DecisionVoucherDto"] | null;
            /**
             * Format: date-time
             * @description The facts are of this time: that of the check or, if it is later, the latest that a server gave to one of them.
             */
            as_of: string;
            /** @description Events up to this position counted. Of the first log, if the decision was imported. */
            position: string;
            /** @description null: the subject was unknown, so none was used. */
            lens: components["schemas"]["LensDto"] | null;
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /** @description Where the record is in this log. */
            recorded_position: string;
        };
        DecisionsDto: {
            /** @description The latest first. A page may contain fewer than `limit`, or none, although others follow. */
            decisions: components["schemas"]["DecisionDto"][];
            /** @description null: there are no more. */
            next_cursor: string | null;
        };
        OneDecisionDto: {
            /** @description All parts of the rules that prevented access; empty if granted. */
            reasons: components["schemas"]["AccessReasonDto"][];
            /** @description A smallest set of changes after which the check would have granted. */
            how_to_pass: components["schemas"]["FactChangeDto"][];
            /** @description Why access was denied: the codes of its notice. Empty if granted. */
            codes: ("score_below_minimum" | "tct_below_minimum" | "negative_evidence_recent" | "negative_evidence_severe" | "reliability_below_minimum" | "evidence_not_enough" | "evidence_old" | "category_below_minimum" | "category_without_evidence" | "verification_missing" | "verification_expired" | "verification_issuer_not_accepted" | "bad_status" | "identity_unknown" | "record_incomplete" | "above_maximum")[];
            /**
             * Format: uuid
             * @description Id of the decision, and of its token if it granted.
             */
            jti: string;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The content hash of the policy. */
            policy_hash: string;
            /** @description The TRIS id of the identity that is checked. */
            subject_tris: string;
            /** @description Whether access is granted. */
            granted: boolean;
            /** @description The audience of the token; null: anybody, or no token. */
            audience: string | null;
            /** @description null: the subject was unknown. */
            score: number | null;
            /**
             * Format: date-time
             * @description When the check was made.
             */
            checked_at: string;
            /** @description Who asked: `key:<id>`. null: a session is not told. */
            checked_by: string | null;
            /**
             * Format: date-time
             * @description When its token expires; null: not granted.
             */
            expires_at: string | null;
            /** @description Whether its token was revoked. */
            revoked: boolean;
            /** @description null: none was requested. */
            voucher: components["schemas"]["DecisionVoucherDto"] | null;
            /**
             * Format: date-time
             * @description The facts are of this time: that of the check or, if it is later, the latest that a server gave to one of them.
             */
            as_of: string;
            /** @description Events up to this position counted. Of the first log, if the decision was imported. */
            position: string;
            /** @description null: the subject was unknown, so none was used. */
            lens: components["schemas"]["LensDto"] | null;
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /** @description Where the record is in this log. */
            recorded_position: string;
        };
        ScaleDto: {
            /** @description The lowest possible value. */
            lowest: number;
            /** @description The highest possible value. */
            highest: number;
        };
        NoticeReasonDto: {
            /**
             * @description Stable. docs/policies.md says what each means.
             * @enum {string}
             */
            code: "score_below_minimum" | "tct_below_minimum" | "negative_evidence_recent" | "negative_evidence_severe" | "reliability_below_minimum" | "evidence_not_enough" | "evidence_old" | "category_below_minimum" | "category_without_evidence" | "verification_missing" | "verification_expired" | "verification_issuer_not_accepted" | "bad_status" | "identity_unknown" | "record_incomplete" | "above_maximum";
            /** @description The subject's own value; null: there is none. */
            actual: (number | string | boolean) | null;
            /** @description What the rules require. Absent for readers who may not read the rules. */
            required?: (number | string | boolean) | null;
            /** @description What would have to change, as in `how_to_pass`; null: no change of single facts would pass. */
            fact: string | null;
            /** @description The reason in a sentence. */
            sentence: string;
        };
        NoticeDto: {
            /**
             * Format: uuid
             * @description The id of an eligibility token.
             */
            jti: string;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The owner of the policy; null: the operators. */
            organization: string | null;
            /** @description The TRIS id of the identity that is checked. */
            subject_tris: string;
            /** @description Whether access is granted. */
            granted: boolean;
            /**
             * Format: date-time
             * @description When the check was made.
             */
            checked_at: string;
            /** @description null: nothing was known of the subject. */
            score: number | null;
            /** @description The scale of the score. */
            scale: components["schemas"]["ScaleDto"];
            /** @description The principal reasons, the most expensive to change first; empty if granted. */
            reasons: components["schemas"]["NoticeReasonDto"][];
            /** @description How to contest what the decision rests on. */
            dispute: string;
            /** @description What can be erased, and what the log keeps. */
            erasure: string;
            /**
             * Format: date-time
             * @description The facts are of this time.
             */
            as_of: string;
            /** @description Events up to this position counted. Of the first log, if the decision was imported. */
            position: string;
            /** @description null: the subject was unknown, so none was used. */
            lens: components["schemas"]["LensDto"] | null;
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /**
             * Format: date-time
             * @description When the notice was made.
             */
            timestamp: string;
            /** @description A JWS of the type `credence-notice+jws` over all other fields, in `notice`. */
            proof: string;
        };
        VerifyEligibilityDto: {
            /** @description An eligibility token. */
            token: string;
            /** @description The audience that verifies. A token with an audience is active for that one only. */
            audience?: string;
            /** @description The policy that the token must be for. */
            policy_id?: string;
        };
        LensClaimDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string | null;
            /** @description A SHA-256 that identifies the content. */
            content_hash: string;
        };
        ModelClaimDto: {
            /** @description The version of the model. */
            id: string;
            /** @description Identifies the constants and formulas of the version. */
            hash: string;
        };
        EligibilityClaimsDto: {
            /** @description The URL of the service that issued the token. */
            iss: string;
            /** @description The TRIS id of the subject. */
            sub: string;
            /** @description The only audience that the token is for; absent: any. */
            aud?: string;
            /**
             * Format: uuid
             * @description The id of an eligibility token.
             */
            jti: string;
            /** @description When the token was issued. */
            iat: number;
            /** @description When the token expires. */
            exp: number;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The content hash of the policy. */
            policy_hash: string;
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensClaimDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelClaimDto"];
        };
        EligibilityDto: {
            /**
             * @description Why the token is not active.
             * @enum {string}
             */
            reason?: "eligibility_malformed" | "eligibility_signature" | "eligibility_issuer" | "eligibility_audience" | "eligibility_policy" | "eligibility_not_yet_valid" | "eligibility_expired" | "eligibility_revoked" | "eligibility_unknown";
            /** @description Whether the token is valid now. */
            active: boolean;
            /** @description What is wrong, and how to correct it. */
            detail?: string;
            /** @description Present if the signature is valid. */
            claims?: components["schemas"]["EligibilityClaimsDto"];
        };
        RevokeEligibilityDto: {
            /**
             * Format: uuid
             * @description The id of an eligibility token.
             */
            jti?: string;
            /** @description The token, or its id. */
            token?: string;
        };
        RevokedEligibilityDto: {
            /**
             * @description Always true.
             * @enum {boolean}
             */
            revoked: true;
            /**
             * Format: uuid
             * @description The id of an eligibility token.
             */
            jti: string;
        };
        TypedFieldDto: {
            /** @description The name of the member. */
            name: string;
            /** @description The type of the member. */
            type: string;
        };
        VoucherIssuerDto: {
            /**
             * @description `published`: listed, but not used for signing here.
             * @enum {string}
             */
            status: "next" | "signing" | "retired" | "published";
            /** @description EIP-55. */
            address: string;
            /**
             * Format: date-time
             * @description null: since the beginning, or never.
             */
            signs_from: string | null;
            /**
             * Format: date-time
             * @description When its last voucher expires; null: it is not retired.
             */
            ends_at: string | null;
        };
        VoucherDomainDto: {
            /**
             * @description The name in the EIP-712 domain.
             * @enum {string}
             */
            name: "Credence";
            /**
             * @description The version in the EIP-712 domain.
             * @enum {string}
             */
            version: "1";
        };
        VoucherIssuersDto: {
            /**
             * @description The EIP-712 type that is signed.
             * @enum {string}
             */
            primary_type: "Voucher";
            /** @description EIP-712 types by name. */
            types: {
                [key: string]: components["schemas"]["TypedFieldDto"][];
            };
            /** @description The addresses that sign vouchers. */
            issuers: components["schemas"]["VoucherIssuerDto"][];
            /** @description The EIP-712 domain. */
            domain: components["schemas"]["VoucherDomainDto"];
        };
        BuildProgressDto: {
            /** @description Events applied so far. */
            done: number;
            /** @description Events in the log. */
            total: number;
        };
        ProblemDto: {
            /**
             * Format: uri-reference
             * @description URI reference that identifies the kind of problem.
             */
            type: string;
            /** @description Stable, machine-readable name of the kind. */
            code: components["schemas"]["ProblemCode"];
            /** @description The name of the kind of problem. */
            title: string;
            /** @description The HTTP status. */
            status: number;
            /** @description What is wrong with this request. */
            detail: string;
            /** @description The `X-Request-Id` of the request; the log of the service contains it. */
            request_id: string;
            /** @description Up to 100 wrong fields of the request. */
            errors?: components["schemas"]["FieldErrorDto"][];
            /** @description Of `projection_rebuilding`, if it is known. */
            progress?: components["schemas"]["BuildProgressDto"];
        };
        ReplayedPolicyDto: {
            /** @description Its decisions in this time. */
            decisions: number;
            /** @description The policy that decided. */
            policy_id: string;
            /** @description Those of them that granted access. */
            granted: number;
            /** @description Those that would be granted instead of denied. */
            gained: number;
            /** @description Those that would be denied instead of granted. */
            lost: number;
        };
        DecisionsReplayDto: {
            /** @description Decisions that were decided again. */
            decisions: number;
            /** @description The candidate; null: rules that are not stored. */
            policy_id: string | null;
            /** @description By the policies that decided. */
            policies: components["schemas"]["ReplayedPolicyDto"][];
            /** @description Until when the decisions that would differ can be downloaded. */
            lines_until: string;
        };
        PopulationResultDto: {
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description The content hash of the policy. */
            policy_hash: string;
            /** @description Identities. */
            count: number;
            /** @description Identities that pass. */
            granted: number;
            /** @description Identities that do not pass. */
            denied: number;
            /** @description Identities of which the policy is neither met nor not met, so that access is denied. */
            unknown: number;
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /** @description All events up to this position are included. */
            position: string;
            /**
             * Format: date-time
             * @description Only events that occurred by then count.
             */
            as_of: string;
            /** @description Until when the outcome of each identity can be downloaded. */
            lines_until: string;
        };
        RebuiltDto: {
            /** @description The id of the generation that was built. */
            generation: string;
            /** @description Applied by the run that completed the job. */
            events: number;
            /** @description Of that run. */
            seconds: number;
            /** @description Whether the generation serves. */
            swapped: boolean;
            /** @description Streams that were deleted or truncated in EventStoreDB: no score contains what is gone. Absent if there is none. */
            hidden_streams?: string[];
        };
        ServingDto: {
            /** @description The generation that serves each view. */
            views: {
                [key: string]: string;
            };
        };
        VerifiedGenerationDto: {
            /** @description Its id. */
            id: string;
            /** @description Its views. */
            views: string[];
            /** @description Events up to which it was followed. */
            position: number;
            /** @description Whether it has not caught up with the log, so that only a part of its final rows was compared. */
            is_building: boolean;
            /** @description Events that were in the log when the comparison began, and that it has not applied. */
            not_applied: number;
            /** @description Rows compared. */
            rows: number;
            /** @description The number of parts of the log that were folded one after the other. */
            passes: number;
            /** @description Bytes of the disk that temporary files took. */
            disk_bytes: number;
        };
        DifferenceDto: {
            /** @description The row according to the log; null: no such row. */
            expected: {
                [key: string]: unknown;
            } | unknown[] | string | number | boolean | null;
            /** @description The row in the read model; null: no such row. */
            found: {
                [key: string]: unknown;
            } | unknown[] | string | number | boolean | null;
            /** @description The id of the generation that differs from the log. */
            generation: string;
            /** @description `checkpoint` if what the generation says it has applied is not in the log. */
            view: string;
            /** @description The key of the row. */
            key: string;
            /** @description Its sort key; null: it has none. */
            sort: string | null;
            /** @description Applied events at which both were compared. */
            position: number;
        };
        DamageDto: {
            /** @description What is wrong with the event, as a clause. */
            reason: string;
            /** @description The identity that the event is about; null if that is not certain. */
            tris_id: string | null;
        };
        DamagedEventDto: {
            /** @description Its id. */
            id: string;
            /** @description Its type. */
            type: string;
            /** @description Its stream. */
            stream: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: number;
            /** @description Why it cannot be read. */
            damage?: components["schemas"]["DamageDto"];
        };
        LogChangeDto: {
            /** @description The last position whose event is right, as far as is known. */
            after: number;
            /** @description The wrong event is at this position, or between both. */
            position: number;
            /**
             * @description What it contradicts.
             * @enum {string}
             */
            found_by: "tile" | "checkpoint" | "signed_checkpoint";
        };
        LogTreeCheckDto: {
            /** @description Events in the tree: up to the first one that is damaged or wrong. */
            size: number;
            /** @description Its root, in base64. */
            root: string;
            /** @description The number of checkpoints that it was compared with. */
            checkpoints: number;
            /** @description Where an event was changed, added or removed; null: nowhere. */
            change: components["schemas"]["LogChangeDto"] | null;
        };
        VerifiedDto: {
            /** @description Whether everything was compared, and no difference was found. */
            identical: boolean;
            /** @description Events of the log up to the furthest position compared. */
            events: number;
            /** @description Rows compared. */
            rows: number;
            /** @description The compared generations: those that serve. */
            generations: components["schemas"]["VerifiedGenerationDto"][];
            /** @description The first difference; null if all compared rows are correct. */
            difference: components["schemas"]["DifferenceDto"] | null;
            /** @description The first 20 events of the log that cannot be read. */
            damaged: components["schemas"]["DamagedEventDto"][];
            /** @description Number of events that cannot be read. */
            damaged_events: number;
            /** @description Streams that were deleted or truncated in EventStoreDB: no score contains what is gone. Absent if there is none. */
            hidden_streams?: string[];
            /** @description The tree of the log, computed again; null: no view has it yet. */
            tree: components["schemas"]["LogTreeCheckDto"] | null;
            /** @description How long it took. */
            seconds: number;
        };
        WithdrawalEffectDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /**
             * @description What the rating would be.
             * @enum {string}
             */
            score_rating_after: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description How many of its actions are in the set. */
            actions: number;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description What the score would be. */
            score_after: number;
        };
        WithdrawalDryRunDto: {
            /**
             * @description Why its actions are to be withdrawn.
             * @enum {string}
             */
            reason: "mistake" | "duplicate" | "reversed" | "disputed" | "key_compromised";
            /** @description The beginning of the SHA-256 (hex) of the key `key_id`, by which its holder knows it; null: unknown to the caller, or none is meant. */
            key_digest: string | null;
            /** @description Actions in the set. */
            actions: number;
            /** @description Identities that they are about. */
            identities: number;
            /** @description Identities whose rating would change. */
            ratings_changed: number;
            /** @description The hundred whose score would change most. */
            largest: components["schemas"]["WithdrawalEffectDto"][];
            /** @description Recorded access decisions in which an action of the set counted. */
            decisions: number;
            /** @description Those of them that would be granted instead of denied, or denied instead of granted. */
            decisions_differ: number;
            /** @description All events up to this position were looked at. */
            position: string;
            /** @description Until when the set can be downloaded, and withdrawn. */
            lines_until: string;
        };
        WithdrawalAppliedDto: {
            /** @description The dry run whose set it is. */
            dry_run: string;
            /** @description Actions of the set; each of them is withdrawn. */
            actions: number;
            /** @description All withdrawals are up to here; for `Credence-Min-Position`. */
            position: string;
        };
        RatingChangedDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The same before the event. */
            previous: components["schemas"]["SideDto"];
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        ScoreCrossedDto: {
            /**
             * @description The rating of the score.
             * @enum {string}
             */
            score_rating: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /**
             * @description Whether the score fell below the threshold or rose above it.
             * @enum {string}
             */
            direction: "below" | "above";
            /** @description `score_below` or `score_above` of the webhook. */
            threshold: number;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The same before the event. */
            previous: components["schemas"]["SideDto"];
            /** @description The lens: the validation policy by which actions are weighed. */
            lens: components["schemas"]["LensDto"];
            /** @description The version of the scoring model. */
            model: components["schemas"]["ModelDto"];
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The DISC score, one decimal. */
            score: number;
            /** @description Net TCT, at least 0. */
            total_tct: number;
        };
        VerificationChangedDto: {
            /**
             * @description What happened.
             * @enum {string}
             */
            change: "granted" | "revoked";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The verification status. */
            status: string;
            /** @description The issuer; null: those of all issuers were revoked. */
            issuer: string | null;
            /** @description `operator`, or the id of a verification scheme; null: those by all schemes were revoked. */
            scheme: string | null;
            /**
             * Format: date-time
             * @description When it expires; null: it does not, or it was revoked.
             */
            expires_at: string | null;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        BadStatusChangedDto: {
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The level, 1 (worst) to 6; null: it was cleared. */
            level: number | null;
            /** @description The reason as a code; null: it was cleared. */
            reason_code: string | null;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        PolicyPromotedDto: {
            /**
             * @description For whom it is active.
             * @enum {string}
             */
            scope: "platform" | "organization";
            /**
             * @description What happened.
             * @enum {string}
             */
            reason: "promoted" | "rolled_back";
            /**
             * @description What was promoted or rolled back: a validation policy, or a version of the model.
             * @enum {string}
             */
            what: "lens" | "model";
            /** @description The lens or the version that is active from this position on. */
            active: components["schemas"]["LensNameDto"] | components["schemas"]["ModelDto"];
            /** @description The one that was active before. */
            previous: components["schemas"]["LensNameDto"] | components["schemas"]["ModelDto"];
            /** @description The organization; null: the platform. */
            tris_org: string | null;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        AccessDeniedNowDto: {
            /** @description As of a check. */
            codes: ("score_below_minimum" | "tct_below_minimum" | "negative_evidence_recent" | "negative_evidence_severe" | "reliability_below_minimum" | "evidence_not_enough" | "evidence_old" | "category_below_minimum" | "category_without_evidence" | "verification_missing" | "verification_expired" | "verification_issuer_not_accepted" | "bad_status" | "identity_unknown" | "record_incomplete" | "above_maximum")[];
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /** @description null: the identity has no score. */
            score: number | null;
            /** @description All parts of the rules that prevent access. */
            reasons: components["schemas"]["AccessReasonDto"][];
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        ActionMovedDto: {
            /**
             * @description The criticality, from which the weight follows.
             * @enum {string}
             */
            criticality: "Minimal" | "Low" | "Moderate" | "High" | "Critical";
            /**
             * @description Why.
             * @enum {string}
             */
            reason: "mistake" | "duplicate" | "reversed" | "disputed" | "key_compromised";
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /**
             * Format: uuid
             * @description The id of an action: that of its event in the log.
             */
            action_id: string;
            /** @description A metric, `<category>_<name>`. */
            metric: string;
            /** @description The id of a platform, which verifies actions. */
            platform_id: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        DecisionWouldDifferDto: {
            /**
             * Format: uuid
             * @description The id of an eligibility token.
             */
            jti: string;
            /** @description The id of a policy, with its version. */
            policy_id: string;
            /**
             * Format: date-time
             * @description When the check was made.
             */
            checked_at: string;
            /** @description As it was recorded. */
            was: components["schemas"]["OutcomeDto"];
            /** @description At its own time, position, lens and model, without the action. */
            would_be: components["schemas"]["OutcomeDto"];
            /**
             * Format: date-time
             * @description Until when its token is valid; null: there is none.
             */
            expires_at: string | null;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
        };
        DisputeOpenedDto: {
            /**
             * @description What kind of statement it is.
             * @enum {string}
             */
            about: "action" | "verification" | "bad_status";
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The id of the dispute. */
            dispute_id: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /**
             * Format: uuid
             * @description Of an action; else null.
             */
            action_id: string | null;
            /** @description Of an action; else null. */
            platform_id: string | null;
            /** @description Of a verification; else null. */
            verification: string | null;
        };
        DisputeAnsweredDto: {
            /**
             * @description What kind of statement it is.
             * @enum {string}
             */
            about: "action" | "verification" | "bad_status";
            /**
             * @description What the answer was. `lapsed`: nobody answered in time, so the action is withdrawn.
             * @enum {string}
             */
            outcome: "upheld" | "rejected" | "lapsed";
            /** @description A position in the log, `<log id>.<decimal>`. */
            position: string;
            /** @description The id of the dispute. */
            dispute_id: string;
            /** @description The TRIS id of an identity. */
            tris_id: string;
            /**
             * Format: uuid
             * @description Of an action; else null.
             */
            action_id: string | null;
            /** @description Of an action; else null. */
            platform_id: string | null;
            /** @description Of a verification; else null. */
            verification: string | null;
        };
        TestMessageDto: {
            /** @description The id of a webhook. */
            webhook_id: string;
        };
        /** @description Conditions, or a combinator of rules, which is alone in its object. At most 8 levels deep, with at most 64 combinators and conditions. What is not known is neither met nor not met: only rules that are met grant. */
        AccessRule: components["schemas"]["AccessConditions"] | {
            /** @description Rules that must all be met. */
            all: components["schemas"]["AccessRule"][];
        } | {
            /** @description Rules of which one must be met. */
            any: components["schemas"]["AccessRule"][];
        } | {
            not: components["schemas"]["AccessRule"];
        } | {
            /** @description How many must be met. */
            at_least: number;
            /** @description The rules that are counted. */
            of: components["schemas"]["AccessRule"][];
        };
        /** @description Conditions, all of which must hold. */
        AccessConditions: {
            /** @description The lowest score. */
            disc_min?: number;
            /** @description The lowest net TCT. */
            tct_min?: number;
            /**
             * @description The lowest rating.
             * @enum {string}
             */
            rating_min?: "BAD" | "Poor" | "Fair" | "Good" | "Very Good" | "Excellent";
            /** @description The lowest reliability. */
            reliability_min?: number;
            /** @description The lowest amount of evidence. From disc-2 on. */
            evidence_min?: number;
            /** @description The lowest health of categories. */
            metrics?: {
                [key: string]: number;
            };
            /** @description Verification statuses. A status alone may be granted by an operator, an accredited issuer or a proof; with `issuers` or `schemes` only by these. */
            verification?: (("zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)" | "BAD Status validation") | {
                /**
                 * @description The status.
                 * @enum {string}
                 */
                status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
                /** @description Who must have granted it. */
                issuers?: string[];
                /** @description How it must have been established. */
                schemes?: string[];
            })[];
        };
        VpReplayJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["ReplayResultDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "vp_replay";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        ApReplayJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["DecisionsReplayDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "ap_replay";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        ApPopulationJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["PopulationResultDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "ap_population";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        RebuildJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["RebuiltDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "rebuild";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        SwapJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["ServingDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "swap";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        RollbackJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["ServingDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "rollback";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        VerifyJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["VerifiedDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "verify";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        WithdrawalsDryRunJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["WithdrawalDryRunDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "withdrawals_dry_run";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        WithdrawalsJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["WithdrawalAppliedDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "withdrawals";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        TroveVerificationJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: string | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "trove_verification";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        DisputeWithdrawalJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: string | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "dispute_withdrawal";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        ChainIngestionJobDto: {
            /**
             * @description The state of the job.
             * @enum {string}
             */
            status: "queued" | "running" | "completed" | "failed" | "cancelled";
            /** @description Null before the job is completed. */
            result: components["schemas"]["IngestionResultDto"] | null;
            /** @description The id of a job, for querying its status. */
            job_id: string;
            /**
             * @description What it does, such as `vp_replay`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            kind: "chain_ingestion";
            /** @description How much of the work is done. */
            progress: components["schemas"]["JobProgressDto"];
            /** @description Why it failed; null unless it did. */
            problem: components["schemas"]["ItemProblemDto"] | null;
            /**
             * Format: date-time
             * @description When it was requested.
             */
            started_at: string;
            /**
             * Format: date-time
             * @description When it ended; null while it has not.
             */
            finished_at: string | null;
        };
        RatingChangedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "rating.changed";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["RatingChangedDto"];
        };
        ScoreCrossedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "score.crossed";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["ScoreCrossedDto"];
        };
        VerificationChangedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "verification.changed";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["VerificationChangedDto"];
        };
        BadStatusChangedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "bad_status.changed";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["BadStatusChangedDto"];
        };
        PolicyPromotedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "policy.promoted";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["PolicyPromotedDto"];
        };
        AccessDeniedNowWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "access.denied_now";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["AccessDeniedNowDto"];
        };
        ActionWithdrawnWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "action.withdrawn";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["ActionMovedDto"];
        };
        ActionReinstatedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "action.reinstated";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["ActionMovedDto"];
        };
        DecisionWouldDifferWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "decision.would_differ";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["DecisionWouldDifferDto"];
        };
        DisputeOpenedWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "dispute.opened";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["DisputeOpenedDto"];
        };
        DisputeAnsweredWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "dispute.answered";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["DisputeAnsweredDto"];
        };
        WebhookTestWebhookMessageDto: {
            /**
             * @description What the message tells; it decides what is in `data`. (enum property replaced by openapi-typescript)
             * @enum {string}
             */
            type: "webhook.test";
            /**
             * Format: date-time
             * @description When the event was recorded; of `webhook.test`, when it was sent.
             */
            timestamp: string;
            /** @description The event. */
            data: components["schemas"]["TestMessageDto"];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    Relay_relay: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tris_id": "tris@alice",
                 *       "action_type": "loan_repayment_consistency",
                 *       "category": "finance",
                 *       "criticality": "Critical",
                 *       "platform_id": "lendco-app",
                 *       "external_id": "loan-17"
                 *     }
                 */
                "application/json": components["schemas"]["RelayActionDto"];
            };
        };
        responses: {
            /** @description Submit a verified, score-relevant action */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RelayedDto"];
                };
            };
        };
    };
    Relay_relayMany: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "actions": [
                 *         {
                 *           "tris_id": "tris@alice",
                 *           "action_type": "loan_repayment_consistency",
                 *           "category": "finance",
                 *           "criticality": "Critical",
                 *           "platform_id": "lendco-app",
                 *           "external_id": "loan-18"
                 *         },
                 *         {
                 *           "tris_id": "tris@alice",
                 *           "action_type": "loan_repayment_consistency",
                 *           "category": "finance",
                 *           "criticality": "Critical",
                 *           "platform_id": "lendco-app",
                 *           "external_id": "loan-19"
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["RelayBatchDto"];
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description Submit up to 1,000 actions, each with a result of its own */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RelayBatchResultDto"];
                };
            };
        };
    };
    Withdrawals_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of an action: that of its event in the log. */
                action_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an action: its organization, whether it counts, and its withdrawals */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActionDto"];
                };
            };
        };
    };
    Withdrawals_affected: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of an action: that of its event in the log. */
                action_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the recorded access decisions that would differ without an action */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AffectedDecisionsDto"];
                };
            };
        };
    };
    Withdrawals_withdraw: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of an action: that of its event in the log. */
                action_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "reason": "mistake"
                 *     }
                 */
                "application/json": components["schemas"]["ChangeActionDto"];
            };
        };
        responses: {
            /** @description Withdraw an action: it counts nowhere from now on */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedActionDto"];
                };
            };
        };
    };
    Withdrawals_reinstate: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of an action: that of its event in the log. */
                action_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "reason": "mistake"
                 *     }
                 */
                "application/json": components["schemas"]["ChangeActionDto"];
            };
        };
        responses: {
            /** @description Reinstate a withdrawn action: it counts again */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedActionDto"];
                };
            };
        };
    };
    Withdrawals_withdrawMany: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "key_id": "lendco-relay",
                 *       "recorded_from": "2026-03-01T00:00:00Z",
                 *       "reason": "key_compromised",
                 *       "dry_run": true
                 *     }
                 */
                "application/json": components["schemas"]["WithdrawActionsDto"];
            };
        };
        responses: {
            /** @description Withdraw many actions, in the background: a dry run finds them, then exactly these are withdrawn */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    Disputes_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
                /** @description Only disputes without an answer. */
                open?: boolean;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List disputes: a session its own, a key those of its statements, operators all */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputesDto"];
                };
            };
        };
    };
    Disputes_open: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "bad_status": true,
                 *       "statement": "I was confused with somebody else."
                 *     }
                 */
                "application/json": components["schemas"]["OpenDisputeDto"];
            };
        };
        responses: {
            /** @description Dispute an action, a verification or the BAD status of the TRIS of the session */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeDto"];
                };
            };
        };
    };
    Disputes_answer: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of the dispute. */
                dispute_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "outcome": "rejected",
                 *       "note": "The loan was repaid a month late."
                 *     }
                 */
                "application/json": components["schemas"]["AnswerDisputeDto"];
            };
        };
        responses: {
            /** @description Answer a dispute */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DisputeDto"];
                };
            };
        };
    };
    Disc_discScore: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the DISC score of an individual */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiscScoreDto"];
                };
            };
        };
    };
    Disc_discRank: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /**
                 * @description The TRIS id of an identity.
                 * @example tris:lendco
                 */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the rank of a vetted organization */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DiscRankDto"];
                };
            };
        };
    };
    Disc_overview: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Count identities, actions and organizations, relays and checks of the last hour, and list changes of rating */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OverviewDto"];
                };
            };
        };
    };
    Disc_score: {
        parameters: {
            query?: {
                /** @description Count only events that occurred by then. Default: the end of the current UTC hour. */
                as_of?: string;
                /** @description Count only events that were recorded by then. */
                known_at?: string;
                /** @description Id of the validation policy to use as the lens, or `model`. */
                vp?: string;
                /** @description Count only events up to and including this position. */
                as_of_position?: string;
                /** @description Version of the scoring model. Default: the one that serves the platform. */
                model?: "disc-1" | "disc-2";
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a score with everything needed to reproduce it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScoreDto"];
                };
            };
        };
    };
    Disc_history: {
        parameters: {
            query?: {
                /** @description Count only events that occurred by then. Default: the end of the current UTC hour. */
                as_of?: string;
                /** @description Count only events that were recorded by then. */
                known_at?: string;
                /** @description Id of the validation policy to use as the lens, or `model`. */
                vp?: string;
                /** @description Entries on a page. */
                limit?: number;
                /** @description RFC 3339: only events recorded at this time or later. */
                from?: string;
                /** @description RFC 3339: only events recorded at this time or earlier. */
                to?: string;
                /** @description `next_cursor` of the previous page. */
                cursor?: string;
                /** @description Count only events up to and including this position. */
                as_of_position?: string;
                /** @description Version of the scoring model. Default: the one that serves the platform. */
                model?: "disc-1" | "disc-2";
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the events behind a score, in log order */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HistoryDto"];
                };
            };
        };
    };
    Disc_explain: {
        parameters: {
            query?: {
                /** @description Count only events that occurred by then. Default: the end of the current UTC hour. */
                as_of?: string;
                /** @description Count only events that were recorded by then. */
                known_at?: string;
                /** @description Id of the validation policy to use as the lens, or `model`. */
                vp?: string;
                /** @description Count only events up to and including this position. */
                as_of_position?: string;
                /** @description Version of the scoring model. Default: the one that serves the platform. */
                model?: "disc-1" | "disc-2";
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Explain a score: its contributions, and what the next rating requires */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExplanationDto"];
                };
            };
        };
    };
    Disc_metrics: {
        parameters: {
            query?: {
                /** @description Count only events that occurred by then. Default: the end of the current UTC hour. */
                as_of?: string;
                /** @description Count only events that were recorded by then. */
                known_at?: string;
                /** @description Id of the validation policy to use as the lens, or `model`. */
                vp?: string;
                /** @description Categories, aliases or full metrics; default: the seven categories. */
                metrics?: string[];
                /** @description Count only events up to and including this position. */
                as_of_position?: string;
                /** @description Version of the scoring model. Default: the one that serves the platform. */
                model?: "disc-1" | "disc-2";
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the health of categories or metrics, with a proof */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricsDto"];
                };
            };
        };
    };
    Disc_report: {
        parameters: {
            query?: {
                /** @description Count only events that occurred by then. Default: the end of the current UTC hour. */
                as_of?: string;
                /** @description Count only events that were recorded by then. */
                known_at?: string;
                /** @description Id of the validation policy to use as the lens, or `model`. */
                vp?: string;
                /** @description Months that the report covers. */
                window?: 1 | 3 | 6 | 12;
                /** @description How much detail the report has. */
                depth?: "snapshot" | "insight" | "analysis";
                /** @description Count only events up to and including this position. */
                as_of_position?: string;
                /** @description Version of the scoring model. Default: the one that serves the platform. */
                model?: "disc-1" | "disc-2";
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a report over a window of months, with a proof */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReportDto"];
                };
            };
        };
    };
    Disc_scores: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tris_ids": [
                 *         "tris@alice",
                 *         "tris:lendco"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ScoreBatchDto"];
            };
        };
        responses: {
            /** @description Get the scores of up to 100 identities */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScoreBatchResultDto"];
                };
            };
        };
    };
    Disc_metricsOfMany: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tris_ids": [
                 *         "tris@alice"
                 *       ],
                 *       "metrics": [
                 *         "finance",
                 *         "security"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["MetricsBatchDto"];
            };
        };
        responses: {
            /** @description Get the metrics of up to 100 identities */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricsBatchResultDto"];
                };
            };
        };
    };
    Disc_reports: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tris_ids": [
                 *         "tris@alice"
                 *       ],
                 *       "window": 6,
                 *       "depth": "analysis"
                 *     }
                 */
                "application/json": components["schemas"]["ReportBatchDto"];
            };
        };
        responses: {
            /** @description Get reports of up to 25 identities */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReportBatchResultDto"];
                };
            };
        };
    };
    Disc_changes: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List identities in the order of their last change, as a feed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangesDto"];
                };
            };
        };
    };
    Disc_liveChanges: {
        parameters: {
            query?: {
                /** @description Only changes of these identities, at most 100. */
                tris_ids?: string[];
                /** @description A `next_cursor` of the change feed, to continue from there. Default: from now on. `Last-Event-ID` overrides it. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
                /** @description The id of the last event received: the stream continues after it. Browsers send it by themselves. */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get changes as they happen, as server-sent events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["LiveChangeDto"];
                };
            };
        };
    };
    Credonations_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the credonations that an identity received, in log order */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ValidationsDto"];
                };
            };
        };
    };
    AccessPolicies_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description Only the policies of this organization. */
                tris_org?: string;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List access policies */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessPoliciesDto"];
                };
            };
        };
    };
    AccessPolicies_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "policy_id": "AP_BORROW_V1",
                 *       "rules": {
                 *         "any": [
                 *           {
                 *             "disc_min": 7.5
                 *           },
                 *           {
                 *             "verification": [
                 *               "zk-KYH"
                 *             ]
                 *           }
                 *         ]
                 *       },
                 *       "visibility": "public",
                 *       "ttl_seconds": 600
                 *     }
                 */
                "application/json": components["schemas"]["CreateAccessPolicyDto"];
            };
        };
        responses: {
            /** @description Already created with this content */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessPolicyDto"];
                };
            };
            /** @description Create an access policy */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessPolicyDto"];
                };
            };
        };
    };
    AccessPolicies_check: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "policy_id": "AP_BORROW_V1",
                 *       "subject_tris": "tris@alice"
                 *     }
                 */
                "application/json": components["schemas"]["CheckAccessDto"];
            };
        };
        responses: {
            /** @description Check a subject by an access policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessDto"];
                };
            };
        };
    };
    AccessPolicies_checkMany: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "policy_id": "AP_BORROW_V1",
                 *       "subject_tris": [
                 *         "tris@alice",
                 *         "tris:lendco"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CheckManyDto"];
            };
        };
        responses: {
            /** @description Check up to 100 subjects by an access policy, or one subject by up to 20 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckManyResultDto"];
                };
            };
        };
    };
    AccessPolicies_evaluate: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "rules": {
                 *         "any": [
                 *           {
                 *             "disc_min": 7.5
                 *           },
                 *           {
                 *             "verification": [
                 *               "zk-KYH"
                 *             ]
                 *           }
                 *         ]
                 *       },
                 *       "subjects": [
                 *         "tris@alice"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["EvaluateRulesDto"];
            };
        };
        responses: {
            /** @description Try the rules of an access policy on some subjects; writes nothing */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DryRunDto"];
                };
            };
        };
    };
    AccessPolicies_replay: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "rules": {
                 *         "disc_min": 8
                 *       },
                 *       "from": "2026-01-01T00:00:00Z",
                 *       "to": "2026-12-31T23:59:59Z"
                 *     }
                 */
                "application/json": components["schemas"]["ReplayDecisionsDto"];
            };
        };
        responses: {
            /** @description Decide recorded access decisions again by other rules, in the background */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    AccessPolicies_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an access policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccessPolicyDto"];
                };
            };
        };
    };
    AccessPolicies_population: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Evaluate an access policy for all identities, in the background */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    AccessPolicies_retire: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Retire an access policy: it can no longer be checked */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetiredAccessPolicyDto"];
                };
            };
        };
    };
    Decisions_list: {
        parameters: {
            query?: {
                /** @description Only decisions about this subject. */
                subject?: string;
                /** @description Only decisions by this access policy. */
                policy_id?: string;
                /** @description Only checks at this time or later. */
                from?: string;
                /** @description Only checks at this time or earlier. */
                to?: string;
                /** @description The most decisions of a page. */
                limit?: number;
                /** @description Only grants (`true`), or only denials. */
                granted?: boolean;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List recorded access decisions, the latest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DecisionsDto"];
                };
            };
        };
    };
    Decisions_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of an eligibility token. */
                jti: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a recorded access decision */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OneDecisionDto"];
                };
            };
        };
    };
    Decisions_notice: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of an eligibility token. */
                jti: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a notice of a recorded access decision, for the person it is about */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NoticeDto"];
                    "text/plain": string;
                    "text/html": string;
                };
            };
        };
    };
    Eligibility_verify: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "eyJhbGciOiJFZERTQSIsInR5cCI6ImVsaWdpYmlsaXR5K2p3dCJ9.eyJqdGkiOiIuLi4ifQ.c2lnbmF0dXJl",
                 *       "policy_id": "AP_BORROW_V1"
                 *     }
                 */
                "application/json": components["schemas"]["VerifyEligibilityDto"];
            };
        };
        responses: {
            /** @description Check whether an eligibility token is valid now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EligibilityDto"];
                };
            };
        };
    };
    Eligibility_revoke: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RevokeEligibilityDto"];
            };
        };
        responses: {
            /** @description Revoke an eligibility token */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevokedEligibilityDto"];
                };
            };
        };
    };
    Eligibility_issuers: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the addresses that sign vouchers, for contracts to trust, and the type they sign */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VoucherIssuersDto"];
                };
            };
        };
    };
    ValidationPolicies_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description Only the policies of this organization. */
                tris_org?: string;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List validation policies */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PoliciesDto"];
                };
            };
        };
    };
    ValidationPolicies_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "policy_id": "VP_LENDING_V1",
                 *       "tris_org": "tris:lendco",
                 *       "inputs": [
                 *         {
                 *           "metric": "finance_loan_repayment_consistency",
                 *           "criticality": "Critical",
                 *           "weight": 0.14
                 *         },
                 *         {
                 *           "metric": "compliance_kyc_verified",
                 *           "criticality": "High",
                 *           "weight": 0.1
                 *         },
                 *         {
                 *           "metric": "finance_liquidity_provision_duration",
                 *           "criticality": "Critical",
                 *           "weight": 0.14
                 *         },
                 *         {
                 *           "metric": "security_multisig_participation",
                 *           "criticality": "Critical",
                 *           "weight": 0.14
                 *         },
                 *         {
                 *           "metric": "security_verified_identity",
                 *           "criticality": "Critical",
                 *           "weight": 0.14
                 *         },
                 *         {
                 *           "metric": "social_verified_identity_linked",
                 *           "criticality": "Critical",
                 *           "weight": 0.14
                 *         },
                 *         {
                 *           "metric": "creative_code_contribution",
                 *           "criticality": "High",
                 *           "weight": 0.1
                 *         },
                 *         {
                 *           "metric": "educational_research_authorship",
                 *           "criticality": "High",
                 *           "weight": 0.1
                 *         }
                 *       ],
                 *       "metadata": {
                 *         "total_weight": 1,
                 *         "visibility": "public",
                 *         "version": "v1.0"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreatePolicyDto"];
            };
        };
        responses: {
            /** @description Already created with this content */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedPolicyDto"];
                };
            };
            /** @description Create a validation policy */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedPolicyDto"];
                };
            };
        };
    };
    ValidationPolicies_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a validation policy and its history */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyDto"];
                };
            };
        };
    };
    ValidationPolicies_retire: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Retire a validation policy: it can no longer be promoted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetiredPolicyDto"];
                };
            };
        };
    };
    ValidationPolicies_evaluate: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "policy_id": "VP_LENDING_V1",
                 *       "subjects": [
                 *         "tris@alice"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["EvaluatePolicyDto"];
            };
        };
        responses: {
            /** @description Preview what a policy would change, for some identities or for all; writes nothing */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EvaluationDto"];
                };
            };
        };
    };
    ValidationPolicies_replay: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "scope": "platform",
                 *       "access_policies": [
                 *         "AP_BORROW_V1"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["StartReplayDto"];
            };
        };
        responses: {
            /** @description Replay all identities under a policy, in the background */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayDto"];
                };
            };
        };
    };
    ValidationPolicies_getReplay: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a replay. */
                replay_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the progress and the result of a replay */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayDto"];
                };
            };
        };
    };
    ValidationPolicies_cancelReplay: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a replay. */
                replay_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Cancel a replay; has no effect on a finished one */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayDto"];
                };
            };
        };
    };
    ValidationPolicies_promote: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "scope": "platform"
                 *     }
                 */
                "application/json": components["schemas"]["PromotePolicyDto"];
            };
        };
        responses: {
            /** @description Make a policy the lens of the platform or of the owning organization */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchDto"];
                };
            };
            /** @description Recorded, but not applied yet; query `job_id` */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchDto"];
                };
            };
        };
    };
    ValidationPolicies_rollBack: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a policy, with its version. */
                policy_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "scope": "platform"
                 *     }
                 */
                "application/json": components["schemas"]["RollBackPolicyDto"];
            };
        };
        responses: {
            /** @description Return to the lens that was active before a policy was promoted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchDto"];
                };
            };
            /** @description Recorded, but not applied yet; query `job_id` */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchDto"];
                };
            };
        };
    };
    ValidationPolicies_promotion: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The `job_id` of a promotion that returned 202. */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the status of a promotion that returned 202 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PromotionDto"];
                };
            };
        };
    };
    Models_list: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the versions of the scoring model */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelsDto"];
                };
            };
        };
    };
    Models_replay: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The version of the scoring model.
                 * @example disc-1
                 */
                model_id: "disc-1" | "disc-2";
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "access_policies": [
                 *         "AP_BORROW_V1"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["StartModelReplayDto"];
            };
        };
        responses: {
            /** @description Replay all identities by a version of the model, in the background */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayDto"];
                };
            };
        };
    };
    Models_promote: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The version of the scoring model.
                 * @example disc-1
                 */
                model_id: "disc-1" | "disc-2";
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["PromoteModelDto"];
            };
        };
        responses: {
            /** @description Make a version of the model the one that serves the platform */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelSwitchDto"];
                };
            };
            /** @description Recorded, but not applied yet */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelSwitchDto"];
                };
            };
        };
    };
    Models_rollBack: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The version of the scoring model.
                 * @example disc-1
                 */
                model_id: "disc-1" | "disc-2";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Return to the version that was active before a version of the model was promoted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelSwitchDto"];
                };
            };
            /** @description Recorded, but not applied yet */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelSwitchDto"];
                };
            };
        };
    };
    PolicyNames_assign: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "VP_SAVINGS",
                 *       "tris_org": "tris:lendco"
                 *     }
                 */
                "application/json": components["schemas"]["AssignPolicyNameDto"];
            };
        };
        responses: {
            /** @description Give the name of policies to an organization */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyNameDto"];
                };
            };
        };
    };
    Sessions_start: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "address": "0x9d85ca56217d2bb651b00f15e694eb7e713637d4",
                 *       "chain_id": 1
                 *     }
                 */
                "application/json": components["schemas"]["StartSignInDto"];
            };
        };
        responses: {
            /** @description Start a wallet sign-in: returns the message to sign (EIP-4361) */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChallengeDto"];
                };
            };
        };
    };
    Sessions_verify: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignedMessageDto"];
            };
        };
        responses: {
            /** @description Complete a wallet sign-in: exchanges the signed message for a session */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokensDto"];
                };
            };
        };
    };
    Sessions_refresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RefreshTokenDto"];
            };
        };
        responses: {
            /** @description Exchange a refresh token for a new one and an access token */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokensDto"];
                };
            };
        };
    };
    Sessions_revoke: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "refresh_token": "zR1Cb1u6mYcUuIYyW0hS3m0lZr2mVb3uT2nJrWq8P4s"
                 *     }
                 */
                "application/json": components["schemas"]["RefreshTokenDto"];
            };
        };
        responses: {
            /** @description End the session of a refresh token permanently */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevokedDto"];
                };
            };
        };
    };
    Sessions_end: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignedMessageDto"];
            };
        };
        responses: {
            /** @description End all sessions of a wallet that signed for it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionsEndedDto"];
                };
            };
        };
    };
    Wallets_linkAccount: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "wallet": "0x9d85ca56217d2bb651b00f15e694eb7e713637d4",
                 *       "tris_id": "tris@alice"
                 *     }
                 */
                "application/json": components["schemas"]["LinkAccountDto"];
            };
        };
        responses: {
            /** @description Link a wallet to a TRIS ID on the caller’s statement */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccountLinkedDto"];
                };
            };
        };
    };
    Wallets_link: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SignedMessageDto"];
            };
        };
        responses: {
            /** @description Link a wallet that signed for it to the TRIS of the session */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WalletLinkedDto"];
                };
            };
        };
    };
    Wallets_unlink: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "wallet": "0x9d85ca56217d2bb651b00f15e694eb7e713637d4",
                 *       "reason_code": "wallet_lost"
                 *     }
                 */
                "application/json": components["schemas"]["UnlinkWalletDto"];
            };
        };
        responses: {
            /** @description End the link of a wallet */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WalletUnlinkedDto"];
                };
            };
        };
    };
    Wallets_endSessions: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "wallet": "0x9d85ca56217d2bb651b00f15e694eb7e713637d4",
                 *       "reason_code": "key_stolen"
                 *     }
                 */
                "application/json": components["schemas"]["EndSessionsDto"];
            };
        };
        responses: {
            /** @description End all sessions of a wallet, on every chain */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionsEndedDto"];
                };
            };
        };
    };
    Wallets_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the wallets of a TRIS by address, for its own session or a key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WalletsDto"];
                };
            };
        };
    };
    Person_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get who sends this request: a key and what it permits, or a session and whom it acts for */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MeDto"];
                };
            };
        };
    };
    Person_export: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Download everything that is recorded about the TRIS of the session, as lines of JSON (NDJSON) */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    Ingestion_ingest: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["IngestWalletDto"];
            };
        };
        responses: {
            /** @description Read a linked wallet’s history on a chain, in the background */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    Ingestion_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a job, for querying its status. */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the progress and the result of reading a wallet’s history */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IngestionDto"];
                };
            };
        };
    };
    Verifications_submit: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SubmitProofDto"];
            };
        };
        responses: {
            /** @description The identity already holds this verification, until then or longer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerificationGrantedDto"];
                };
            };
            /** @description Verify an identity by a zero-knowledge proof */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VerificationGrantedDto"];
                };
            };
        };
    };
    Verifications_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List verification schemes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemesDto"];
                };
            };
        };
    };
    Verifications_register: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RegisterSchemeDto"];
            };
        };
        responses: {
            /** @description Already registered with this content */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemeDto"];
                };
            };
            /** @description Register a verification scheme: what a proof under a verification key grants */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemeDto"];
                };
            };
        };
    };
    Verifications_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a verification scheme. */
                scheme: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a verification scheme, with everything a prover needs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemeDto"];
                };
            };
        };
    };
    Verifications_addRoot: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a verification scheme. */
                scheme: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddRootDto"];
            };
        };
        responses: {
            /** @description Accept proofs of another root of the issuer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemeDto"];
                };
            };
        };
    };
    Verifications_removeRoot: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a verification scheme. */
                scheme: string;
                /** @description A Merkle root or key of the issuer, as a decimal number. */
                root: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stop accepting proofs of a root; what it granted stays */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemeDto"];
                };
            };
        };
    };
    Verifications_retire: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a verification scheme. */
                scheme: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Retire a scheme: it accepts no more proofs; what it granted stays */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SchemeDto"];
                };
            };
        };
    };
    Identity_find: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description How the id begins, or what follows its first or last colon, in any case; or the id of a platform that it owns. */
                prefix?: string;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Find identities by the beginning of their id, also after its namespace, or by a platform they own */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentitiesDto"];
                };
            };
        };
    };
    Identity_setBadStatus: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "level": 3,
                 *       "reason_code": "confirmed_fraud"
                 *     }
                 */
                "application/json": components["schemas"]["SetBadStatusDto"];
            };
        };
        responses: {
            /** @description Set an identity’s BAD status: it overrides the computed score */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityBadStatusDto"];
                };
            };
        };
    };
    Identity_clearBadStatus: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Clear an identity’s BAD status */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IdentityBadStatusDto"];
                };
            };
        };
    };
    Identity_grant: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "status": "zk-KYH",
                 *       "expires_at": "2099-12-31T00:00:00Z",
                 *       "evidence_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
                 *     }
                 */
                "application/json": components["schemas"]["GrantVerificationDto"];
            };
        };
        responses: {
            /** @description Grant an identity a verification status */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GrantedVerificationDto"];
                };
            };
        };
    };
    Identity_revoke: {
        parameters: {
            query?: {
                /** @description Only grants of this issuer, as listed in the score's verifications. */
                issuer?: string;
                /** @description Only grants of this scheme: `operator`, or the id of a proof scheme. */
                scheme?: string;
            };
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The TRIS id of an identity. */
                tris_id: string;
                /** @description The verification status. */
                status: "zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revoke a verification status: with an organization’s key its own grants, with an operator’s key all */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RevokedVerificationDto"];
                };
            };
        };
    };
    Accreditation_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List accredited issuers */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccreditedIssuersDto"];
                };
            };
        };
    };
    Accreditation_accredit: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "issuer": "tris:lendco",
                 *       "statuses": [
                 *         "zk-KYH"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["AccreditIssuerDto"];
            };
        };
        responses: {
            /** @description Accredit an issuer of verifications: its grants of these statuses count in every policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccreditedIssuerDto"];
                };
            };
        };
    };
    Accreditation_withdraw: {
        parameters: {
            query?: {
                /** @description Separated by commas; default: all. */
                statuses?: ("zk-KYH" | "zk-KYC (ID only)" | "zk-KYC (ID + AML)")[];
            };
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description Who granted it: the TRIS id of an organization, or `key:<id>`.
                 * @example tris:lendco
                 */
                issuer: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Withdraw an accreditation: the issuer’s grants then count only in policies that name it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccreditedIssuerDto"];
                };
            };
        };
    };
    Trove_submit: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tris_id": "tris@alice",
                 *       "record_type": "milestone",
                 *       "metric": "creative_code_contribution",
                 *       "criticality": "High",
                 *       "title": "Release 2.0",
                 *       "content_hash": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
                 *       "uri": "https://project.example/releases/2.0",
                 *       "occurred_at": "2026-01-12T09:00:00Z"
                 *     }
                 */
                "application/json": components["schemas"]["SubmitRecordDto"];
            };
        };
        responses: {
            /** @description Submit a verifiable record: a milestone, an activity or an AI agent’s behavior */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmittedRecordDto"];
                };
            };
        };
    };
    Trove_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description Only records about this identity. */
                tris_id?: string;
                /** @description Only records in this state. */
                status?: "Pending" | "Approved" | "Rejected";
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List records in order of submission */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecordsDto"];
                };
            };
        };
    };
    Trove_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /**
                 * @description The id of a record.
                 * @example 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
                 */
                record_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RecordDto"];
                };
            };
        };
    };
    Trove_review: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The id of a record.
                 * @example 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
                 */
                record_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "decision": "approve",
                 *       "platform_id": "lendco-app"
                 *     }
                 */
                "application/json": components["schemas"]["ReviewRecordDto"];
            };
        };
        responses: {
            /** @description Approve or reject a record, lift a rejection, or revoke an approval */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmittedRecordDto"];
                };
            };
        };
    };
    Issuers_register: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "issuer_id": "lab",
                 *       "platform_id": "university.example",
                 *       "ed25519": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
                 *     }
                 */
                "application/json": components["schemas"]["RegisterIssuerDto"];
            };
        };
        responses: {
            /** @description Already registered with this content */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuerDto"];
                };
            };
            /** @description Register an issuer: records with its proof are approved from now on */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuerDto"];
                };
            };
        };
    };
    Issuers_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /**
                 * @description The id of a registered issuer of records.
                 * @example lab
                 */
                issuer_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an issuer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuerDto"];
                };
            };
        };
    };
    Issuers_retire: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The id of a registered issuer of records.
                 * @example lab
                 */
                issuer_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Retire an issuer: its proofs are no longer trusted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IssuerDto"];
                };
            };
        };
    };
    Webhooks_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description Of this organization; another one than the key’s is for `ops`. Default: the key’s, or the operators. */
                tris_org?: string;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List webhooks of the key’s organization */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhooksDto"];
                };
            };
        };
    };
    Webhooks_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "url": "https://lender.example/hooks/credence",
                 *       "events": [
                 *         "rating.changed",
                 *         "score.crossed"
                 *       ],
                 *       "filter": {
                 *         "score_below": 40
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreateWebhookDto"];
            };
        };
        responses: {
            /** @description Create a webhook: receive changes instead of polling for them */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedWebhookDto"];
                };
            };
        };
    };
    Webhooks_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDto"];
                };
            };
        };
    };
    Webhooks_delete: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Delete a webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedWebhookDto"];
                };
            };
        };
    };
    Webhooks_change: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "status": "disabled"
                 *     }
                 */
                "application/json": components["schemas"]["ChangeWebhookDto"];
            };
        };
        responses: {
            /** @description Change a webhook, pause it, or enable it again */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookDto"];
                };
            };
        };
    };
    Webhooks_rotate: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Replace the secret of a webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedSecretDto"];
                };
            };
        };
    };
    Webhooks_test: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Send a test message at once, and say what the receiver answered */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttemptDto"];
                };
            };
        };
    };
    Webhooks_replay: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplayWebhookDto"];
            };
        };
        responses: {
            /** @description Deliver everything after a position, again if it was delivered before */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplayedWebhookDto"];
                };
            };
        };
    };
    Webhooks_deliveries: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List deliveries of a webhook, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveriesDto"];
                };
            };
        };
    };
    Webhooks_redeliver: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a webhook. */
                webhook_id: string;
                /** @description The number of a delivery of the webhook, after `dlv_`. */
                delivery_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Send a delivery again at once, and say what the receiver answered */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttemptDto"];
                };
            };
        };
    };
    Organizations_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List registered organizations */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationsDto"];
                };
            };
        };
    };
    Organizations_register: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "tris_org": "tris:lendco",
                 *       "platform_ids": [
                 *         "lendco-app"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["RegisterOrganizationDto"];
            };
        };
        responses: {
            /** @description Already registered with these platforms */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDto"];
                };
            };
            /** @description Register an organization and the platforms it owns */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDto"];
                };
            };
        };
    };
    Organizations_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /**
                 * @description The TRIS id of an identity.
                 * @example tris:lendco
                 */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an organization */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrganizationDto"];
                };
            };
        };
    };
    Organizations_vet: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The TRIS id of an identity.
                 * @example tris:lendco
                 */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Vet an organization: it has a public rank from now on */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VettingDto"];
                };
            };
        };
    };
    Organizations_revoke: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /**
                 * @description The TRIS id of an identity.
                 * @example tris:lendco
                 */
                tris_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revoke an organization’s vetting */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VettingDto"];
                };
            };
        };
    };
    Organizations_registerPlatform: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "platform_id": "lendco-web",
                 *       "tris_org": "tris:lendco"
                 *     }
                 */
                "application/json": components["schemas"]["RegisterPlatformDto"];
            };
        };
        responses: {
            /** @description Already registered to this organization */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlatformDto"];
                };
            };
            /** @description Register a platform to an organization */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlatformDto"];
                };
            };
        };
    };
    Operations_status: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the state of the log, the read models, dead letters and failed jobs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusDto"];
                };
            };
        };
    };
    Operations_rebuild: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["RebuildDto"];
            };
        };
        responses: {
            /** @description Build a generation of views beside the one that serves */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    Operations_swap: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "generation": "g2"
                 *     }
                 */
                "application/json": components["schemas"]["SwapDto"];
            };
        };
        responses: {
            /** @description Serve the views of a ready generation */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    Operations_rollback: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Undo the last swap */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    Operations_verify: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Fold the whole log again and compare every row of the read models that serve */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStartedDto"];
                };
            };
        };
    };
    Operations_drop: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a generation. */
                generation: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Delete a generation that does not serve */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DroppedGenerationDto"];
                };
            };
        };
    };
    Keys_list: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the API keys, without their secrets */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeysDto"];
                };
            };
        };
    };
    Keys_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "key_id": "lendco-relay",
                 *       "scopes": [
                 *         "relay:write"
                 *       ],
                 *       "organization": "tris:lendco"
                 *     }
                 */
                "application/json": components["schemas"]["CreateKeyDto"];
            };
        };
        responses: {
            /** @description Create an API key */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedKeyDto"];
                };
            };
        };
    };
    Keys_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of an API key. */
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an API key, without its secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyDto"];
                };
            };
        };
    };
    Keys_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of an API key. */
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Delete an API key: this process refuses it from now on, others within a second */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedKeyDto"];
                };
            };
        };
    };
    Usage_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get what the organization of the key of this request, or the key without one, has used of its bounds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageDto"];
                };
            };
        };
    };
    Jobs_list: {
        parameters: {
            query?: {
                /** @description Number of jobs. */
                limit?: number;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the newest jobs of all callers */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobsDto"];
                };
            };
        };
    };
    Jobs_get: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a job, for querying its status. */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the progress and the result of a job */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobDto"];
                };
            };
        };
    };
    Jobs_cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The id of a job, for querying its status. */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Cancel a job; has no effect on a finished one */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobDto"];
                };
            };
        };
    };
    Jobs_result: {
        parameters: {
            query?: never;
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path: {
                /** @description The id of a job, for querying its status. */
                job_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Download the result of a job as lines of JSON (NDJSON) */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
    DeadLetters_list: {
        parameters: {
            query?: {
                /** @description Entries on a page. */
                limit?: number;
                /** @description Only events in this state. */
                state?: "open" | "acknowledged";
                /** @description `next_cursor` of the page before; opaque. */
                cursor?: string;
            };
            header?: {
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List events that could not be decoded */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLettersDto"];
                };
            };
        };
    };
    DeadLetters_acknowledge: {
        parameters: {
            query?: never;
            header?: {
                /** @description A retry with the same key and body has no second effect and gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The id of an event in the log. */
                event_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "reason_code": "known_defect"
                 *     }
                 */
                "application/json": components["schemas"]["AcknowledgeDeadLetterDto"];
            };
        };
        responses: {
            /** @description Acknowledge an undecodable event: its identity no longer counts as incomplete because of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeadLetterDto"];
                };
            };
        };
    };
    Audit_inclusion: {
        parameters: {
            query?: {
                /** @description The id of an action or of a dead letter. Other events are found by their position only. */
                event_id?: string;
                /** @description The number of events in the tree. Default: all that the read models have applied. */
                size?: number;
                /** @description Where the event is in the log; opaque. Instead of `event_id`. */
                position?: string;
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Prove that an event is in the log (RFC 9162) */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InclusionDto"];
                };
            };
        };
    };
    Audit_consistency: {
        parameters: {
            query: {
                /** @description The number of events in the older tree. */
                from: number;
                /** @description The number of events in the newer tree. Default: all that the read models have applied. */
                to?: number;
            };
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
                /** @description A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied. */
                "Credence-Min-Position"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Prove that the log begins with the events that it had before (RFC 9162) */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConsistencyDto"];
                };
            };
        };
    };
    Proofs_jwks: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of an earlier answer: the answer is 304 if it is still the same. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the public keys that verify proofs and tokens (RFC 7517) */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JwkSetDto"];
                };
            };
        };
    };
    Ops_live: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Check whether the process responds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LivenessDto"];
                };
            };
        };
    };
    Ops_ready: {
        parameters: {
            query?: {
                /** @description Only what this needs. Default: all that the process does. */
                for?: "reads" | "writes";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Check whether every part of the service works, or all that reads or writes need */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadinessDto"];
                };
            };
        };
    };
}
