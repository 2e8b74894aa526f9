/** Starts the built service on a free port for an example. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../dist/src/main.js', import.meta.url));

/**
 * @param {{ data?: string, env?: Record<string, string> }} options its folder, where it also creates a development key
 *   (default: one that is removed when it stops), and more of its configuration
 * @returns {Promise<{ url: string, key: string, stop: () => Promise<void> }>}
 */
export async function startService({ data, env } = {}) {
  const folder = data ?? mkdtempSync(join(tmpdir(), 'credence-example-'));
  const quiet = { CREDENCE_PORT: '0', CREDENCE_RATE_LIMIT: '0', CREDENCE_LOG_LEVEL: 'error' };
  const all = { PATH: process.env.PATH, CREDENCE_DATA: folder, ...quiet, ...env };
  const server = spawn(process.execPath, [MAIN], { env: all, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(server, 'exit');
  const url = await new Promise((found, failed) => {
    server.stdout.on('data', (chunk) => {
      const [, address] = /serves (http:\S+)/.exec(chunk) ?? [];
      if (address) found(address);
    });
    server.once('exit', (code) => failed(new Error(`the server ended with ${code}`)));
  });
  const stop = async () => {
    server.kill('SIGTERM');
    await ended;
    if (data === undefined) rmSync(folder, { recursive: true });
  };
  return { url, key: readFileSync(join(folder, 'dev-api-key'), 'utf8').trim(), stop };
}
