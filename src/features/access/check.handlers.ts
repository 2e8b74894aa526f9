import { randomUUID } from 'node:crypto';
import { Inject, Optional } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { Registry } from 'prom-client';
import { Chains } from '../accounts/chains.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Batches, keyOfItem, type ItemOutcome } from '../../commands/batches.js';
import { bodyHash, type CommandContext, ownerOfTurns, type Recorded } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { Staleness } from '../../read-side/staleness.js';
import { hashOf, uuidOf } from '../../kernel/hash.js';
import { LargestCounter } from '../../kernel/largest-counter.js';
import { NAME_NOBODY, personalDataIn } from '../../kernel/personal-data.js';
import { Problem, idempotencyKeyReused, fieldProblem } from '../../kernel/problems.js';
import { isDue, yieldBatchIfDue, yieldIfDue } from '../../kernel/turn.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { WalletLinks } from '../accounts/wallet-links.js';
import { trisOn } from '../accounts/domain/wallet.js';
import { type CheckRequest, type Observation, type VoucherTarget, decideCheck, judge } from './access-check.js';
import { AccessPolicies } from './access-policies.js';
import type { AccessDto } from './ap.dto.js';
import type { AccessDecision } from './domain/ap.events.js';
import { type AccessPolicy, explanationOf } from './domain/access-policy.js';
import { accessStream, checkedAt } from './domain/decision.js';
import { type Known, codesOf, knownThen } from './notice.js';
import { observe } from './subjects.js';
import { EligibilityTokens } from './tokens.js';
import { Vouchers } from './vouchers.js';

/** Checks a subject by an access policy, and records the decision. */
export class CheckAccess extends CommandWith<
  {
    request: CheckRequest;
    context: CommandContext;
    /** The caller has chosen how old the read models may be: it has waited for a position. */
    hasWaited: boolean;
    isOfMany?: boolean;
  },
  Recorded<AccessDto>
> {}

@CommandHandler(CheckAccess)
export class CheckAccessHandler implements ICommandHandler<CheckAccess> {
  private readonly checks: LargestCounter<'granted' | 'denied'>;

  constructor(
    private readonly writer: Writer,
    private readonly policies: AccessPolicies,
    private readonly identities: IdentityReader,
    private readonly tokens: EligibilityTokens,
    private readonly vouchers: Vouchers,
    private readonly chains: Chains,
    private readonly links: WalletLinks,
    private readonly staleness: Staleness,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
    @Optional() registry?: Registry,
  ) {
    this.checks = new LargestCounter(registry, {
      name: 'credence_checks_total',
      help: 'Access checks that this process has recorded',
      labels: ['policy', 'outcome'],
    });
  }

  /**
   * @throws Problem policy_not_found, policy_not_active, chain_not_configured, wallet_not_linked,
   * vouchers_not_configured, identity_not_found if the subject is misspelled, personal_data, idempotency_key_reused,
   * projection_rebuilding, projection_behind
   */
  async execute({ input: { request, context, hasWaited, isOfMany } }: CheckAccess): Promise<Recorded<AccessDto>> {
    const { jti, earlier } = await this.earlierCheck(context);
    const stream = accessStream(jti);
    if (earlier) return this.repeat(earlier, context);
    const policy = await this.policies.get(request.policy_id);
    if (policy.retired) throw new Problem('policy_not_active', `${policy.policy_id} is retired and cannot be checked.`);
    const voucher_issuer = request.target && (await this.issuerFor(request.target, request.subject_tris));
    const rule = this.policies.rulesOf(policy);
    const { subject_tris } = request;
    const [observation] = (await observe([subject_tris], policy, this.identities, this.clock())) as [Observation];
    // Of a subject of which nothing is recorded yet: the decision would be permanent.
    if (!observation.seen && personalDataIn(subject_tris) !== undefined) {
      throw fieldProblem('/subject_tris', 'personal_data', `subject_tris must ${NAME_NOBODY}`);
    }
    if (!hasWaited) await this.staleness.refuse(observation.position);
    // The checks of a batch come here together, and the advice of each may take long.
    if (isDue()) await (isOfMany ? yieldBatchIfDue() : yieldIfDue());
    const judgement = judge(rule, observation.seen?.facts ?? null, observation.model);
    const issued = { jti, iss: this.tokens.address.url, kid: this.tokens.keys.current.kid, voucher_issuer };
    const decision = decideCheck(request, policy, { ...observation, log: this.store.logId }, judgement, issued);
    if (context.idempotency === null) {
      const recorded = this.writer.create(stream, [decision], context);
      const known = () => observation;
      const answer = this.answer(decision.data as AccessDecision, observation.now, policy, context, known);
      const [body, { position }] = await Promise.all([answer, recorded]);
      this.checks.inc(policy.policy_id, judgement.granted ? 'granted' : 'denied');
      return { body, position };
    }
    await this.writer.create(stream, [decision], context);
    this.checks.inc(policy.policy_id, judgement.granted ? 'granted' : 'denied');
    // Of two concurrent tries only one is stored, so the answer is made from the stored decision.
    const [stored] = await this.store.readStream(stream, { limit: 1 });
    const isOwn = stored!.metadata.correlation_id === context.correlation_id;
    return this.repeat(stored!, context, isOwn ? observation : undefined);
  }

