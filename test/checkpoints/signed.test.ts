import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { SignedCheckpoints, checkpointIn, logKeyFile } from '../../src/credentials/log-key.js';
import { type Config, loadConfig } from '../../src/kernel/config.js';
import { Logger } from '../../src/kernel/logger.js';
import { FOREVER_MS } from '../../src/stores/ports/key-value.js';
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

/** A worker on another machine, with a copy of the key. */
async function elsewhere(): Promise<Config> {
  const folder = join(place.path, 'elsewhere');
  await mkdir(folder);
  const other = Object.assign(Object.create(config) as Config, { logKey: join(folder, 'log-key.json') });
  logKeyFile(other).create();
  return other;
}

test('if an older copy of PostgreSQL is restored, or an empty one, what is kept beside the key counts', async () => {
  const worker = new SignedCheckpoints(config, keyValue);
  expect(await worker.sign({ origin: 'o', size: 1, root }, undefined)).toBe(true);
  const older = (await worker.note())!;
  let size = 1;
  for (const restore of [
    () => keyValue.put('log-checkpoint', older, FOREVER_MS),
    () => keyValue.take('log-checkpoint'),
  ]) {
    expect(await worker.sign({ origin: 'o', size: ++size, root }, await worker.note())).toBe(true);
    const last = await worker.note();
    await restore();
    const next = new SignedCheckpoints(config, keyValue);
    expect(await next.note()).toBe(last);
    expect(await next.sign({ origin: 'o', size: ++size, root }, last)).toBe(true);
    expect(checkpointIn((await keyValue.get('log-checkpoint')) as string).size).toBe(size);
  }
});

test('what is beside a key, of fewer events or of an origin that was replaced, gives way to PostgreSQL', async () => {
  const [one, other] = [config, await elsewhere()].map((each) => new SignedCheckpoints(each, keyValue)) as [
    SignedCheckpoints,
    SignedCheckpoints,
  ];
  expect(await one.sign({ origin: 'o', size: 5, root }, undefined)).toBe(true);
  for (const next of [
    { origin: 'o', size: 7, root },
    { origin: 'p', size: 3, root },
  ]) {
    expect(await other.sign(next, await other.note())).toBe(true);
    expect(checkpointIn((await one.note())!)).toEqual(next);
  }
  const last = await one.note();
  expect(await other.sign({ origin: 'p', size: 4, root }, last)).toBe(true);
  expect(await one.sign({ origin: 'p', size: 4, root }, last)).toBe(false);
  expect(await one.sign({ origin: 'p', size: 8, root }, await one.note())).toBe(true);
});

test('where nothing can be kept beside the key, it is kept in PostgreSQL, and that is said once', async () => {
  const lines: string[] = [];
  const other = await elsewhere();
  // So long that there is no name for what is written beside it.
  const name = join(place.path, 'elsewhere', `${'k'.repeat(225)}.json`);
  await rename(other.logKey!, name);
  const logger = new Logger('warn', (line) => void lines.push(line));
  const worker = new SignedCheckpoints(Object.assign(other, { logKey: name }), keyValue, logger);
  for (const size of [1, 2, 3]) {
    expect(await worker.sign({ origin: 'o', size, root }, await worker.note())).toBe(true);
  }
  expect(checkpointIn((await worker.note())!).size).toBe(3);
  expect(lines).toEqual([expect.stringMatching(/kept in PostgreSQL only, and not beside the log key \(ENAMETOOLONG/)]);
});
