import { StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

test('a read sees every write that has resolved, also where an earlier one in the same turn began before it', async () => {
  const folder = await temporaryFolder();
  const environment = await LmdbEnvironment.open(folder.path, { databases: { rows: { encoding: 'json' } } });
  const rows = () => environment.database<number>('rows');
  const seen = () => environment.read(() => rows().get('a'));
  try {
    for (let n = 1; n <= 200; n++) {
      const write =
        n % 2 === 0
          ? environment.write(() => rows().putSync('a', n))
          : environment.batch(() => void rows().put('a', n));
      const before = seen();
      await write;
      const after = seen();
      expect([before, after]).toEqual([n === 1 ? undefined : n - 1, n]);
      if (n % 3 === 0) await new Promise(setImmediate);
    }
  } finally {
    await environment.close();
    await folder.remove();
  }
});

test('too many readers end in a sentence, and reads go on once there are fewer', async () => {
  const folder = await temporaryFolder();
  const environment = await LmdbEnvironment.open(folder.path, { databases: { rows: { encoding: 'json' } } });
  const rows = () => environment.database('rows');
  const read = () => environment.read(() => rows().get('a'));
  const put = () => environment.write(() => void rows().putSync('a', 1));
  await put();
  // Each is left open, on a snapshot of its own.
  const open: Iterator<unknown>[] = [];
  try {
    await expect(async () => {
      for (;;) {
        const iterator = environment.read(() => rows().getRange({})[Symbol.iterator]());
        environment.read(() => iterator.next());
        open.push(iterator);
        await put();
      }
    }).rejects.toThrow(StoreUnavailable);
    expect(open.length).toBeGreaterThan(100);
    expect(read).toThrow(
      `${folder.path}: too many processes and threads read it at once (MDB_READERS_FULL): stop those that are not needed`,
    );
    for (const iterator of open) iterator.return?.();
    expect(read()).toBe(1);
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
