import { createInterface } from 'node:readline';
import { LmdbReadModels } from '../../../src/stores/lmdb/lmdb-read-models.js';

/** Reads row `{view: 'people', key: 'a'}` of the generation named by each line of input and prints the answer. */
const models = await LmdbReadModels.open(process.argv[2]!, { clock: Date.now });

for await (const line of createInterface({ input: process.stdin })) {
  const id = JSON.parse(line) as string;
  const read = await models.read(id, [{ get: { view: 'people', key: 'a' } }]);
  process.stdout.write(`${JSON.stringify(read ?? 'gone')}\n`);
}
await models.close();
