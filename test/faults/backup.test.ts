import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { credence, credenceWith } from './faults.js';
import { FaultyMachine, describeFaulty } from './faulty-machine.js';
import { action } from '../cli/credence.js';

/** Copies that were reported as made: they are on the disk, whole, and nobody else's. */

let folder: string;
let data: string;
let safe: string;
let machine: FaultyMachine | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credence-copies-'));
  [data, safe] = [join(folder, 'data'), join(folder, 'safe')];
  await mkdir(safe);
  const lines = Array.from({ length: 50 }, (_, n) => `${JSON.stringify(action(n))}\n`);
  await writeFile(join(folder, 'actions.ndjson'), lines.join(''));
  expect((await credence(data, 'import', join(folder, 'actions.ndjson'))).code).toBe(0);
});
afterEach(async () => {
  machine?.remove();
  machine = undefined;
  await rm(folder, { recursive: true, force: true });
});

const eventsIn = async (store: string) => {
  const { code, stdout, stderr } = await credence(store, 'status', '--json');
  if (code !== 0) throw new Error(stderr);
  return (JSON.parse(stdout) as { events: number }).events;
};

describeFaulty('a power cut right after', () => {
  beforeEach(() => void (machine = new FaultyMachine('/safe', { losesPower: true })));

  test('a completed backup leaves the folder complete', async () => {
    const copy = join(safe, 'copy');
    expect(await credenceWith(machine!.env, data, 'backup', copy)).toMatchObject({ code: 0 });
    machine!.cutPower(() => true);
    expect(await eventsIn(copy)).toBe(await eventsIn(data));
    expect(readdirSync(safe)).toEqual(['copy']);
  });

  test('a completed export leaves the file complete', async () => {
    const out = join(safe, 'events.ndjson');
    expect(await credenceWith(machine!.env, data, 'export', '--out', out)).toMatchObject({ code: 0 });
    machine!.cutPower(() => true);
    expect(readFileSync(out, 'utf8')).toBe((await credence(data, 'export')).stdout);
    expect(readdirSync(safe)).toEqual(['events.ndjson']);
  });
});

describeFaulty('while one is being made', () => {
  beforeEach(() => void (machine = new FaultyMachine('/safe')));

  test.each([
    ['backup', (target: string) => ['backup', target]],
    ['export', (target: string) => ['export', '--out', target]],
  ])('another %s to the same target is refused with a sentence, and spoils nothing', async (_name, args) => {
    const target = join(safe, 'copy');
    // Commands on one folder wait for each other.
    const other = join(folder, 'other');
    await cp(data, other, { recursive: true });
    machine!.set('hold_syncs', 1);
    const first = credenceWith(machine!.env, data, ...args(target));
    await machine!.holds();
    expect(existsSync(target)).toBe(false);
    const second = await credence(other, ...args(target));
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/^credence: Process \d+ on \S+ is writing to \S+copy\.\n$/);
    machine!.set('hold_syncs', 0);
    expect((await first).code).toBe(0);
    expect(existsSync(target)).toBe(true);
    expect(readdirSync(safe)).toEqual(['copy']);
  });
});

test('the remains of a killed backup are removed by the next one', async () => {
  const copy = join(safe, 'copy');
  const aside = `${copy}.unfinished-x`;
  await mkdir(aside);
  // No process has this number.
  await writeFile(`${copy}.lock`, JSON.stringify({ pid: 2 ** 30, host: hostname(), aside }));
  expect((await credence(data, 'backup', copy)).code).toBe(0);
  expect(readdirSync(safe)).toEqual(['copy']);
});
