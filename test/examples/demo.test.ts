import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

test('npm run demo shows who has the highest and the lowest score, and how a member fell', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['examples/demo.mjs']);
  expect(stdout).toMatch(/^2003 ratings among \d+ members of Bitcoin OTC/);
  const [, top, bottom, fall] = stdout.split('\n\n') as [string, string, string, string];
  expect(top).toMatch(/^Top 5\n(.*\n){5}tris:otc:/);
  expect(bottom).toMatch(/^Bottom 5\n(.*\n){5}.*BAD/);
  expect(fall).toMatch(/^How tris:otc:\d+, who had earned \d+ TCT, fell: \d+ of \d+ events\n(.*\n)+.*BAD/);
});
