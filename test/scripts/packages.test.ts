import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { longCases } from '../faults/faults.js';
import { spawnInstalledServer } from '../servers/launch.js';

/** Both packages as a release makes them in a new repository, installed in an empty folder. */

const VERSION = '9.9.9';
const folder = mkdtempSync(join(tmpdir(), 'credence-packages-'));
const repository = mkdtempSync(join(tmpdir(), 'credence-release-'));
afterAll(() => [folder, repository].forEach((path) => rmSync(path, { recursive: true, force: true })));

const release = join(repository, 'release', VERSION);
const OPTIONS = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];

const execute = (program: string, args: string[], cwd = folder): string =>
  execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

/** In blocks of the disk, MB. */
const sizeOnDisk = (path: string): number => parseInt(execute('du', ['-sm', path]));
const MAX_MB = 130;

function isGroupAlive(leader: number): boolean {
  try {
    return process.kill(-leader, 0);
  } catch {
    return false;
  }
}

/** What an integrator does who has installed both. */
const PROGRAM = `
import { readFileSync } from 'node:fs';
import { CredenceClient } from '@credence/client';
import { verifyWebhook } from '@credence/client/webhooks';
import { verify } from 'credence/eligibility';

const [, , baseUrl] = process.argv;
const credence = new CredenceClient({ baseUrl, apiKey: readFileSync('data-example/dev-api-key', 'utf8') });
const tris_id = 'tris:alice';
await credence.post('/api/decision-relay', {
  body: { tris_id, action_type: 'repayment', category: 'financial', criticality: 'High', platform_id: 'lender' },
});
const score = await credence.get('/v1/disc/score/{tris_id}', { params: { path: { tris_id } } });
await credence.post('/v1/policies/ap', { body: { policy_id: 'AP_ANY_V1', rules: { disc_min: 0 } } });
const check = await credence.post('/v1/policies/ap/check', { body: { policy_id: 'AP_ANY_V1', subject_tris: tris_id } });
const jwks = (await credence.get('/.well-known/jwks.json')).data;
const { active } = verify(check.data.eligibility_token, { jwks });
console.log(JSON.stringify([score.data.total_tct, active, typeof verifyWebhook]));
`;

