import { Injectable } from '@nestjs/common';
import { disputeRow } from '../../../projections/disputes.js';
import type { DomainEvent } from '../../../projections/events.js';
import { type IdentityEvent, isOfDispute, subjectOf } from '../../../projections/identity-events.js';
import { timelineOf } from '../../../projections/timeline.js';
import { formatPosition, positionOf } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { hashOf } from '../../kernel/hash.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import type { Scoring } from '../../scoring/models/all.js';
import { judge } from '../access/access-check.js';
import { AccessPolicies } from '../access/access-policies.js';
import { TRUE, evaluate } from '../access/evaluate.js';
import { SubjectFacts } from '../access/facts.js';
import { codesOf } from '../access/notice.js';
import { RunningStanding } from '../disc/history.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { type Dispute, disputeIdIn } from '../disputes/domain/dispute.js';
import { Lenses } from '../lenses/lenses.js';
import { dtoOf } from '../withdrawals/affected-decisions.handlers.js';
import { DifferingDecisions } from '../withdrawals/differing-decisions.js';
import type { Notice } from './deliveries.js';
import type { Webhook } from './domain/webhook.js';
import { type Change, type Said, saidOfDispute, saidOfIdentity, saidOfPromotion, saidOfScore } from './said.js';

/** The lens of an owner. Owners may have the same, which has one name. */
interface OwnLens {
  name: string;
  lens: Scoring;
  owner: string | null;
}

/** Standings that are kept between two parts of the log. */
const KEPT = 20_000;

/** Standings of identities after a part of the log, by lens; the next part continues from them. */
export class Standings {
  private readonly byIdentity = new Map<string, Map<string, RunningStanding>>();
  private size = 0;

  /** @param position all events up to it are in the standings */
  constructor(public position: number) {}

  of(trisId: string): ReadonlyMap<string, RunningStanding> | undefined {
    return this.byIdentity.get(trisId);
  }

  /** @param byLens all standings of the identity after its event: one by another lens would lack the event */
  replace(trisId: string, byLens: Map<string, RunningStanding>): void {
    this.size += byLens.size - (this.byIdentity.get(trisId)?.size ?? 0);
    if (byLens.size > 0) this.byIdentity.set(trisId, byLens);
    else this.byIdentity.delete(trisId);
  }

  moveTo(position: number): void {
    this.position = position;
    if (this.size <= KEPT) return;
    this.byIdentity.clear();
    this.size = 0;
  }
}

/** Derives the messages of webhooks from events. The same events and lenses always give the same messages. */
@Injectable()
export class Notices {
  constructor(
    private readonly views: Views,
    private readonly identities: IdentityReader,
    private readonly lenses: Lenses,
    private readonly accessPolicies: AccessPolicies,
    private readonly differing: DifferingDecisions,
  ) {}

  /**
   * The messages of a part of the log for several webhooks, in log order.
   * @param events those that follow `standings.position`; the read models have applied all of them
   * @param from by webhook: it reports only events after this position
   * @param standings is brought to the end of the part
   */
  async of(
    events: readonly DomainEvent[],
    webhooks: readonly Webhook[],
    from: (webhook: Webhook) => number,
    standings: Standings,
  ): Promise<Map<Webhook, Notice[]>> {
    const notices = new Map<Webhook, Notice[]>(webhooks.map((webhook) => [webhook, []]));
    const followers = webhooks.filter(followsScores);
    const lenses = new Map<string | null, OwnLens>();
    let previous = standings.position;
    // The lens that the organization's own requests use now.
    for (const owner of ownersOf(followers)) {
      const { lens } = await this.lenses.current({ organization: owner }, this.views);
      lenses.set(owner, { lens, owner, name: `${lens.content_hash} ${lens.model.hash}` });
    }
    const reviewers = webhooks.filter(({ events }) => events.includes('decision.would_differ'));
    const differing = await this.differing.of(events, previous, ownersOf(reviewers));
    for (const event of events) {
      const subject = subjectOf(event);
      const trisId = subject?.tris_id ?? null;
      const watched = new Map<string, OwnLens>();
      for (const webhook of followers) {
        const lens = lenses.get(webhook.owner)!;
        if (concerns(webhook, trisId)) watched.set(lens.name, lens);
        if (isDue()) await yieldIfDue();
      }
      const changes = subject ? await this.changes(subject, watched, standings) : undefined;
      const dispute = await this.disputeOf(event);
      for (const webhook of webhooks) {
        if (isDue()) await yieldIfDue();
        if (event.position <= from(webhook)) continue;
        const said = [saidOfPromotion(event, webhook.owner)];
        if (dispute && concerns(webhook, dispute.tris_id)) said.push(saidOfDispute(dispute, event, webhook.owner));
        if (trisId !== null && concerns(webhook, trisId)) {
          const change = changes?.get(lenses.get(webhook.owner)?.name ?? '');
          said.push(saidOfIdentity(trisId, event));
          if (change) said.push(...saidOfScore(trisId, change, webhook.filter));
          for (const decision of differing.get(webhook.owner)?.get(event.id) ?? []) {
            const data = { tris_id: trisId, ...dtoOf(decision) };
            said.push({ type: 'decision.would_differ', data, detail: decision.jti });
          }
          if (webhook.events.includes('access.denied_now')) {
            said.push(await this.deniedNow(webhook, trisId, previous, event));
          }
        }
        for (const one of said) {
          if (one && webhook.events.includes(one.type)) notices.get(webhook)!.push(this.notice(webhook, event, one));
        }
      }
      previous = event.position;
    }
    return notices;
  }

