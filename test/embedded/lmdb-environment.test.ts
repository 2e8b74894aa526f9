import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection, type Socket } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { CommitPause } from '../../src/stores/lmdb/commit-pause.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { eventually } from '../contracts/harness.js';
import { repeated } from '../faults/faults.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

test('a reader’s age counts while it stays on a snapshot that was superseded, and is 0 otherwise', async () => {
  const folder = await temporaryFolder();
  const environment = await LmdbEnvironment.open(folder.path, { databases: { rows: { encoding: 'json' } } });
  const age = () => LmdbEnvironment.readerAges().find((of) => of.folder === environment.folder)!.seconds;
  const put = (key: string) => environment.write(() => void environment.database('rows').putSync(key, 1));
  try {
    await put('a');
    await put('b');
    expect(age()).toBe(0);
    // Left open, as a reader does that was interrupted.
    const iterator = environment.database('rows').getRange({})[Symbol.iterator]();
    iterator.next();
    expect(age()).toBe(0); // nothing is newer than what it sees
    await put('c');
    age();
    await sleep(60);
    expect(age()).toBeGreaterThan(0.04);
    await put('d');
    expect(age()).toBeGreaterThan(0.04); // the same reader, still
    iterator.return?.();
    environment.refresh();
    await eventually(() => age() === 0, 'the end of the reader');
  } finally {
    await environment.close();
    await folder.remove();
  }
});

test('a conditional write is made completely if its condition holds when it starts, otherwise not at all', async () => {
  const folder = await temporaryFolder();
  const databases = { rows: { encoding: 'json' } } as const;
  const environment = await LmdbEnvironment.open(folder.path, { databases });
  const rows = () => environment.database<unknown>('rows');
  const putTwo = (key: string, other: string) => () => {
    void rows().put(key, 1);
    void rows().put(other, 1);
  };
  const absent = (key: string) => ({ database: 'rows', key, version: null });
  try {
    // Queued in one turn: the second is decided on what the first has written.
    const outcomes = await Promise.all([
      environment.writeIf(absent('a'), putTwo('a', 'b')),
      environment.writeIf(absent('a'), putTwo('a', 'c')),
      environment.writeIf(null, putTwo('d', 'e')),
    ]);
    expect(outcomes).toEqual([true, false, true]);
    expect([...rows().getKeys()]).toEqual(['a', 'b', 'd', 'e']);
  } finally {
    await environment.close();
    await folder.remove();
  }
});

test('too many readers, also of other processes, end in a sentence, and reads go on once there are fewer', async () => {
  const folder = await temporaryFolder();
  const environment = await LmdbEnvironment.open(folder.path, { databases: { rows: { encoding: 'json' } } });
  const read = () => environment.read(() => environment.database('rows').get('a'));
  await environment.write(() => void environment.database('rows').putSync('a', 1));
  const child = new Child(new URL('./processes/many-readers.ts', import.meta.url), [folder.path]);
  try {
    await child.printed(1);
    const sentence = `${folder.path}: too many processes and threads read it at once (MDB_READERS_FULL): stop those that are not needed`;
    expect(read).toThrow(sentence);
    expect(read).toThrow(StoreUnavailable);
    await child.kill();
    expect(read()).toBe(1);
  } finally {
    await child.kill();
    await environment.close();
    await folder.remove();
  }
});

test('a process that exits while the library’s thread waits for it ends, with the reason', async () => {
  const end = async (turns: number, how: 'exit' | 'error') => {
    const folder = await temporaryFolder();
    const child = new Child(new URL('./processes/ending-writer.ts', import.meta.url), [folder.path, `${turns}`, how]);
    const code = await child.exited;
    await folder.remove();
    return { code, stderr: child.stderr };
  };
  // Killed (null), or ended in the ordinary way where nobody waited.
  for (const turns of [1, 2, 3, 4]) {
    expect([3, null]).toContain((await end(turns, 'exit')).code);
    const { code, stderr } = await end(turns, 'error');
    expect([1, null]).toContain(code);
    expect(stderr).toContain('Error: nobody catches this');
  }
});

