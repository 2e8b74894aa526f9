import { join } from 'node:path';
import { SignedCheckpoints, checkpointIn, logKeyFile } from '../../src/credentials/log-key.js';
import { type Config, loadConfig } from '../../src/kernel/config.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

/** Where the last signed checkpoint is kept, when several workers share the key. */

const root = Buffer.alloc(32).toString('base64');
let place: Awaited<ReturnType<typeof temporaryFolder>>;
let keyValue: LmdbKeyValue;
let config: Config;

beforeEach(async () => {
  place = await temporaryFolder();
  keyValue = await LmdbKeyValue.open(join(place.path, 'state'), { clock: Date.now });
  const env = { EVENTSTORE_URL: 'esdb://a', REDIS_URL: 'redis://a', CREDENCE_DATABASE_URL: 'postgres://a/a' };
  const keys = {
    CREDENCE_API_KEYS: 'a',
    CREDENCE_SIGNING_KEYS: 'b',
    CREDENCE_LOG_KEY: join(place.path, 'log-key.json'),
  };
  config = loadConfig({ CREDENCE_PROFILE: 'cluster', CREDENCE_DATA: place.path, ...env, ...keys });
  logKeyFile(config).create();
});
afterEach(async () => {
  await keyValue.close();
  await place.remove();
});

test('of two workers that sign at once, one does', async () => {
  const workers = [new SignedCheckpoints(config, keyValue), new SignedCheckpoints(config, keyValue)];
  for (let size = 1; size < 20; size++) {
    const last = await workers[0]!.note();
    const signed = await Promise.all(
      workers.map((worker, n) => worker.sign({ origin: 'o', size: size + n, root }, last)),
    );
    expect(signed.filter(Boolean)).toHaveLength(1);
    const kept = checkpointIn((await workers[1]!.note())!);
    expect(kept).toEqual({ origin: 'o', size: size + signed.indexOf(true), root });
  }
});

test('what was signed in the embedded profile counts after a migration', async () => {
  const embedded = Object.assign(Object.create(config) as Config, { profile: 'embedded' });
  await new SignedCheckpoints(embedded, keyValue).sign({ origin: 'o', size: 5, root }, undefined);
  const cluster = new SignedCheckpoints(config, keyValue);
  const last = await cluster.note();
  expect(checkpointIn(last!)).toEqual({ origin: 'o', size: 5, root });
  expect(await cluster.sign({ origin: 'o', size: 6, root }, last)).toBe(true);
  expect(checkpointIn((await cluster.note())!).size).toBe(6);
});
