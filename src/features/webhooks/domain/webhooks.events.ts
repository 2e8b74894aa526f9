import {
  type Check,
  defineEvent,
  listOf,
  nullable,
  number,
  oneOf,
  shaped,
  text,
} from '../../../kernel/event-definition.js';
import type { JsonObject } from '../../../kernel/json.js';

/** What a webhook can be told. */
export const WEBHOOK_EVENTS = [
  'rating.changed',
  'score.crossed',
  'verification.changed',
  'bad_status.changed',
  'policy.promoted',
  'access.denied_now',
  'action.withdrawn',
  'action.reinstated',
  'decision.would_differ',
  'dispute.opened',
  'dispute.answered',
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/** Limits what a webhook reports. null: not limited, or no threshold. */
export type WebhookFilter = {
  /** Only of these identities. */
  tris_ids: string[] | null;
  /** `rating.changed` only to these ratings. */
  ratings: string[] | null;
  /** `score.crossed` when the score falls below this. */
  score_below: number | null;
  /** `score.crossed` when the score rises above this. */
  score_above: number | null;
};

const filter: Check<WebhookFilter> = shaped({
  tris_ids: nullable(listOf(text)),
  ratings: nullable(listOf(text)),
  score_below: nullable(number),
  score_above: nullable(number),
});

const content = {
  webhook_id: text,
  /** SHA-256 of the URL, which is stored beside the log: a URL may contain a secret. */
  url_hash: text,
  events: listOf(oneOf(WEBHOOK_EVENTS)),
  filter,
  /** The access policy of `access.denied_now`. */
  policy_id: nullable(text),
};
/** Schema 1 had no access policy; schemas 2 and 3 had fewer kinds of events, which a build before them must not skip. */
const versions = {
  schema: 4,
  upcasters: {
    1: (data: JsonObject) => ({ ...data, policy_id: null }),
    2: (data: JsonObject) => data,
    3: (data: JsonObject) => data,
  },
};

/** Stream `webhook-<id>`, revision 0. */
export const webhookCreated = defineEvent(
  'WebhookCreated',
  {
    ...content,
    /** TRIS of the organization that it belongs to; null: the platform's operators. */
    owner: nullable(text),
  },
  versions,
);
/** Its new content. Same stream. */
export const webhookChanged = defineEvent('WebhookChanged', content, versions);
/** A new secret, which follows from the number of rotations so far. Same stream. */
export const webhookSecretRotated = defineEvent('WebhookSecretRotated', { webhook_id: text });
/** Everything after this position is delivered, again if it was before. Same stream. */
export const webhookReplayed = defineEvent('WebhookReplayed', {
  webhook_id: text,
  /** `<log id>.<decimal>`. */
  after: text,
});
/** Nothing more is delivered: its owner paused it, or deliveries failed. Same stream. */
export const webhookDisabled = defineEvent('WebhookDisabled', {
  webhook_id: text,
  /** `gone`: the receiver answered 410. `failed`: a delivery failed for three days. */
  reason: oneOf(['paused', 'gone', 'failed']),
});
/** Deliveries go on where they ended. Same stream. */
export const webhookEnabled = defineEvent('WebhookEnabled', { webhook_id: text });
/** Same stream. */
export const webhookDeleted = defineEvent('WebhookDeleted', { webhook_id: text });
