/**
 * Installs packages that the main install leaves out, where they are missing or not those of the lock file:
 * `node scripts/install.mjs test contracts`. The scripts of package.json that need some call this first. With `--once`
 * npm does not repeat a request that fails, so that a machine without a network waits for none.
 */
import '../src/node-version.mjs';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const ROOT = join(import.meta.dirname, '..');
/** A link whose target is the id of the process that installs. */
const LOCK = join(ROOT, 'node_modules/.installing');

/** Waits until no other process installs: npm would remove what the other one has just written. */
async function lock() {
  mkdirSync(join(ROOT, 'node_modules'), { recursive: true });
  for (let isTold = false; ; await sleep(100)) {
    try {
      symlinkSync(String(process.pid), LOCK);
      process.once('exit', () => rmSync(LOCK, { force: true }));
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    try {
      const owner = Number(readlinkSync(LOCK));
      process.kill(owner, 0);
      if (owner === process.pid) return;
      if (!isTold) console.error(`Process ${owner} installs packages: waiting for its end (${LOCK}).`);
      isTold = true;
    } catch (error) {
      if (error.code === 'ESRCH') rmSync(LOCK, { force: true }); // It was killed.
    }
  }
}

const given = process.argv.slice(2);
const once = given.includes('--once');
for (const folder of given.filter((name) => name !== '--once')) {
  const hash = createHash('sha256')
    .update(readFileSync(join(ROOT, folder, 'package-lock.json')))
    .digest('hex');
  const installed = join(ROOT, folder, 'node_modules/.installed');
  const isInstalled = () => existsSync(installed) && readFileSync(installed, 'utf8') === hash;
  if (isInstalled()) continue;
  await lock();
  if (isInstalled()) continue; // by another process, meanwhile
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
  writeFileSync(installed, hash);
}