  /** What an event changes under each lens, by its name. */
  private async changes(
    { tris_id, event }: { tris_id: string; event: IdentityEvent },
    lenses: ReadonlyMap<string, OwnLens>,
    standings: Standings,
  ): Promise<Map<string, Change>> {
    const changes = new Map<string, Change>();
    const byLens = new Map<string, RunningStanding>();
    const known = standings.of(tris_id);
    for (const [name, own] of lenses) {
      const running = known?.get(name) ?? (await this.standingAt(standings.position, tris_id, own));
      const before = running.standing;
      running.apply(event);
      byLens.set(name, running);
      changes.set(name, { before, after: running.standing, lens: own.lens });
    }
    standings.replace(tris_id, byLens);
    return changes;
  }

  /** The standing of an identity as of a position. One that was not known then counts as without any event. */
  private async standingAt(position: number, trisId: string, { lens, owner }: OwnLens): Promise<RunningStanding> {
    if (!(await this.isKnown(trisId, position))) return new RunningStanding(lens);
    const as_of_position = formatPosition(this.views.logId, position);
    // What follows is applied whenever it occurred, so what precedes counts in the same way.
    const { state } = await this.identities.snapshot(trisId, { as_of_position, organization: owner, now: Infinity });
    return RunningStanding.of(state, lens);
  }

  private async isKnown(trisId: string, position: number): Promise<boolean> {
    const [first] = await this.views.range({ ...timelineOf(trisId), limit: 1 });
    return first !== undefined && positionOf(first.sort) <= position;
  }

  /** Said if the policy would have granted access before the event, and refuses it after it. */
  private async deniedNow(
    webhook: Webhook,
    trisId: string,
    previous: number,
    event: DomainEvent,
  ): Promise<Said | undefined> {
    if (webhook.policy_id === null || !(await this.isKnown(trisId, previous))) return undefined;
    const policy = await this.accessPolicies.get(webhook.policy_id);
    if (policy.retired) return undefined;
    const rule = this.accessPolicies.rulesOf(policy);
    const seenAt = async (position: number) => {
      const as_of_position = formatPosition(this.views.logId, position);
      const { owner: organization, vp } = policy;
      const coordinates = { as_of_position, organization, ...(vp !== null && { vp }) };
      const { state, lens, as_of, trusts } = await this.identities.snapshot(trisId, coordinates);
      return { as_of, model: lens.model, seen: { facts: new SubjectFacts(state, lens, as_of, trusts), lens, state } };
    };
    const before = await seenAt(previous).catch((error: unknown) => {
      // By nothing that had occurred.
      if (error instanceof Problem && error.code === 'identity_not_found') return undefined;
      throw error;
    });
    if (!before || evaluate(rule, before.seen.facts) !== TRUE) return undefined;
    const known = await seenAt(event.position);
    const judgement = judge(rule, known.seen.facts, known.model);
    if (judgement.granted) return undefined;
    const { score, reasons } = judgement;
    const codes = codesOf(judgement, known);
    return { type: 'access.denied_now', data: { tris_id: trisId, policy_id: policy.policy_id, score, reasons, codes } };
  }

  private async disputeOf(event: DomainEvent): Promise<Dispute | undefined> {
    if (!isOfDispute(event)) return undefined;
    const { results } = await this.views.read([{ get: disputeRow(disputeIdIn(event)) }]);
    return results[0] as Dispute | undefined;
  }

  private notice(webhook: Webhook, event: DomainEvent, { type, data, detail = '' }: Said): Notice {
    const position = formatPosition(this.views.logId, event.position);
    const hash = hashOf(webhook.webhook_id, event.id, type, detail).slice(0, 32);
    const timestamp = new Date(event.recorded_at).toISOString();
    const body = JSON.stringify({ type, timestamp, data: { ...data, position } });
    const tris_id = 'tris_id' in data ? data.tris_id : null;
    return { message_id: `msg_${hash}`, event: type, tris_id, position: event.position, body };
  }
}

const followsScores = ({ events }: Webhook): boolean =>
  events.includes('rating.changed') || events.includes('score.crossed');

const ownersOf = (webhooks: readonly Webhook[]) => new Set(webhooks.map(({ owner }) => owner));

/** Whether a webhook reports on this identity. */
const concerns = ({ filter }: Webhook, trisId: string | null): boolean =>
  trisId !== null && (filter.tris_ids === null || filter.tris_ids.includes(trisId));
