import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Server } from '../e2e/server.js';

/** What a newcomer pastes works as it stands. readme.test.ts compares the tables and the answers of README.md. */

const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };

/** Runs a pasted curl line in a shell; the HTTP status and the body. */
async function pasted(line: string): Promise<{ status: number; body: any }> {
  const { stdout } = await promisify(execFile)('bash', ['-c', `${line} -s -w '\\n%{http_code}'`]);
  const [body, status] = stdout.split(/\n(?=\d+$)/) as [string, string];
  return { status: Number(status), body: JSON.parse(body) };
}

test.each(['data', "a folder with it's spaces"])(
  'the lines printed by a server on "%s" run in a shell',
  async (name) => {
    const folder = await mkdtemp(join(tmpdir(), 'credence-readme-'));
    const server = await Server.start({ data: join(folder, name) });
    const lines = server.output
      .join('')
      .split('\n')
      .filter((line) => line.trimStart().startsWith('curl '));
    expect(lines).toHaveLength(3);
    const relayed = await pasted(lines[0]!);
    expect([relayed.status, relayed.body.status]).toEqual([202, 'received']);
    const score = await pasted(lines[1]!);
    expect([score.status, score.body.total_tct]).toEqual([200, 100]);
    const history = await pasted(lines[2]!);
    expect([history.status, history.body.entries.length]).toEqual([200, 1]);
    await server.stop();
    await rm(folder, { recursive: true });
  },
);

test('every npm command of the documents is a script', () => {
  const text = [
    'README.md',
    'examples/README.md',
    'CONTRIBUTING.md',
    'docs/architecture.md',
    'docs/operations.md',
    'docs/runbook.md',
    'docs/generations.md',
    'docs/backup.md',
    'docs/cluster.md',
    'docs/monitoring.md',
    'docs/vouchers.md',
    'docs/wallets.md',
  ]
    .flatMap((file) => {
      try {
        return [readFileSync(file, 'utf8')];
      } catch {
        return []; // not every document is written yet
      }
    })
    .join('\n');
  const commands = [...text.matchAll(/\bnpm (?:run (?:--silent )?)?([a-z][\w:]*)/g)].map(([, name]) => name!);
  for (const name of commands)
    if (!['ci', 'install', 'audit', 'pack'].includes(name)) expect(Object.keys(scripts)).toContain(name);
  expect(commands).toEqual(expect.arrayContaining(['ci', 'start', 'test', 'demo']));
  expect(scripts.start).toMatch(/build\.mjs --console && node \S+ dist\/src\/main\.js$/);
});
