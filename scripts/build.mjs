/**
 * Builds dist/, if anything that it is made from has changed since the last build, and the console in it, if the packages
 * of console/ are installed. Options:
 *   --console  installs these packages first, where the console has to be built; without them it is left out
 *   --force    builds in any case
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const SERVICE = {
  stamp: 'dist/.built-from',
  folders: ['src', 'projections'],
  files: ['package-lock.json', 'tsconfig.json', 'nest-cli.json', 'scripts/bundle-dependencies.mjs'],
};
const CONSOLE = {
  stamp: 'dist/.console-built-from',
  folders: ['console/src'],
  files: ['console/package-lock.json', 'console/page.html', 'console/build.mjs'],
};

/** A hash of the contents of all that a build is made from. */
function sources({ folders, files }) {
  const hash = createHash('sha256').update(process.version);
  const inFolders = folders.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  );
  for (const file of [...files.map((name) => join(ROOT, name)), ...inFolders.sort()]) {
    hash.update(`\0${file.slice(ROOT.length)}\0`).update(readFileSync(file));
  }
  return hash.digest('hex');
}

function execute(script, ...args) {
  return spawnSync(process.execPath, [join(ROOT, script), ...args], { cwd: ROOT, stdio: 'inherit' }).status;
}

function run(script, ...args) {
  const status = execute(script, ...args);
  if (status !== 0) process.exit(status ?? 1);
}

/** Calls `build` if a part has changed since it was built. A build that fails leaves no stamp. */
function buildChanged(part, build) {
  const stamp = join(ROOT, part.stamp);
  const now = sources(part);
  if (!process.argv.includes('--force') && existsSync(stamp) && readFileSync(stamp, 'utf8') === now) return;
  if (build() !== false) writeFileSync(stamp, now);
}

buildChanged(SERVICE, () => {
  // Nest empties dist/ first, with its stamps.
  run('node_modules/@nestjs/cli/bin/nest.js', 'build');
  run('scripts/bundle-dependencies.mjs');
});

const isWanted = process.env.CREDENCE_CONSOLE !== 'off';
if (isWanted && existsSync(join(ROOT, 'console'))) {
  buildChanged(CONSOLE, () => {
    if (process.argv.includes('--console') && execute('scripts/install.mjs', '--once', 'console') !== 0) {
      console.error('The service starts without the console.');
    }
    if (!existsSync(join(ROOT, 'console/node_modules/.installed'))) return false;
    return run('console/build.mjs');
  });
}
