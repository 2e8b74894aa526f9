import { exec, execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

test('npm run demo shows who has the highest and the lowest score, and how a member fell', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['examples/demo.mjs']);
  expect(stdout).toMatch(/^2003 ratings among \d+ members of Bitcoin OTC/);
  const [, top, bottom, fall] = stdout.split('\n\n') as [string, string, string, string];
  expect(top).toMatch(/^Top 5\n(.*\n){5}tris:otc:/);
  // Without evidence the figure would be that of the prior.
  expect(stdout).not.toMatch(/ 0\.8333$/m);
  expect(bottom).toContain('no recent evidence');
  expect(bottom).toMatch(/^Bottom 5\n(.*\n){5}.*BAD/);
  expect(fall).toMatch(/^How tris:otc:\d+, who had earned \d+ TCT, fell: \d+ of \d+ events\n(.*\n)+.*BAD/);

  // What it says to run records the same ratings for the console.
  const [, command] = /^ {2}(node .*)$/m.exec(stdout)!;
  const data = await mkdtemp(join(tmpdir(), 'credence-demo-test-'));
  const { stdout: imported } = await promisify(exec)(command!, { env: { ...process.env, CREDENCE_DATA: data } });
  await rm(data, { recursive: true });
  expect(imported).toMatch(/2,003 recorded/);
});
