/**
 * Installs packages that the main install leaves out, where they are missing or not those of the lock file:
 * `node scripts/install.mjs test contracts`. The scripts of package.json that need some call this first. With `--once`
 * npm does not repeat a request that fails, so that a machine without a network waits for none.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

const given = process.argv.slice(2);
const once = given.includes('--once');
for (const folder of given.filter((name) => name !== '--once')) {
  const lock = createHash('sha256')
    .update(readFileSync(join(ROOT, folder, 'package-lock.json')))
    .digest('hex');
  const installed = join(ROOT, folder, 'node_modules/.installed');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) continue;
  const { description } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
  console.error(`Installing the packages of ${folder}/: ${description}`);
  // The level of the npm that runs this script may be silent.
  const options = ['--no-audit', '--no-fund', '--loglevel=error', '--progress', ...(once ? ['--fetch-retries=0'] : [])];
  const { status } = spawnSync('npm', ['ci', '--prefix', folder, ...options], {
    cwd: ROOT,
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) {
    console.error(`The packages of ${folder}/ could not be installed. See npm's messages above.`);
    process.exit(1);
  }
  writeFileSync(installed, lock);
}
