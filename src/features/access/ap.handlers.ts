import { randomUUID } from 'node:crypto';
import { Inject } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { ACCESS_POLICIES, type AccessPolicyRow, accessPoliciesOf } from '../../../projections/access-policies.js';
import { identityRow } from '../../../projections/identities.js';
import { Chains } from '../accounts/chains.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { EligibilityTokens } from './tokens.js';
import { Vouchers } from './vouchers.js';
import type { NewEvent, Position, RecordedEvent } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { hashOf, uuidOf } from '../../kernel/hash.js';
import { servingModel } from '../../read-side/manifest.js';
import { Problem, type ProblemCode, unauthorized } from '../../kernel/problems.js';
import type { Caller } from '../../credentials/caller.js';
import { Views } from '../../read-side/views.js';
import { WalletLinks } from '../accounts/wallet-links.js';
import { trisActedFor } from '../accounts/domain/wallet.js';
import { PolicyNames } from '../lenses/policy-names.js';
import { ValidationPolicies } from '../lenses/validation-policies.js';
import { AccessPolicies } from './access-policies.js';
import type { AccessDto, AccessPoliciesDto, AccessPolicyDto, RetiredAccessPolicyDto } from './ap.dto.js';
import type { AccessDecision } from './domain/ap.events.js';
import {
  type CheckRequest,
  type Observation,
  type VoucherTarget,
  accessStream,
  checkedAt,
  decideCheck,
  judge,
} from './access-check.js';
import {
  AP_ID,
  type AccessPolicy,
  type AccessPolicyContent,
  accessPolicyOf,
  accessPolicyStream,
  decideCreate,
  decideRetire,
  mayReadRules,
} from './domain/access-policy.js';
import { factsOf } from './facts.js';

/** Creates an access policy, which can never be changed. Its rules have already been validated. */
export class CreateAccessPolicy extends Command<{ body: AccessPolicyDto; position: Position; own: boolean }> {
  constructor(
    readonly content: AccessPolicyContent,
    readonly context: CommandContext,
  ) {
    super();
  }
}

const ACCESS_POLICY = {
  streamOf: accessPolicyStream,
  ownerIn: (history: readonly RecordedEvent[]) => accessPolicyOf(history)?.owner,
};

@CommandHandler(CreateAccessPolicy)
export class CreateAccessPolicyHandler implements ICommandHandler<CreateAccessPolicy> {
  constructor(
    private readonly names: PolicyNames,
    private readonly policies: AccessPolicies,
    private readonly validationPolicies: ValidationPolicies,
  ) {}

  /** @throws Problem policy_not_found for the VP, policy_conflict, policy_name_not_owned */
  async execute({ content, context }: CreateAccessPolicy) {
    const { policy_id, vp } = content;
    const { organization } = context.actor;
    if (vp !== null) await this.validationPolicies.lens(vp);
    const { position, own } = await this.names.create(policy_id, organization, ACCESS_POLICY, context, (history) =>
      decideCreate(accessPolicyOf(history), content, organization),
    );
    return { body: policyDto(await this.policies.get(policy_id)), position, own };
  }
}

