import { LmdbEnvironment } from '../../../src/stores/lmdb/environment.js';

/** Writes to the folder without a pause and ends after so many turns of the event loop: by `exit`, or by an `error`. */
const [folder, turns, how] = process.argv.slice(2) as [string, string, string];
const environment = await LmdbEnvironment.open(folder, { databases: { rows: {} } });
const write = (): void => void environment.write(() => environment.database('rows').putSync('a', 1)).then(write);
write();

let turn = 0;
function next(): void {
  if (turn++ < Number(turns)) return void setImmediate(next);
  // Long enough for the library's thread to ask for this one.
  for (const started = performance.now(); performance.now() - started < 3;);
  if (how === 'error') throw new Error('nobody catches this');
  process.exit(3);
}
next();
