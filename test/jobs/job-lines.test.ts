import { JobLines, type StoredLines } from '../../src/features/jobs/job-lines.js';
import { Quotas } from '../../src/commands/quotas.js';
import { loadConfig } from '../../src/kernel/config.js';
import { LmdbKeyValue } from '../../src/stores/lmdb/lmdb-key-value.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';

/** How much of what jobs found is kept for one owner. */

let folder: Awaited<ReturnType<typeof temporaryFolder>>;
let keyValue: LmdbKeyValue;
let lines: JobLines;
beforeEach(async () => {
  folder = await temporaryFolder();
  keyValue = await LmdbKeyValue.open(folder.path, { clock: Date.now });
  lines = linesWith();
});
afterEach(async () => {
  await keyValue.close();
  await folder.remove();
});

const linesWith = (env: Record<string, string> = {}) =>
  new JobLines(keyValue, Date.now, new Quotas(loadConfig(env), keyValue, Date.now));

/** What a job of the owner found. */
async function found(owner: string, ...texts: string[]): Promise<StoredLines> {
  const writer = lines.begin(owner);
  for (const text of texts) writer.add({ text });
  return writer.end();
}

async function read(stored: StoredLines): Promise<string> {
  let text = '';
  for await (const part of await lines.read(stored)) text += part;
  return text;
}

const isExpired = (stored: StoredLines) => expect(read(stored)).rejects.toMatchObject({ code: 'job_result_expired' });

test('the lines of the last 50 jobs of an owner are kept', async () => {
  const other = await found('tris:other', 'theirs');
  const all: StoredLines[] = [];
  for (let n = 0; n < 52; n++) all.push(await found('tris:lendco', `n${n}`));
  for (const stored of all.slice(0, 2)) await isExpired(stored);
  for (const [n, stored] of all.entries()) if (n >= 2) expect(await read(stored)).toBe(`{"text":"n${n}"}\n`);
  expect(await read(other)).toBe('{"text":"theirs"}\n');
});

test('at most so many bytes of an owner are kept, 200 MB by default, but always those of the last job', async () => {
  expect(loadConfig({}).jobBytes).toBe(200 * 2 ** 20);
  lines = linesWith({ CREDENCE_ORG_JOB_BYTES: String(200 * 2 ** 10) });
  const large = 'x'.repeat(90 * 2 ** 10);
  const [first, second] = [await found('tris:lendco', large), await found('tris:lendco', large)];
  expect(await read(first)).toHaveLength(large.length + 12);
  const third = await found('tris:lendco', large);
  await isExpired(first);
  expect(await read(second)).toHaveLength(large.length + 12);
  expect(await read(third)).toHaveLength(large.length + 12);
  const larger = await found('tris:lendco', large.repeat(3));
  await isExpired(third);
  expect(await read(larger)).toHaveLength(3 * large.length + 12);
});

test('lines that are in use are neither counted nor removed', async () => {
  const used = await lines.keep(await found('tris:lendco', 'used'), Date.now() + 1_000_000, 'tris:lendco');
  for (let n = 0; n < 60; n++) await found('tris:lendco', `n${n}`);
  expect(await read(used)).toBe('{"text":"used"}\n');
});
