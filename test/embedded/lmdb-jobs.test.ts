import { LmdbEnvironment } from '../../src/stores/lmdb/environment.js';
import { LmdbJobs } from '../../src/stores/lmdb/lmdb-jobs.js';
import { eventually } from '../contracts/harness.js';
import { describeJobs } from '../contracts/jobs.contract.js';
import { oneHandle } from './one-handle.js';
import { Child } from './processes/child.js';
import { temporaryFolder } from './temporary-folder.js';

describeJobs('LMDB', async () => {
  const folder = await temporaryFolder();
  const open = oneHandle((keptMs?: number) => LmdbJobs.open(folder.path, { clock: Date.now, keptMs }));
  return { open, destroy: folder.remove };
});

describe('jobs of a process that was killed', () => {
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let jobs: LmdbJobs;
  beforeEach(async () => {
    folder = await temporaryFolder();
    jobs = await LmdbJobs.open(folder.path, { clock: Date.now });
    await jobs.enqueue('work', 'one', { n: 1 });
    await jobs.close();
    const child = new Child(new URL('./processes/job-runner.ts', import.meta.url), [folder.path]);
    expect(await child.printed(1)).toEqual([{ id: 'one', attempt: 1 }]);
    await child.kill();
    jobs = await LmdbJobs.open(folder.path, { clock: Date.now });
  });
  afterEach(async () => {
    await jobs.close();
    await folder.remove();
  });

  test('run again as a further attempt after the next start', async () => {
    const attempts: number[] = [];
    jobs.handle('work', async ({ attempt }) => attempts.push(attempt));
    await jobs.start();
    await eventually(async () => (await jobs.get('work', 'one'))?.status === 'completed');
    expect(attempts).toEqual([2]);
  });

  test('become dead letters when that was their last attempt', async () => {
    jobs.handle('work', async () => null, { attempts: 1 });
    await jobs.start();
    await eventually(async () => (await jobs.get('work', 'one'))?.status === 'failed');
    expect((await jobs.get('work', 'one'))!.error).toMatch(/process ended/);
  });
});

test('a job that was cancelled and put back while it ran does not store the result of that run', async () => {
  const folder = await temporaryFolder();
  const jobs = await LmdbJobs.open(folder.path, { clock: Date.now });
  const ends: ((result: string) => void)[] = [];
  try {
    jobs.handle('work', () => new Promise((resolve) => ends.push(resolve)));
    await jobs.start();
    await jobs.enqueue('work', 'one', {});
    await eventually(() => ends.length === 1);
    await jobs.cancel('work', 'one');
    expect((await jobs.retry('work', 'one'))!.status).toBe('queued');
    ends[0]!('old');
    await eventually(() => ends.length === 2);
    expect(await jobs.get('work', 'one')).toMatchObject({ status: 'running', attempts: 1, result: null });
    ends[1]!('new');
    await eventually(async () => (await jobs.get('work', 'one'))?.status === 'completed');
    expect(await jobs.get('work', 'one')).toMatchObject({ result: 'new', attempts: 1 });
  } finally {
    await jobs.close();
    await folder.remove();
  }
});

test('a clock that is set back delays no job, whether queued or waiting for its next attempt', async () => {
  const folder = await temporaryFolder();
  let now = Date.parse('2026-01-02T00:00:00Z');
  const jobs = await LmdbJobs.open(folder.path, { clock: () => now });
  try {
    jobs.handle(
      'work',
      async ({ id, attempt }) => {
        if (id === 'tried again' && attempt === 1) throw new Error('not yet');
        return attempt;
      },
      { backoffMs: 60_000 },
    );
    await jobs.enqueue('work', 'queued', {});
    now -= 1_000;
    await jobs.start();
    await eventually(async () => (await jobs.get('work', 'queued'))?.status === 'completed');

    await jobs.enqueue('work', 'tried again', {});
    await eventually(async () => (await jobs.get('work', 'tried again'))?.error === 'not yet');
    now -= 86_400_000;
    await eventually(async () => (await jobs.get('work', 'tried again'))?.status === 'completed');
    expect(await jobs.get('work', 'tried again')).toMatchObject({ result: 2 });
  } finally {
    await jobs.close();
    await folder.remove();
  }
});

test('a job takes no longer while thousands of its kind wait, and several kinds', async () => {
  const COUNT = 2_000;
  const PART = 200;
  const folder = await temporaryFolder();
  const jobs = await LmdbJobs.open(folder.path, { clock: Date.now });
  try {
    await Promise.all(Array.from({ length: COUNT }, (_, n) => jobs.enqueue('work', String(n), {})));
    /** Processor time at each job, µs. */
    const times: number[] = [];
    const now = () => process.cpuUsage().user + process.cpuUsage().system;
    for (const kind of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) jobs.handle(kind, async () => null);
    jobs.handle('work', async () => times.push(now()));
    await jobs.start();
    await eventually(async () => times.length === COUNT);
    const first = times[PART]! - times[0]!;
    const last = times.at(-1)! - times.at(-1 - PART)!;
    expect(first / last).toBeLessThan(5);
  } finally {
    await jobs.close();
    await folder.remove();
  }
});

test('a job that is not what was written is absent, and the others are listed and run', async () => {
  const folder = await temporaryFolder();
  const text = { encoding: 'string' } as const;
  let jobs = await LmdbJobs.open(folder.path, { clock: Date.now });
  const env = await LmdbEnvironment.open(folder.path, { databases: { jobs: text } });
  const change = (part: string, other: string) =>
    env.write(() => {
      const records = env.database<string, string>('jobs');
      const all = [...records.getRange({})];
      for (const { key, value } of all) records.putSync(key, value.replace(part, other));
    });
  try {
    for (const id of ['one', 'two', 'three']) await jobs.enqueue('work', id, { for: id });
    await change('{"for":"one"}', '{"for":"two"}');
    expect(await jobs.get('work', 'one')).toBeUndefined();
    const listed = async () => (await jobs.list()).map(({ id, status }) => [id, status]);
    expect(await listed()).toEqual([
      ['three', 'queued'],
      ['two', 'queued'],
    ]);
    await jobs.enqueue('work', 'one', { for: 'one' });
    await jobs.close();

    jobs = await LmdbJobs.open(folder.path, { clock: Date.now });
    const ran: string[] = [];
    jobs.handle('work', async ({ id, input }) => ran.push(`${id} for ${String(input['for'])}`));
    await jobs.start();
    await eventually(async () => ran.length === 3);
    await eventually(async () => (await listed()).every(([, status]) => status === 'completed'));
    expect(ran.toSorted()).toEqual(['one for one', 'three for three', 'two for two']);
    expect(await listed()).toHaveLength(3);
  } finally {
    await env.close();
    await jobs.close();
    await folder.remove();
  }
});
