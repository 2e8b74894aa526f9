import { join } from 'node:path';
import { writeFile } from 'node:fs/promises';
import { CommandFailed } from '../../src/cli/exit.js';
import { type EventStore, StoreUnavailable } from '../../src/stores/ports/event-store.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { actions } from './credence.js';
import { importActions } from './importing.js';

/** An import into a log that refuses some appends. */

const LINES = 300;

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let log: LmdbEventStore;
let file: string;
beforeEach(async () => {
  folder = await temporaryFolder();
  log = await LmdbEventStore.open(join(folder.path, 'log'));
  file = join(folder.path, 'actions.ndjson');
  const lines = actions(LINES).map((action) => JSON.stringify(action));
  // A blank line, so that the numbers of lines and of actions differ.
  await writeFile(file, ['', ...lines].join('\n'));
});
afterEach(async () => {
  await log.close();
  await folder.remove();
});

function importing(append: EventStore['append'], waits: boolean) {
  const eventStore = {
    append: async (...args) => (args[0].startsWith('action-') ? append : log.append.bind(log))(...args),
    head: () => log.head(),
    readStream: (...args) => log.readStream(...args),
  } as EventStore;
  return importActions({ eventStore, keyValue: {} as never }, file, { waits });
}

test('waits for a log that is busy or unavailable, and records every line once', async () => {
  let calls = 0;
  const report = await importing((...append) => {
    const code = [undefined, 'store_busy', 'store_unavailable'][calls++ % 100] as 'store_busy' | undefined;
    if (code) throw new StoreUnavailable('not now', { code });
    return log.append(...append);
  }, true);
  expect(report).toMatchObject({ recorded: LINES, already_present: 0, conflicts: 0 });
  expect(calls).toBeGreaterThan(LINES);
});

test('ends at a definite refusal, says how far it came, and continues when it is run again', async () => {
  let calls = 0;
  const full = (...append: Parameters<EventStore['append']>) => {
    if (++calls > 120)
      throw new StoreUnavailable('not stored', { code: 'store_full', cause: new Error('the disk is full') });
    return log.append(...append);
  };
  const stopped: CommandFailed = await importing(full, true).then(
    () => undefined,
    (error) => error,
  );
  expect(stopped).toBeInstanceOf(CommandFailed);
  expect(stopped.message).toMatch(
    /^Stopped at line \d+: not stored: the disk is full\. 120 lines were recorded by this run, and every line before that one is in the log; run/,
  );
  const again = await importing((...append) => log.append(...append), true);
  expect(again).toMatchObject({ recorded: LINES - 120, already_present: 120 });
  const line = Number(/line (\d+)/.exec(stopped.message)![1]);
  // Line 1 is blank.
  expect(line).toBeGreaterThan(1);
  expect(line).toBeLessThanOrEqual(122);
});
