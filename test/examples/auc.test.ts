import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** `npm run bench:auc`, on the excerpt of the ratings that is part of the repository. */
const run = (file: string) => promisify(execFile)(process.execPath, ['bench/auc.mjs', file]);
const EXCERPT = 'examples/bitcoin-otc-excerpt.csv';

function lines(stdout: string): Map<string, number[]> {
  const cells = stdout.split('\n').map((line) => line.split(/ {2,}/));
  return new Map(cells.map(([name, ...values]) => [name!, values.map(Number)]));
}

test('both models predict, disc-2 better; a burst of praise gains nothing under disc-2', async () => {
  const printed = lines((await run(EXCERPT)).stdout);
  const [score1, reliability1, , reliability2] = printed.get('AUC') as [number, number, number, number];
  expect(score1).toBeGreaterThan(0.75);
  expect(reliability1).toBeGreaterThan(score1);
  expect(reliability2).toBeGreaterThan(reliability1);
  expect(printed.get('none')).toEqual(printed.get('AUC'));
  const [bought1, , bought2, stays2] = printed.get('10 praises at once after each flag') as [
    number,
    number,
    number,
    number,
  ];
  expect(score1 - bought1).toBeGreaterThan(0.2);
  expect(bought2).toBeGreaterThan(0.75);
  expect(stays2).toBeGreaterThan(reliability2 - 0.01);
});

test('a file of the same ratings on another scale, without a head line, gives the same', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'credence-auc-'));
  try {
    const [, ...rows] = readFileSync(EXCERPT, 'utf8').trimEnd().split('\n');
    const halved = rows.map((row) =>
      row
        .split(',')
        .map((cell, i) => (i === 2 ? Number(cell) / 2 : cell))
        .join(','),
    );
    const file = join(folder, 'ratings.csv');
    writeFileSync(file, `${halved.join('\n')}\n`);
    const [own, other] = await Promise.all([run(EXCERPT), run(file)]);
    expect(other.stdout).toBe(own.stdout);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a wrong option gets one line, and --help the usage', async () => {
  await expect(run('--nothing')).rejects.toMatchObject({
    code: 2,
    stderr: "Unknown option '--nothing'; --help lists the options.\n",
  });
  expect((await run('--help')).stdout).toBe('usage: npm run bench:auc -- <csv> | --data <folder>\n');
});
