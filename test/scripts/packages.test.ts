import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { spawnInstalledServer } from '../servers/launch.js';

/** Both packages as npm packs them, installed in an empty folder with the dependencies that they declare. */

const folder = mkdtempSync(join(tmpdir(), 'credence-packages-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const execute = (program: string, args: string[], cwd = folder): string =>
  execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

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

test('both packages work in an empty folder, where npx credence serve --example starts the service with its pages', async () => {
  const packed = ['.', 'clients/typescript'].map((from) => {
    const [{ filename, files }] = JSON.parse(execute('npm', ['pack', '--json', '--pack-destination', folder], from));
    return { tarball: join(folder, filename), paths: files.map(({ path }: { path: string }) => path) as string[] };
  });
  // No keys, no data, no tests and no source maps.
  const stray = /(^|\/)(data(-example)?|secrets|test|node_modules)\/|\.(map|env|pem)$|\.built-from$/;
  expect(packed.flatMap(({ paths }) => paths.filter((path) => stray.test(path)))).toEqual([]);
  const wanted = ['dist/src/cli.js', 'dist/console/index.html', 'dist/tracing/sdk.mjs', 'docs/http.md', 'README.md'];
  expect(packed[0]!.paths).toEqual(expect.arrayContaining(wanted));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  execute('npm', ['install', ...options, ...packed.map(({ tarball }) => tarball)]);

  expect(execute('npx', ['credence', '--version'])).toBe(
    `${JSON.parse(readFileSync('package.json', 'utf8')).version}\n`,
  );
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
});
