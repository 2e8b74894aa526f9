/**
 * `npm run release -- <version>`: makes the files of a release in release/<version>/, and the tag v<version> last, so that
 * a failure leaves none. docs/versioning.md says how to prepare a release. Options:
 *   --tagged  the tag is there already and is this commit: makes the files only
 */
import '../src/node-version.mjs';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { changes, git } from './changelog.mjs';

const ROOT = join(import.meta.dirname, '..');
const PACKAGES = ['.', 'clients/typescript'];
/** Of https://semver.org, without the metadata of a build, which npm drops. */
const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[\dA-Za-z-]+(\.[\dA-Za-z-]+)*)?$/;
/** Where else the version stands. */
const STATED = { 'src/kernel/version.ts': /VERSION = '(.*)'/, 'docker-compose.yml': /image: credence:(.*)/ };

function refuse(sentence) {
  console.error(`release: ${sentence}`);
  process.exit(1);
}

/** @returns {string} what the program printed; ends this one if it fails, after it has said why */
function run(program, args, { cwd = ROOT, shows = false } = {}) {
  const stdio = ['ignore', shows ? 'inherit' : 'pipe', 'inherit'];
  const { status, stdout } = spawnSync(program, args, { cwd, encoding: 'utf8', stdio, maxBuffer: 2 ** 28 });
  if (status !== 0) refuse(`"${program} ${args.join(' ')}" failed. Nothing was tagged.`);
  return stdout;
}

const readJson = (...path) => JSON.parse(readFileSync(join(...path), 'utf8'));
const writeJson = (value, ...path) => writeFileSync(join(...path), `${JSON.stringify(value, null, 2)}\n`);

/**
 * Writes the tarball and the list of its parts to `target`. npm cannot pack a lock file of its own: it is added after,
 * with exactly the versions of what is needed at run time. What the build has bundled is not needed besides.
 */
function pack(folder, target) {
  const stage = mkdtempSync(join(tmpdir(), 'credence-release-'));
  try {
    const [{ filename }] = JSON.parse(run('npm', ['pack', '--json', '--pack-destination', stage, join(ROOT, folder)]));
    run('tar', ['-xzf', filename], { cwd: stage });
    const content = join(stage, 'package');
    const { devDependencies: _, scripts: __, ...manifest } = readJson(content, 'package.json');
    manifest.files.push('npm-shrinkwrap.json');
    for (const name of Object.keys(manifest.dependencies)) {
      if (existsSync(join(content, 'dist/node_modules', name))) delete manifest.dependencies[name];
    }
    writeJson(manifest, content, 'package.json');
    cpSync(join(ROOT, folder, 'package-lock.json'), join(content, 'npm-shrinkwrap.json'));
    run('npm', ['install', '--package-lock-only', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: content });
    run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', target], { cwd: content });
    const sbom = ['sbom', '--sbom-format=cyclonedx', '--package-lock-only', '--omit=dev', '--loglevel=error'];
    const parts = JSON.parse(run('npm', sbom, { cwd: join(ROOT, folder) }));
    parts.metadata.component.name = manifest.name; // npm takes that of the folder.
    writeJson(parts, target, filename.replace(/\.tgz$/, '.cdx.json'));
  } finally {
    rmSync(stage, { recursive: true });
  }
}

const [version, ...options] = process.argv.slice(2);
const isTagged = options.includes('--tagged');
if (version === undefined || !VERSION.test(version)) refuse('Name a version of semver.org, such as 1.2.0.');
const tag = `v${version}`;
const status = git('status', '--porcelain');
if (!status.isGood) refuse(`This is no clone of the repository: ${status.output}.`);
if (status.output !== '') refuse(`The working tree has changes that are not committed:\n${status.output}`);
const commitOfTag = git('rev-parse', '--verify', '--quiet', `refs/tags/${tag}^{commit}`);
if (isTagged && commitOfTag.output !== git('rev-parse', 'HEAD').output) refuse(`${tag} is not this commit.`);
if (!isTagged && commitOfTag.isGood) refuse(`${tag} exists: a version is released once.`);
const notes = changes(version);
if (notes === undefined) refuse(`CHANGELOG.md has no entry "## [${version}]" with a text.`);
const stated = {};
for (const file of PACKAGES.flatMap((folder) => [`${folder}/package.json`, `${folder}/package-lock.json`])) {
  stated[file.replace('./', '')] = readJson(ROOT, file).version;
}
for (const [file, pattern] of Object.entries(STATED)) {
  stated[file] = pattern.exec(readFileSync(join(ROOT, file), 'utf8'))?.[1];
}
const others = Object.keys(stated).filter((file) => stated[file] !== version);
if (others.length > 0) refuse(`Another version stands in ${others.join(', ')}: write ${version} there, and commit.`);
if (spawnSync('npm', ['ping', '--fetch-retries=0', '--loglevel=silent'], { cwd: ROOT }).status !== 0) {
  refuse('The registry of npm gives no answer, and a release installs its packages from it.');
}

run('npm', ['ci'], { shows: true });
run('npm', ['run', '--silent', 'check'], { shows: true });
const target = join(ROOT, 'release', version);
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const folder of PACKAGES) pack(folder, target);
writeFileSync(join(target, 'NOTES.md'), `${notes}\n`);
const sums = readdirSync(target)
  .sort()
  .map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(target, name)))
        .digest('hex')}  ${name}\n`,
  );
writeFileSync(join(target, 'SHA256SUMS'), sums.join(''));
if (!isTagged) run('git', ['tag', '--annotate', '--cleanup=verbatim', '--file', join(target, 'NOTES.md'), tag]);
console.log(`release/${version}/ is complete. To publish it: git push origin ${tag}`);
