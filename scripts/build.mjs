/**
 * Builds dist/, if anything that it is made from has changed since the last build. `npm run build -- --force` builds in
 * any case.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const STAMP = join(ROOT, 'dist/.built-from');
const FOLDERS = ['src', 'projections'];
const FILES = ['package-lock.json', 'tsconfig.json', 'nest-cli.json', 'scripts/bundle-dependencies.mjs'];

/** A hash of the contents of all that a build is made from. */
function sources() {
  const hash = createHash('sha256').update(process.version);
  const inFolders = FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  for (const file of [...FILES.map((name) => join(ROOT, name)), ...inFolders.sort()]) {
    hash.update(`\0${file.slice(ROOT.length)}\0`).update(readFileSync(file));
  }
  return hash.digest('hex');
}

function run(script, ...args) {
  const { status } = spawnSync(process.execPath, [join(ROOT, script), ...args], { cwd: ROOT, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

const stamp = sources();
if (process.argv.includes('--force') || !existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== stamp) {
  // Nest empties dist/ first, so a build that fails leaves no stamp.
  run('node_modules/@nestjs/cli/bin/nest.js', 'build');
  run('scripts/bundle-dependencies.mjs');
  writeFileSync(STAMP, stamp);
}
