import { LmdbEnvironment } from '../../../src/stores/lmdb/environment.js';

/** Opens and closes the environment so many times, and prints one line at the end. */
const [folder, times] = process.argv.slice(2) as [string, string];
for (let n = 0; n < Number(times); n++) {
  const environment = await LmdbEnvironment.open(folder, { databases: { rows: {} } });
  await environment.close();
}
console.log(JSON.stringify('done'));
