/**
 * Builds dist/, if anything that it is made from has changed since the last build; in it, the console and the SDK for
 * tracing, if the packages of console/ and tracing/ are installed; and the client, if those of clients/typescript/ are.
 * Options:
 *   --console  installs these packages first, where the console has to be built; without them it is left out
 *   --force    builds in any case
 */
import '../src/node-version.mjs';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const SERVICE = {
  stamp: 'dist/.built-from',
  folders: ['src', 'projections'],
  files: ['package-lock.json', 'tsconfig.json', 'nest-cli.json', 'scripts/bundle-dependencies.mjs'],
};
const CONSOLE = {
  stamp: 'dist/.console-built-from',
  folders: ['console/src', 'clients/typescript/src'],
  files: [
    'console/package-lock.json',
    'console/page.html',
    'console/build.mjs',
    'clients/typescript/package-lock.json',
  ],
};
const CLIENT = {
  stamp: 'clients/typescript/dist/.built-from',
  folders: ['clients/typescript/src'],
  files: ['clients/typescript/package-lock.json', 'clients/typescript/tsconfig.json', 'tsconfig.json'],
};

const TRACING = {
  stamp: 'dist/.tracing-built-from',
  folders: [],
  files: ['tracing/package-lock.json', 'tracing/sdk.mjs', 'tracing/export-thread.mjs', 'tracing/build.mjs'],
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
  const start = Date.now();
  console.error('Compiling the service, which takes up to a minute whenever its sources have changed.');
  // Nest empties dist/ first, with its stamps.
  run('node_modules/@nestjs/cli/bin/nest.js', 'build');
  // The compiler leaves them where they are.
  for (const name of readdirSync(join(ROOT, 'src'), { recursive: true })) {
    if (name.endsWith('.sql')) cpSync(join(ROOT, 'src', name), join(ROOT, 'dist/src', name));
  }
  run('scripts/bundle-dependencies.mjs');
  console.error(`Compiled in ${Math.round((Date.now() - start) / 1_000)} s.`);
});

const isWanted = process.env.CREDENCE_CONSOLE !== 'off';
if (isWanted && existsSync(join(ROOT, 'console'))) {
  buildChanged(CONSOLE, () => {
    const packages = ['console', 'clients/typescript'];
    if (process.argv.includes('--console') && execute('scripts/install.mjs', '--once', ...packages) !== 0) {
      console.error('The service starts without the console.');
    }
    if (!packages.every((folder) => existsSync(join(ROOT, folder, 'node_modules/.installed')))) return false;
    console.error('Building the console.');
    return run('console/build.mjs');
  });
}

if (existsSync(join(ROOT, 'clients/typescript/node_modules/.installed'))) {
  buildChanged(CLIENT, () => run('node_modules/typescript/bin/tsc', '-p', 'clients/typescript/tsconfig.json'));
}
if (existsSync(join(ROOT, 'tracing/node_modules/.installed'))) buildChanged(TRACING, () => run('tracing/build.mjs'));
