import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';
import { internalActor } from '../../../src/commands/context.js';
import { Writer } from '../../../src/commands/writer.js';
import { type Action, decide } from '../../../src/features/relay/domain/relay.js';
import { closeStores, openStores } from '../../../src/stores/open.js';

/** Records the actions of each line of input in the data folder given, and prints how many; ends after an empty list. */
const stores = await openStores(process.argv[2]!, Date.now);
const writer = new Writer(stores.eventStore, Date.now);
const actor = internalActor('cli');

for await (const line of createInterface({ input: process.stdin })) {
  const actions = JSON.parse(line) as Action[];
  if (actions.length === 0) break;
  const writes = actions.map((action) => {
    const context = { actor, correlation_id: 'test', idempotency: null, body_hash: randomUUID() };
    return writer.create(`action-${randomUUID()}`, decide(action, null, 'vouched'), context);
  });
  await Promise.all(writes);
  console.log(JSON.stringify(writes.length));
}
await closeStores(stores);
process.stdin.destroy();