  /**
   * The last check with this Idempotency-Key, if its answer can be repeated; else the id of the next one. A granted
   * check whose token has expired, or whose key was revoked, is made again, since its token or voucher is of no use.
   * @throws Problem idempotency_key_reused
   */
  private async earlierCheck({ idempotency, body_hash }: CommandContext) {
    if (idempotency === null) return { jti: randomUUID() };
    // A retry finds the decision by its id, which follows from the key.
    const jtiOf = (n: number) => uuidOf(hashOf('access', idempotency, ...(n === 0 ? [] : [String(n)])), 8);
    const checkOf = async (n: number) => (await this.store.readStream(accessStream(jtiOf(n)), { limit: 1 }))[0];
    // There is a check with the number `last`, and none with the number `next`. A key may be used for long.
    let [last, next] = [-1, 0];
    let check: RecordedEvent | undefined;
    for (let found = await checkOf(next); found; found = await checkOf(next)) {
      [last, check, next] = [next, found, 2 * next + 1];
    }
    while (next - last > 1) {
      const middle = Math.floor((last + next) / 2);
      const found = await checkOf(middle);
      if (found) [last, check] = [middle, found];
      else next = middle;
    }
    if (check && check.metadata.body_hash !== body_hash) throw idempotencyKeyReused();
    const { exp = null, kid = null, voucher_issuer = null } = (check?.data ?? {}) as Partial<AccessDecision>;
    const isSigned = () =>
      this.tokens.keys.signsWith(kid!) && (voucher_issuer === null || this.vouchers.keys?.signsWith(voucher_issuer));
    const isDead = exp !== null && (exp * 1000 <= this.clock() || !isSigned());
    return check && !isDead ? { jti: jtiOf(last), earlier: check } : { jti: jtiOf(next) };
  }

  /** @param observation absent: an earlier try recorded the decision @throws Problem idempotency_key_reused */
  private async repeat({ data, metadata, position }: RecordedEvent, context: CommandContext, observation?: Known) {
    if (!observation) context.onRepeated?.();
    if (metadata.body_hash !== context.body_hash) throw idempotencyKeyReused();
    const decision = data as AccessDecision;
    const policy = await this.policies.get(decision.policy_id);
    const known = () => observation ?? knownThen({ data: decision, position }, this.identities);
    return { body: await this.answer(decision, Date.parse(metadata.occurred_at), policy, context, known), position };
  }

  /** The issuer of a voucher for a wallet. The wallet must belong to the subject by a link that it signed itself. */
  private async issuerFor({ wallet, chain_id }: VoucherTarget, subject: string): Promise<string> {
    if (!this.chains.has(chain_id)) {
      throw fieldProblem('/chain_id', 'chain_not_configured', `Vouchers for chain ${chain_id} are not issued here.`);
    }
    if (trisOn(await this.links.of(wallet), chain_id) !== subject) {
      const how = 'it must have signed its link (purpose claim or link), a contract wallet on the same chain';
      throw fieldProblem('/wallet', 'wallet_not_linked', `The wallet is not linked to ${subject}: ${how}.`);
    }
    const issuer = this.vouchers.keys?.current.kid;
    if (issuer !== undefined) return issuer;
    const detail = 'This service has no keys for signing vouchers (CREDENCE_VOUCHER_KEYS).';
    throw new Problem('vouchers_not_configured', detail);
  }

  private async answer(
    decision: AccessDecision,
    at: number,
    policy: AccessPolicy,
    { actor }: CommandContext,
    known: () => Known | Promise<Known>,
  ): Promise<AccessDto> {
    const { granted, policy_id, subject_tris, score, exp } = decision;
    const told = explanationOf(decision, policy, actor) as unknown as Pick<AccessDto, 'reasons' | 'how_to_pass'>;
    return {
      granted,
      eligibility_token: await this.tokens.sign(decision),
      expires_at: exp === null ? null : new Date(exp * 1000).toISOString(),
      voucher: this.vouchers.sign(decision),
      policy_id,
      subject_tris,
      score,
      ...told,
      codes: told.reasons.length === 0 ? [] : codesOf({ score, ...told }, await known()),
      checked_at: new Date(checkedAt(decision, at)).toISOString(),
    };
  }
}

/** A check of a batch. */
export type CheckOfMany = Pick<CheckRequest, 'policy_id' | 'subject_tris'>;

/** Makes several checks, each as if it were sent alone: what happens to one makes no difference to the others. */
export class CheckAccessOfMany extends CommandWith<
  {
    checks: readonly CheckOfMany[];
    audience: string | null;
    request: Omit<CommandContext, 'body_hash'>;
    hasWaited: boolean;
  },
  ItemOutcome<Recorded<AccessDto>>[]
> {}

@CommandHandler(CheckAccessOfMany)
export class CheckAccessOfManyHandler implements ICommandHandler<CheckAccessOfMany> {
  private readonly batches: Batches;

  constructor(
    private readonly single: CheckAccessHandler,
    @Inject(EVENT_STORE) store: EventStore,
  ) {
    this.batches = new Batches(store);
  }

  /**
   * @returns the outcome of each check, in order
   * @throws StoreUnavailable if the log took none of them, Problem projection_behind if none was made since the read
   * models are too far behind: the whole request can be repeated
   */
  async execute({ input: { checks, audience, request, hasWaited } }: CheckAccessOfMany) {
    const { actor, correlation_id, idempotency, trace } = request;
    const outcomes = await this.batches.execute(ownerOfTurns(actor), checks, (check, index) => {
      const body_hash = bodyHash({ audience, wallet: null, ...check });
      const context = { actor, correlation_id, idempotency: keyOfItem(idempotency, index), body_hash, trace };
      return this.single.execute(
        new CheckAccess({ request: { audience, target: null, ...check }, context, hasWaited, isOfMany: true }),
      );
    });
    const behind = outcomes.find((outcome) => outcome instanceof Problem && outcome.code === 'projection_behind');
    if (behind && outcomes.every((outcome) => outcome instanceof Error)) throw behind;
    return outcomes;
  }
}
