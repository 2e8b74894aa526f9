import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { action, actions, SLOW, Store } from '../cli/credence.js';
import { eventually } from '../contracts/harness.js';
import { ended } from '../servers/launch.js';

/** Commands of the command line that are killed. */

let store: Store;
beforeEach(async () => void (store = await Store.create({ isBuilt: true })));
afterEach(() => store.remove());

const status = () => store.json<Status>('status');

interface Counts {
  lines: number;
  recorded: number;
  already_present: number;
}

interface Status {
  events: number;
  generations: { id: string; status: string; serves: string[] }[];
}

test(
  'an import that was killed and run again records every line once',
  async () => {
    const anonymous = (n: number) => action(n, { external_id: undefined });
    // Two equal lines are two actions, in every run.
    const lines = [...actions(12_000), ...Array.from({ length: 3_000 }, (_, n) => anonymous(n % 1_500))];
    const file = store.file('actions.ndjson', lines);

    const child = store.spawn(['import', file]);
    const killed = ended(child);
    const log = join(store.data, 'log', 'data.mdb');
    while ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) < 2_000_000) await sleep(5);
    child.kill('SIGKILL');
    expect((await killed).code).toBeNull();

    const counts = await store.json<Counts>('import', file);
    expect(counts.lines).toBe(15_000);
    expect(counts.recorded + counts.already_present).toBe(15_000);
    expect(counts.recorded).toBeGreaterThan(0);
    expect(counts.already_present).toBeGreaterThan(0);
    expect(await store.json<Counts>('import', file)).toMatchObject({ recorded: 0, already_present: 15_000 });
    // The first event of the log; for a flag one event, for everything else two.
    expect((await status()).events).toBe(
      lines.reduce((sum, line) => sum + (line.category === 'compliance' ? 1 : 2), 1),
    );
    expect(await store.run('verify')).toMatchObject({ code: 0, stdout: expect.stringMatching(/identical\n$/) });
  },
  SLOW,
);

test(
  'a rebuild that was killed goes on where it stopped',
  async () => {
    await store.json('import', store.file('actions.ndjson', actions(12_000)));
    const before = (await status()).generations.map(({ id }) => id);
    const child = store.spawn(['rebuild', 'all']);
    const rebuild = ended(child);
    const views = join(store.data, 'views');
    const isBuilding = () => readdirSync(views).some((name) => existsSync(join(views, name, 'build')));
    // On a slow machine it may have ended before this looks.
    await eventually(() => isBuilding() || child.exitCode !== null, 'the files of a second generation');
    child.kill('SIGKILL');
    await rebuild;
    const left = (await status()).generations;
    expect(left.filter(({ serves }) => serves.length > 0).map(({ id }) => id)).toEqual(before);
    const built = await store.json<{ generation: string }>('rebuild', 'all', '--swap');
    if (left[1]!.status === 'building') expect(built.generation).toBe(left[1]!.id);
    expect((await store.run('verify')).code).toBe(0);
  },
  SLOW,
);