/** The repository as it is here, in one commit that states the version. */
function makeRepository(): void {
  const listed = execute('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], '.');
  for (const file of listed.split('\0').filter((path) => path !== '' && existsSync(path))) {
    mkdirSync(dirname(join(repository, file)), { recursive: true });
    cpSync(file, join(repository, file));
  }
  const replace = (file: string, from: RegExp | string, to: string) =>
    writeFileSync(join(repository, file), readFileSync(file, 'utf8').replaceAll(from, to));
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  for (const from of ['.', 'clients/typescript']) {
    replace(join(from, 'package.json'), `"version": "${version}"`, `"version": "${VERSION}"`);
    const lock = JSON.parse(readFileSync(join(from, 'package-lock.json'), 'utf8'));
    lock.version = lock.packages[''].version = VERSION;
    writeFileSync(join(repository, from, 'package-lock.json'), `${JSON.stringify(lock, null, 2)}\n`);
  }
  replace('src/kernel/version.ts', version, VERSION);
  replace('docker-compose.yml', `credence:${version}`, `credence:${VERSION}`);
  replace('CHANGELOG.md', '## [Unreleased]', `## [Unreleased]\n\n## [${VERSION}] - 2026-01-01\n\n### Added\n\n- This.`);
  // npm test runs the checks of this repository, in a fraction of the time.
  execute('npm', ['pkg', 'set', 'scripts.check=node scripts/changelog.mjs'], repository);
  // Installed before the tests. The client's lock file is another one here, so its packages are installed anew.
  for (const from of ['console', 'tracing']) {
    symlinkSync(join(process.cwd(), from, 'node_modules'), join(repository, from, 'node_modules'));
  }
  execute('git', ['init', '--quiet'], repository);
  for (const [name, value] of [
    ['name', 'Test'],
    ['email', 'test@example.org'],
  ]) {
    execute('git', ['config', `user.${name}`, value!], repository);
  }
  execute('git', ['add', '--all'], repository);
  execute('git', ['commit', '--quiet', '--message', 'Release'], repository);
}

test('a release: both packages work in an empty folder, where npx credence serve --example starts the service with its pages', async () => {
  makeRepository();
  execute('npm', ['run', 'release', '--', VERSION], repository);
  expect(execute('git', ['describe', '--exact-match'], repository)).toBe(`v${VERSION}\n`);
  const file = (name: string) => readFileSync(join(release, name));
  const tarballs = [`credence-${VERSION}.tgz`, `credence-client-${VERSION}.tgz`];
  const parts = tarballs.map((name) => name.replace('.tgz', '.cdx.json'));
  expect(readdirSync(release).sort()).toEqual(['NOTES.md', 'SHA256SUMS', ...parts, ...tarballs].sort());
  const sums = String(file('SHA256SUMS')).trim().split('\n');
  expect(sums.map((line) => line.split('  '))).toEqual(
    ['NOTES.md', ...parts, ...tarballs]
      .sort()
      .map((name) => [createHash('sha256').update(file(name)).digest('hex'), name]),
  );
  expect(String(file('NOTES.md'))).toMatch(/^### Added\n\n- This\./);
  const { bomFormat, metadata, components } = JSON.parse(String(file(parts[0]!)));
  expect([bomFormat, metadata.component.name, metadata.component.version]).toEqual(['CycloneDX', 'credence', VERSION]);
  const names = new Set(components.map(({ name }: { name: string }) => name));
  expect([names.has('fastify'), names.has('typescript')]).toEqual([true, false]);

  const packed = tarballs.map((name) => {
    const paths = execute('tar', ['-tzf', join(release, name)])
      .replaceAll(/^package\//gm, '')
      .trim()
      .split('\n');
    return { tarball: join(release, name), paths };
  });
  // No keys, no data, no tests and no source maps.
  const stray = /(^|\/)(data(-example)?|secrets|test)\/|^node_modules\/|\.(map|env|pem)$|\.built-from$/;
  expect(packed.flatMap(({ paths }) => paths.filter((path) => stray.test(path)))).toEqual([]);
  const wanted = ['dist/src/cli.js', 'dist/console/index.html', 'dist/tracing/sdk.mjs', 'docs/http.md', 'README.md'];
  expect(packed[0]!.paths).toEqual(
    expect.arrayContaining([...wanted, 'npm-shrinkwrap.json', 'dist/node_modules/LICENSES.txt']),
  );
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  execute('npm', ['install', ...OPTIONS, ...packed.map(({ tarball }) => tarball)]);

  expect(sizeOnDisk(join(folder, 'node_modules'))).toBeLessThan(MAX_MB);

  expect(execute('npx', ['credence', '--version'])).toBe(`${VERSION}\n`);
  const service = spawnInstalledServer(folder);
  try {
    let output = '';
    for await (const chunk of service.stdout!.setEncoding('utf8')) {
      output += String(chunk);
      if (output.includes('\nDocumentation: ')) break;
    }
    const [, url] = /^Credence serves (\S+) from (\S+)/.exec(output)!;
    writeFileSync(join(folder, 'program.js'), PROGRAM);
    expect(JSON.parse(execute('node', ['program.js', url!]))).toEqual([expect.any(Number), true, 'function']);
    for (const page of ['/console', '/docs']) expect((await fetch(`${url}${page}`)).status).toBe(200);
    expect((await fetch(`${url}/v1/disc/score/tris:otc:905`)).status).toBe(200);
    expect([existsSync(join(folder, 'data-example/log')), existsSync(join(folder, 'data'))]).toEqual([true, false]);
  } finally {
    process.kill(-service.pid!, 'SIGTERM');
    // npx ends before the service does.
    await eventually(() => !isGroupAlive(service.pid!), 'the service has ended');
  }
}, 900_000);

test('the unpacked service has exactly the packages that were tested', () => {
  execute('tar', ['-xzf', join(release, `credence-${VERSION}.tgz`)]);
  const unpacked = join(folder, 'package');
  execute('npm', ['ci', '--omit=dev', ...OPTIONS], unpacked);
  expect(execute('node', ['dist/src/cli.js', '--version'], unpacked)).toBe(`${VERSION}\n`);
  expect(sizeOnDisk(unpacked)).toBeLessThan(MAX_MB);
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8'));
  const { packages: installed } = JSON.parse(readFileSync(join(unpacked, 'node_modules/.package-lock.json'), 'utf8'));
  const versions = Object.entries<{ version: string }>(installed).map(([path, { version }]) => [path, version]);
  expect(versions.length).toBeGreaterThan(100);
  expect(versions).toEqual(versions.map(([path]) => [path, packages[path!]?.version]));
}, 300_000);

test.each(
  longCases<[string, string[]]>(
    [['pnpm', ['pnpm@10', '--store-dir', '.store', 'add']]],
    [['yarn', ['@yarnpkg/cli-dist@4', 'add']]],
  ),
)(
  '%s installs the service',
  (name, command) => {
    const own = join(folder, name);
    mkdirSync(own);
    writeFileSync(join(own, 'package.json'), '{"name":"own","version":"1.0.0"}');
    // A project of its own, with a folder of packages.
    writeFileSync(join(own, 'yarn.lock'), '');
    writeFileSync(
      join(own, '.yarnrc.yml'),
      'nodeLinker: node-modules\nenableTelemetry: false\nenableGlobalCache: false\n',
    );
    const tarball = `credence@file:${join(release, `credence-${VERSION}.tgz`)}`;
    execute('npx', ['--yes', ...command, tarball], own);
    expect(execute(join(own, 'node_modules/.bin/credence'), ['--version'], own)).toBe(`${VERSION}\n`);
  },
  300_000,
);
