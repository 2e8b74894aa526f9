import { decodeEvent } from '../../projections/events.js';
import { Notices, Standings } from '../../src/features/webhooks/notices.js';
import type { Webhook } from '../../src/features/webhooks/domain/webhook.js';
import { badStatus, logOf } from '../projections/log.js';

test('a webhook that is ahead of another gets nothing again of what is read for both', async () => {
  const differing = { of: async () => new Map() };
  const notices = new Notices(
    ...([{ logId: 'log' }, {}, {}, {}, differing] as unknown as ConstructorParameters<typeof Notices>),
  );
  const filter = { tris_ids: null, ratings: null, score_below: null, score_above: null };
  const [behind, ahead] = ['behind', 'ahead'].map((webhook_id) => {
    return { webhook_id, owner: null, events: ['bad_status.changed'], filter } as unknown as Webhook;
  }) as [Webhook, Webhook];
  const events = logOf([badStatus('tris:a', 3), badStatus('tris:a', 2)]).map(decodeEvent);
  const from = (webhook: Webhook) => (webhook === ahead ? 1 : 0);
  const made = await notices.of(events, [behind, ahead], from, new Standings(0));
  const positions = (webhook: Webhook) => made.get(webhook)!.map(({ position }) => position);
  expect([positions(behind), positions(ahead)]).toEqual([[1, 2], [2]]);
});
