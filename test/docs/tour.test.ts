import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Server } from '../e2e/server.js';
import { blocks, read, section } from './markdown.js';
import { follow } from './tour.js';

/** README.md and docs/tour.md: their commands give the answers that stand below them. */

test('every command of the first minute, and then of the tour, returns the answer documented below it', async () => {
  const minute = section(read('README.md'), 'One minute');
  expect(blocks(minute)[0]!.text).toBe('npm start -- --example\n');
  expect(await follow(`${minute}\n${read('docs/tour.md')}`)).toBeGreaterThan(13);
});

test('the tour can be taken without the first minute', async () => {
  expect(await follow(read('docs/tour.md'))).toBeGreaterThan(10);
});

test('the proof can be checked as the tour says, which leaves no files', async () => {
  const all = blocks(read('docs/tour.md'));
  const at = all.findIndex(({ language }) => language === 'text');
  const server = await Server.start();
  const folder = mkdtempSync(join(tmpdir(), 'credence-tour-'));
  try {
    const relayed = await server.relay({ tris_id: 'tris:bob' });
    await server.getAfter(relayed, '/v1/disc/score/tris:bob');
    const get = `get() { node -e 'fetch(process.argv[1]).then((it) => it.text()).then(console.log)' "${server.url}$1"; }`;
    const script = `${get}\n${all[at - 1]!.text}`;
    expect(execFileSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8' })).toBe(all[at]!.text);
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
    await server.end();
  }
});
