import { randomUUID } from 'node:crypto';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { internalActor } from '../dist/src/commands/context.js';
import { Writer } from '../dist/src/commands/writer.js';
import { decide } from '../dist/src/features/relay/domain/relay.js';
import { CRITICALITIES, MODEL } from '../dist/src/scoring/model.js';

const IN_FLIGHT = 2_000;
const DAY_MS = 86_400_000;

/** The k-th action of the i-th identity; one in ten is a flag. Deterministic. */
export function action(i, k, now) {
  return {
    tris_id: `tris:identity-${i}`,
    action_type: k % 10 === 9 ? 'trade_flags' : 'loan_repayment',
    category: MODEL.categories[(i + k) % MODEL.categories.length],
    criticality: CRITICALITIES[(i * k + k) % CRITICALITIES.length],
    platform_id: `platform-${i % 50}`,
    occurred_at: now - ((i * 31 + k) % 1000) * DAY_MS,
    external_id: null,
    evidence_uri: null,
  };
}

/** Fills a data folder's log: every identity once per turn, in an order that is not the keys'. */
export async function fillLog(data, identities, actionsEach) {
  const stores = await openStores(data, Date.now);
  await fill(stores, identities, actionsEach);
  const events = await stores.eventStore.countAfter(0);
  await closeStores(stores);
  return events;
}

/** As `fillLog`, into open stores. @param from number of the first identity */
export async function fill(stores, identities, actionsEach, from = 0) {
  const writer = new Writer(stores.eventStore, Date.now);
  const now = Date.now();
  let inFlight = [];
  for (let k = 0; k < actionsEach; k++) {
    for (let n = 0; n < identities; n++) {
      const i = from + ((n * 7919 + k * 13) % identities);
      const context = {
        actor: internalActor('cli'),
        correlation_id: 'bench',
        idempotency: null,
        body_hash: randomUUID(),
      };
      inFlight.push(writer.create(`action-${randomUUID()}`, decide(action(i, k, now), null, 'vouched'), context));
      if (inFlight.length === IN_FLIGHT) {
        await Promise.all(inFlight);
        inFlight = [];
      }
    }
  }
  await Promise.all(inFlight);
}