const sockets = (folder: string) => readdirSync(folder).filter((name) => name.endsWith('.sock'));

test('no commit is lost while other processes open the environment', async () => {
  // In memory, where commits take as little time as opening does: on a disk it took a thousand times as long to lose one.
  const folder = await mkdtemp(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'credence-'));
  const environment = await LmdbEnvironment.open(folder, { databases: { rows: { keyEncoding: 'uint32' } } });
  const rows = () => environment.database<number, number>('rows');
  const openers = [1, 2].map(
    () => new Child(new URL('./processes/opener.ts', import.meta.url), [folder, String(repeated(300, 1_200))]),
  );
  try {
    let isOver = false;
    const over = Promise.all(openers.map(({ exited }) => exited)).then((codes) => {
      isOver = true;
      return codes;
    });
    let stored = 0;
    for (; !isOver; stored++) await environment.write(() => rows().putSync(stored, stored));
    expect([await over, ...openers.map(({ stderr }) => stderr)]).toEqual([[0, 0], '', '']);
    expect(stored).toBeGreaterThan(100);
    expect(rows().getKeysCount()).toBe(stored);
  } finally {
    for (const opener of openers) await opener.kill();
    await environment.close();
    await rm(folder, { recursive: true, force: true });
  }
});

test('whoever opens the environment waits for the commit in flight, and the next commit waits for them', async () => {
  const folder = await temporaryFolder();
  const environment = await LmdbEnvironment.open(join(folder.path, 'one'), { databases: { rows: {} } });
  const other = await LmdbEnvironment.open(join(folder.path, 'other'), { databases: { rows: {} } });
  const put = (to: LmdbEnvironment) => to.write(() => to.database('rows').putSync('a', 1));
  try {
    const order: string[] = [];
    const inFlight = put(environment).then(() => order.push('stored'));
    const opener: Socket = createConnection(join(folder.path, 'one', sockets(environment.folder)[0]!));
    await once(opener, 'data').then(() => order.push('paused'));
    await inFlight;
    expect(order).toEqual(['stored', 'paused']);

    const next = put(environment).then(() => order.push('stored'));
    for (let n = 0; n < 5; n++) await put(other);
    expect(order).toEqual(['stored', 'paused']);
    opener.destroy();
    await next;
    expect(order).toEqual(['stored', 'paused', 'stored']);
  } finally {
    await environment.close();
    await other.close();
    await folder.remove();
  }
});

test('a process that was killed delays nobody, and what it left in the folder is removed', async () => {
  const folder = await temporaryFolder();
  const child = new Child(new URL('./processes/opener.ts', import.meta.url), [folder.path, '1000000']);
  await eventually(() => sockets(folder.path).length > 0, 'the environment of the child');
  await child.kill();
  const environment = await LmdbEnvironment.open(folder.path, { databases: {} });
  expect(sockets(folder.path)).toEqual([expect.stringMatching(`^${process.pid}-`)]);
  await environment.close();
  expect(sockets(folder.path)).toEqual([]);
  await folder.remove();
});

test('a process that does not answer is named, also in a folder with a long path', async () => {
  const folder = await temporaryFolder();
  const path = join(folder.path, 'a'.repeat(200));
  mkdirSync(path);
  const never = new Promise<void>(() => undefined);
  const busy = await CommitPause.listen(path, () => never);
  const opener = await CommitPause.listen(path, () => Promise.resolve());
  await expect(opener.whileOthersPause(() => 1, 50)).rejects.toThrow(
    `Process ${process.pid} has ${path} open and does not answer: end it, or wait for it.`,
  );
  busy.close();
  expect(await opener.whileOthersPause(() => 1)).toBe(1);
  opener.close();
  await folder.remove();
});