/** Retires an access policy, so that it can no longer be checked. */
export class RetireAccessPolicy extends Command<{ body: RetiredAccessPolicyDto; position: Position }> {
  constructor(
    readonly policyId: string,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(RetireAccessPolicy)
export class RetireAccessPolicyHandler implements ICommandHandler<RetireAccessPolicy> {
  constructor(
    private readonly writer: Writer,
    private readonly policies: AccessPolicies,
  ) {}

  /** @throws Problem policy_not_found, forbidden */
  async execute({ policyId, context }: RetireAccessPolicy) {
    await this.policies.get(policyId);
    const { position } = await this.writer.execute(accessPolicyStream(policyId), context, (history) =>
      decideRetire(accessPolicyOf(history)!, context.actor.organization),
    );
    return { body: { policy_id: policyId, status: 'retired' as const }, position };
  }
}

/** One access policy, read from its own stream, so always current. */
export class GetAccessPolicy extends Query<AccessPolicyDto> {
  constructor(
    readonly policyId: string,
    /** null: without a credential. */
    readonly caller: Caller | null,
  ) {
    super();
  }
}

@QueryHandler(GetAccessPolicy)
export class GetAccessPolicyHandler implements IQueryHandler<GetAccessPolicy> {
  constructor(private readonly policies: AccessPolicies) {}

  /** @throws Problem policy_not_found, unauthorized, forbidden */
  async execute({ policyId, caller }: GetAccessPolicy): Promise<AccessPolicyDto> {
    const policy = await this.policies.get(policyId);
    if (mayReadRules(policy, caller)) return policyDto(policy);
    const detail = `The rules of ${policyId} are private: they need a key of its owner, or a key with the scope "ops".`;
    throw caller === null ? unauthorized(false, detail) : new Problem('forbidden', detail);
  }
}

/** Access policies by id. */
export class ListAccessPolicies extends Query<AccessPoliciesDto> {
  constructor(
    readonly limit: number,
    readonly cursor: string | undefined,
    readonly trisOrg: string | undefined,
    /** null: without a credential. */
    readonly caller: Caller | null,
  ) {
    super();
  }
}

@QueryHandler(ListAccessPolicies)
export class ListAccessPoliciesHandler implements IQueryHandler<ListAccessPolicies> {
  constructor(private readonly views: Views) {}

  async execute({ limit, cursor, trisOrg, caller }: ListAccessPolicies): Promise<AccessPoliciesDto> {
    const list = trisOrg === undefined ? ACCESS_POLICIES : accessPoliciesOf(trisOrg);
    const { page, next_cursor } = await this.views.page<AccessPolicyRow>(list, { cursor, limit }, AP_ID);
    return {
      policies: page.map(({ created_at, retired, content_hash, ...row }) => ({
        ...row,
        // The hash would confirm a guess of simple rules.
        content_hash: mayReadRules({ owner: row.tris_org, visibility: row.visibility }, caller) ? content_hash : null,
        status: statusOf(retired),
        created_at: new Date(created_at).toISOString(),
      })),
      next_cursor,
    };
  }
}

/** Checks a subject by an access policy, and records the decision. */
export class CheckAccess extends Command<{ body: AccessDto; position: Position }> {
  constructor(
    readonly request: CheckRequest,
    readonly context: CommandContext,
  ) {
    super();
  }
}

/** Attempts at reading a subject whose first event may be applied between two reads. */
const LOOKS = 3;

@CommandHandler(CheckAccess)
export class CheckAccessHandler implements ICommandHandler<CheckAccess> {
  constructor(
    private readonly writer: Writer,
    private readonly policies: AccessPolicies,
    private readonly identities: IdentityReader,
    private readonly views: Views,
    private readonly tokens: EligibilityTokens,
    private readonly vouchers: Vouchers,
    private readonly chains: Chains,
    private readonly links: WalletLinks,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * @throws Problem policy_not_found, policy_not_active, chain_not_configured, wallet_not_linked,
   * vouchers_not_configured, idempotency_key_reused, projection_rebuilding
   */
  async execute({ request, context }: CheckAccess): Promise<{ body: AccessDto; position: Position }> {
    // The id of the decision and its token is derived from the Idempotency-Key, so that a retry finds the decision.
    const jti = context.idempotency === null ? randomUUID() : uuidOf(hashOf('access', context.idempotency), 8);
    const stream = accessStream(jti);
    if (context.idempotency !== null) {
      const [earlier] = await this.store.readStream(stream, { limit: 1 });
      if (earlier) return this.repeat(earlier, earlier.position, context);
    }
    const policy = await this.policies.get(request.policy_id);
    if (policy.retired) throw new Problem('policy_not_active', `${policy.policy_id} is retired and cannot be checked.`);
    const voucher_issuer = request.target && (await this.issuerFor(request.target, request.subject_tris));
    const { rule, evaluate } = this.policies.rulesOf(policy);
    const observation = await this.observe(request.subject_tris, policy);
    const judgement = judge(rule, evaluate, observation.seen?.facts ?? null, observation.model);
    const issued = { jti, iss: this.tokens.issuer, kid: this.tokens.kid, voucher_issuer };
    const decision = decideCheck(request, policy, observation, judgement, issued);
    if (context.idempotency === null) {
      const recorded = this.writer.create(stream, [decision], context);
      const answer = this.answer(decision.data as AccessDecision, observation.now, policy, context);
      const [body, { position }] = await Promise.all([answer, recorded]);
      return { body, position };
    }
    await this.writer.create(stream, [decision], context);
    // Of two concurrent tries only one is stored, so the answer is made from the stored decision.
    const [stored] = await this.store.readStream(stream, { limit: 1 });
    return this.repeat(stored!, stored!.position, context);
  }

  /** @throws Problem idempotency_key_reused */
  private async repeat({ data, metadata }: NewEvent, position: Position, context: CommandContext) {
    if (metadata.body_hash !== context.body_hash) {
      throw new Problem(
        'idempotency_key_reused',
        'This Idempotency-Key was used for another check. Use a new key for a new check.',
      );
    }
    const decision = data as AccessDecision;
    const policy = await this.policies.get(decision.policy_id);
    return { body: await this.answer(decision, Date.parse(metadata.occurred_at), policy, context), position };
  }

  /** The issuer of a voucher for a wallet. The wallet must belong to the subject by a link that it signed itself. */
  private async issuerFor({ wallet, chain_id }: VoucherTarget, subject: string): Promise<string> {
    if (!this.chains.has(chain_id)) {
      throw wrong('chain_not_configured', '/chain_id', `Vouchers for chain ${chain_id} are not issued here.`);
    }
    const link = await this.links.of(wallet);
    // A key controls its address on every chain, a contract only on its own.
    if (![null, chain_id].some((chain) => trisActedFor(link, chain) === subject)) {
      const how = 'it must have signed its link (purpose claim or link), a contract wallet on the same chain';
      throw wrong('wallet_not_linked', '/wallet', `The wallet is not linked to ${subject}: ${how}.`);
    }
    const issuer = this.vouchers.issuer;
    if (issuer === undefined) {
      throw new Problem(
        'vouchers_not_configured',
        'This service has no keys for signing vouchers (CREDENCE_VOUCHER_KEYS).',
      );
    }
    return issuer;
  }

  /**
   * The subject as of now, not of the end of the hour: a verification counts exactly until it expires. If a server's clock
   * that is ahead has given a later time to an event about the subject, as of that time.
   */
  private async observe(trisId: string, { vp, owner }: AccessPolicy): Promise<Observation> {
    const now = this.clock();
    const log = this.identities.logId;
    for (let look = 1; ; look++) {
      try {
        const snapshot = await this.identities.snapshot(trisId, {
          now,
          organization: owner,
          ...(vp !== null && { vp }),
        });
        const { state, lens, position, as_of } = snapshot;
        const facts = factsOf(state, lens, as_of, snapshot.trusts);
        return { now, as_of, log, position, model: lens.model, seen: { facts, lens } };
      } catch (error) {
        if (!(error instanceof Problem) || error.code !== 'identity_not_found') throw error;
      }
      const { manifest, position, results } = await this.views.read([{ get: identityRow(trisId) }]);
      if (results[0] !== undefined && look < LOOKS) continue;
      return { now, as_of: now, log, position, model: servingModel(manifest), seen: null };
    }
  }

  private async answer(
    decision: AccessDecision,
    at: number,
    policy: AccessPolicy,
    { actor }: CommandContext,
  ): Promise<AccessDto> {
    const { granted, policy_id, subject_tris, score, exp } = decision;
    // To others, private rules are a yes or a no. That the subject is unknown follows from no rule.
    const explains = mayReadRules(policy, actor);
    const reasons = explains ? decision.reasons : decision.reasons.filter(({ rule }) => rule === 'identity');
    const how_to_pass = explains ? decision.how_to_pass : [];
    return {
      granted,
      eligibility_token: await this.tokens.sign(decision),
      expires_at: exp === null ? null : new Date(exp * 1000).toISOString(),
      voucher: this.vouchers.sign(decision),
      policy_id,
      subject_tris,
      score,
      reasons: reasons as unknown as AccessDto['reasons'],
      how_to_pass: how_to_pass as unknown as AccessDto['how_to_pass'],
      checked_at: checkedAt(decision, at),
    };
  }
}

const wrong = (code: ProblemCode, pointer: string, message: string) =>
  new Problem(code, message, { errors: [{ pointer, code, message }] });

function policyDto(policy: AccessPolicy): AccessPolicyDto {
  const { policy_id, retired, content_hash, ttl_seconds, rules, vp, owner, visibility, created_at } = policy;
  const at = new Date(created_at).toISOString();
  return {
    policy_id,
    status: statusOf(retired),
    content_hash,
    ttl_seconds,
    rules,
    vp,
    tris_org: owner,
    visibility,
    created_at: at,
  };
}

const statusOf = (retired: boolean) => (retired ? 'retired' : 'active');
