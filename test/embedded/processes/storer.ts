import { existsSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { LmdbEventStore } from '../../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbJobs } from '../../../src/stores/lmdb/lmdb-jobs.js';
import { LmdbKeyValue } from '../../../src/stores/lmdb/lmdb-key-value.js';
import { EncodedRows } from '../../../src/stores/ports/encoded-rows.js';
import { LmdbReadModels } from '../../../src/stores/lmdb/lmdb-read-models.js';
import { sampleEvents } from '../../contracts/sample-events.js';

/**
 * Opens the stores in the folder given and prints a line. Stores one thing in each of them once there is a file `store`,
 * and creates a file `stored` once all of it was acknowledged.
 */
const folder = process.argv[2]!;
const clock = Date.now;

const log = await LmdbEventStore.open(`${folder}/log`);
const models = await LmdbReadModels.open(`${folder}/views`, { clock });
await models.generations();
const keyValue = await LmdbKeyValue.open(`${folder}/state`, { clock });
const jobs = await LmdbJobs.open(`${folder}/state`, { clock });
console.log(JSON.stringify('open'));
while (!existsSync(`${folder}/store`)) await sleep(1);

await log.append('sample-1', 'no-stream', sampleEvents('sample-1'));
await models.acquireLease('one', 'other', 60_000);
await models.apply('one', {
  id: 'b1',
  base: { log: 'log', position: 0, event_id: null },
  holder: 'other',
  next: { log: 'log', position: 1, event_id: 'event-1' },
  puts: EncodedRows.of([{ row: { view: 'people', key: 'a' }, value: 1 }]),
  deletes: [],
});
await models.setStatus('one', 'ready');
await models.swapManifest({
  revision: 1,
  lens: { policy_id: null, content_hash: 'a' },
  model_hash: 'm',
  lens_revision: -1,
  views: { people: 'one' },
  previous_views: null,
});
await keyValue.put('key', 'value', 60_000);
await jobs.enqueue('work', 'one', {});
writeFileSync(`${folder}/stored`, '');

await Promise.all([log.close(), models.close(), keyValue.close(), jobs.close()]);
