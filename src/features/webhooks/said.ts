import type { DomainEvent } from '../../../projections/events.js';
import type { Scoring } from '../../scoring/models/all.js';
import type { Standing } from '../../scoring/score.js';
import type { Dispute } from '../disputes/domain/dispute.js';
import { disputedDto } from '../disputes/stored-disputes.js';
import type { WebhookEvent, WebhookFilter } from './domain/webhooks.events.js';
import type { MessageData } from './messages.dto.js';

/** What is said about an event, before it is addressed to a webhook. `detail` tells messages of one type about it apart. */
export type Said = {
  [Type in WebhookEvent]: { type: Type; data: MessageData<Type>; detail?: string };
}[WebhookEvent];

/** What an event changes in the standing of an identity by one lens. */
export interface Change {
  before: Standing;
  after: Standing;
  lens: Scoring;
}

/** To those for whom a lens or a version of the model became active: its organization, or everybody. */
export function saidOfPromotion(event: DomainEvent, owner: string | null): Said | undefined {
  const type = 'policy.promoted';
  if (event.type === 'ModelActivated') {
    const { reason, model: active, previous } = event.data;
    return { type, data: { scope: 'platform', tris_org: null, reason, what: 'model', active, previous } };
  }
  if (event.type !== 'LensActivated') return undefined;
  const { scope, tris_org, reason, policy_id, content_hash, previous } = event.data;
  if (tris_org !== null && tris_org !== owner) return undefined;
  const active = { policy_id, content_hash };
  return { type, data: { scope, tris_org, reason, what: 'lens', active, previous } };
}

/** What happened to an identity. */
export function saidOfIdentity(tris_id: string, event: DomainEvent): Said | undefined {
  switch (event.type) {
    case 'BadStatusSet': {
      const { level, reason_code } = event.data;
      return { type: 'bad_status.changed', data: { tris_id, level, reason_code } };
    }
    case 'BadStatusCleared':
      return { type: 'bad_status.changed', data: { tris_id, level: null, reason_code: null } };
    case 'VerificationGranted':
    case 'VerificationRevoked': {
      const { status, issuer, scheme } = event.data;
      const change = event.type === 'VerificationGranted' ? 'granted' : 'revoked';
      const expires_at = event.type === 'VerificationGranted' ? event.data.expires_at : null;
      return { type: 'verification.changed', data: { tris_id, change, status, issuer, scheme, expires_at } };
    }
    case 'ActionWithdrawn':
    case 'ActionReinstated': {
      const { action_id, metric, criticality, platform_id, reason } = event.data;
      const type = event.type === 'ActionWithdrawn' ? 'action.withdrawn' : 'action.reinstated';
      return { type, data: { tris_id, action_id, metric, criticality, platform_id, reason } };
    }
    default:
      return undefined;
  }
}

/** Of the rating and the thresholds that a webhook follows. */
export function saidOfScore(
  tris_id: string,
  { before, after, lens }: Change,
  { ratings, score_below: below, score_above: above }: WebhookFilter,
): Said[] {
  const data = {
    tris_id,
    ...shown(after),
    previous: shown(before),
    lens: { policy_id: lens.policy_id, content_hash: lens.content_hash },
    model: { id: lens.model.id, hash: lens.model.hash },
  };
  const said: Said[] = [];
  const isListed = ratings === null || ratings.includes(after.score_rating);
  if (after.score_rating !== before.score_rating && isListed) said.push({ type: 'rating.changed', data });
  const crosses = (direction: 'below' | 'above', threshold: number) =>
    void said.push({ type: 'score.crossed', data: { ...data, direction, threshold }, detail: direction });
  if (below !== null && before.score >= below && after.score < below) crosses('below', below);
  if (above !== null && before.score <= above && after.score > above) crosses('above', above);
  return said;
}

/** To whoever made the disputed statement, and to the operators: nobody else may read the dispute. */
export function saidOfDispute(dispute: Dispute, event: DomainEvent, owner: string | null): Said | undefined {
  if (owner !== null && owner !== dispute.issuer) return undefined;
  const data = disputedDto(dispute);
  if (event.type === 'DisputeOpened') return { type: 'dispute.opened', data };
  const outcome = event.type === 'DisputeAnswered' ? event.data.outcome : 'lapsed';
  return { type: 'dispute.answered', data: { ...data, outcome } };
}

const shown = ({ score, score_rating, total_tct }: Standing) => ({ score, score_rating, total_tct });
