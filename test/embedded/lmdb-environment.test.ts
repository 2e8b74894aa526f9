import { setTimeout as sleep } from 'node:timers/promises';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

test('a reader’s age counts while it stays on a snapshot that was superseded, and is 0 otherwise', async () => {
  const folder = await temporaryFolder();
  const environment = LmdbEnvironment.open(folder.path, { databases: { rows: { encoding: 'json' } } });
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
    await sleep(20);
    expect(age()).toBe(0);
  } finally {
    await environment.close();
    await folder.remove();
  }
});

test('a conditional write is made completely if its condition holds when it starts, otherwise not at all', async () => {
  const folder = await temporaryFolder();
  const databases = { rows: { encoding: 'json' } } as const;
  const environment = LmdbEnvironment.open(folder.path, { databases });
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
