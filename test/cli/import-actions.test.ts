import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deleteText, keptText } from '../../src/commands/kept-texts.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { LmdbEventStore } from '../../src/stores/lmdb/lmdb-event-store.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { action, actions } from './credence.js';
import { type ImportOptions, importActions } from './importing.js';

/** What becomes of the lines of an import. */

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let stores: { eventStore: LmdbEventStore; keyValue: LmdbKeyValue };
let file: string;
beforeEach(async () => {
  folder = await temporaryFolder();
  const clock = Date.now;
  stores = {
    eventStore: await LmdbEventStore.open(join(folder.path, 'log')),
    keyValue: await LmdbKeyValue.open(join(folder.path, 'state'), { clock }),
  };
  file = join(folder.path, 'actions.ndjson');
});
afterEach(async () => {
  await stores.eventStore.close();
  await stores.keyValue.close();
  await folder.remove();
});

const write = (lines: readonly object[]) => writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
const importing = (options?: ImportOptions) => importActions(stores, file, options);

test('of lines with one external_id the first is recorded, near or far', async () => {
  const other = (n: number) => action(n, { criticality: 'Critical' });
  const lines = actions(3_000);
  // In the same batch, in the next one, and in a later one; some equal the first line.
  const again = { 10: other(9), 11: action(9), 12: other(9), 600: other(9), 601: other(599), 2_900: action(9) };
  for (const [place, line] of Object.entries(again)) lines[Number(place)] = line;
  await write(lines);
  const report = await importing();
  expect(report).toMatchObject({ lines: 3_000, recorded: 2_994, already_present: 2, conflicts: 4 });
  expect(report.errors.map(({ line }) => line)).toEqual([11, 13, 601, 602]);
  expect(await importing()).toMatchObject({ recorded: 0, already_present: 2_996, conflicts: 4 });
});

test('equal lines without an external_id are as many actions, in every run', async () => {
  const line = action(1, { external_id: undefined });
  await write([line, action(2), line, line]);
  expect(await importing()).toMatchObject({ recorded: 4, already_present: 0 });
  expect(await importing()).toMatchObject({ recorded: 0, already_present: 4 });
});

test('a line has the same stream in every version: an import that is repeated after an update records nothing', async () => {
  const [one, other] = [1, 2].map((n) => action(n, { external_id: undefined }));
  await write([one!, other!, one!, action(3), one!, other!]);
  await importing();
  const streams = new Set<string>();
  for await (const events of stores.eventStore.readAll(0)) for (const { stream } of events) streams.add(stream);
  expect([...streams].filter((stream) => stream.startsWith('action-')).sort()).toEqual([
    'action-029bd6a5379f2bbdac7c3254db06f90f643243c7e556380d2fb8452807b837d8',
    'action-550d0ec1088b2ca5dafe26f2a362f73c9b0d789ee17722ef170cce47d464ec3f',
    'action-79e1cfa76262c8edb9176223da34f062c1ea422c0d0b86a17ca1ef206252f6a5',
    'action-b069bb325a719bcec11533cc5b6852c35c592af87eea61dab5f2d1fcabd206ba',
    'action-b554d1c3d753070706017c2aeba446ae1fcab5d97bae56d817188ddc336452d1',
    'action-bf3ae3b6e7bfb118cf838536359991fae509a14f5c404db615e3c9d5c512ae10',
  ]);
});

test('a text that was deleted does not come back when its line is imported again', async () => {
  const [kept, deleted] = ['https://example.org/kept', 'https://example.org/deleted'].map((uri) => [
    uri,
    sha256Hex(uri),
  ]);
  await write([action(1, { evidence_uri: kept![0] }), action(2, { evidence_uri: deleted![0] })]);
  await importing();
  await deleteText(stores.keyValue, deleted![1]!);
  expect(await importing()).toMatchObject({ recorded: 0, already_present: 2 });
  const texts = [kept, deleted].map((text) => keptText(stores.keyValue, text![1]!));
  expect(await Promise.all(texts)).toEqual([kept![0], null]);
});

test('a file that changes after it was checked is refused at the line that is no action any more', async () => {
  await write(actions(2_000));
  const lines: object[] = actions(2_000);
  lines[1_800] = { tris_id: 'tris:alice' };
  const onProgress: ImportOptions['onProgress'] = (phase, done, total) => {
    if (phase === 'checking' && done === total) changed ??= write(lines);
  };
  let changed: Promise<void> | undefined;
  await expect(importing({ onProgress })).rejects.toThrow(/^Line 1801 is not valid any more: the file has changed/);
  await changed;
  await write(actions(2_000));
  expect(await importing()).toMatchObject({ lines: 2_000, wrong: 0, conflicts: 0 });
});

test('a file that is removed after it was checked fails the import', async () => {
  await write(actions(2_000));
  let removed: Promise<void> | undefined;
  const onProgress: ImportOptions['onProgress'] = () => void (removed ??= rm(file));
  await expect(importing({ onProgress })).rejects.toThrow('ENOENT');
  await removed;
});
