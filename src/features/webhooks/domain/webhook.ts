import { type Decoded, type Fact, definitionsIn, fact, streamFold } from '../../../kernel/event-definition.js';
import { canonicalJson } from '../../../kernel/hash.js';
import * as types from './webhooks.events.js';

export const WEBHOOK_ID = /^whk_[0-9a-f]{32}$/;
/** How long the secret before a rotation signs as well, so that receivers can change theirs without a gap. */
export const OVERLAP_MS = 86_400_000;

const EVENTS = definitionsIn(types);
type StreamEvent = Decoded<(typeof EVENTS)[number]>;
type Disabled = Extract<StreamEvent, { type: 'WebhookDisabled' }>['data']['reason'];

type Created = Decoded<typeof types.webhookCreated>['data'];

/** What its owner chooses. */
export type WebhookContent = Omit<Created, 'webhook_id' | 'owner'>;

export interface Webhook extends Created {
  /** Number of the secret. */
  rotation: number;
  /** ms; null before the first rotation. */
  rotated_at: number | null;
  disabled: { reason: Disabled; at: number } | null;
  /**
   * Where deliveries begin, as an event of the webhook decided at position `at`: after that event itself or, after a
   * replay, after this position on the wire.
   */
  begins: { at: number; after: string | null };
  deleted: boolean;
  /** ms. */
  created_at: number;
}

export const webhookStream = (id: string): string => `webhook-${id}`;

/** Folds a `webhook-<id>` stream; undefined if it is empty. @throws Problem history_unreadable */
export const webhookOf = streamFold(EVENTS, evolve);

function evolve(webhook: Webhook | undefined, event: StreamEvent): Webhook | undefined {
  if (event.type === 'WebhookCreated') {
    const begins = { at: event.position, after: null };
    const state = { rotation: 0, rotated_at: null, disabled: null, begins, deleted: false };
    return { ...event.data, ...state, created_at: event.recorded_at };
  }
  if (!webhook) return undefined;
  switch (event.type) {
    case 'WebhookChanged':
      return { ...webhook, ...event.data };
    case 'WebhookSecretRotated':
      return { ...webhook, rotation: webhook.rotation + 1, rotated_at: event.recorded_at };
    case 'WebhookReplayed':
      return { ...webhook, begins: { at: event.position, after: event.data.after } };
    case 'WebhookDisabled':
      return { ...webhook, disabled: { reason: event.data.reason, at: event.recorded_at } };
    case 'WebhookEnabled':
      return { ...webhook, disabled: null };
    case 'WebhookDeleted':
      return { ...webhook, deleted: true };
    default:
      return event satisfies never;
  }
}

export const decideCreate = (webhook: Webhook | undefined, content: Created): Fact[] =>
  webhook ? [] : [fact(types.webhookCreated, { ...content })];

/** @param change the new content; `active` enables or pauses it */
export function decideChange(webhook: Webhook, change: Partial<WebhookContent> & { active?: boolean }): Fact[] {
  const { active, ...changed } = change;
  const { webhook_id, url_hash, events, filter, policy_id, disabled } = webhook;
  const before = { webhook_id, url_hash, events, filter, policy_id };
  const after = { ...before, ...changed };
  const facts = canonicalJson(after) === canonicalJson(before) ? [] : [fact(types.webhookChanged, after)];
  if (active === true && disabled) facts.push(fact(types.webhookEnabled, { webhook_id }));
  if (active === false && !disabled) facts.push(fact(types.webhookDisabled, { webhook_id, reason: 'paused' }));
  return facts;
}

/** Does nothing if it is disabled or deleted already. */
export function decideDisable(webhook: Webhook, reason: Disabled): Fact[] {
  const { webhook_id, disabled, deleted } = webhook;
  return disabled || deleted ? [] : [fact(types.webhookDisabled, { webhook_id, reason })];
}

export const decideRotate = ({ webhook_id }: Webhook): Fact[] => [fact(types.webhookSecretRotated, { webhook_id })];
export const decideReplay = ({ webhook_id }: Webhook, after: string): Fact[] => [
  fact(types.webhookReplayed, { webhook_id, after }),
];
export const decideDelete = ({ webhook_id }: Webhook): Fact[] => [fact(types.webhookDeleted, { webhook_id })];
