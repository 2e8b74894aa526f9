import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { keyOf } from './http.mjs';
import { ROOT, inTemporaryFolder, interleave, load, startServer } from './measure.mjs';

/** An import that a running server carries out, beside one that owns the folder, and what it costs other clients. */

const SERVER = join(ROOT, 'dist/src/main.js');
const CLI = join(ROOT, 'dist/src/cli.js');
const LOOK_UPS = { connections: 4, overallRate: 400 };

/** @returns lines/s with and without a server, and the p99 of look-ups in ms while it imports and in quiet */
export async function importAtServer(rounds, lines) {
  return inTemporaryFolder(async (folder) => {
    let files = 0;
    const fileOf = async () => {
      const path = join(folder, `${++files}.ndjson`);
      const line = (n) =>
        JSON.stringify({
          tris_id: `tris:identity-${n % 5_000}`,
          action_type: 'loan_repayment',
          category: 'finance',
          criticality: 'High',
          platform_id: 'lender',
          external_id: `${files}-${n}`,
        });
      await writeFile(path, Array.from({ length: lines }, (_, n) => `${line(n)}\n`).join(''));
      return path;
    };
    const [alone, served] = ['alone', 'served'].map((name) => join(folder, name));
    await imported(alone, await fileOf());
    await imported(served, await fileOf());
    const server = await startServer(SERVER, { CREDENCE_DATA: served });
    const waits = { quiet: [], importing: [] };
    const url = `${server.url}/api/disc-score/tris:identity-1`;
    const headers = { 'x-api-key': keyOf(served) };
    try {
      const rates = await interleave(rounds, {
        alone: async () => imported(alone, await fileOf()),
        served: async () => imported(served, await fileOf()),
        // Apart, since the clients take part of the processors.
        loaded: async () => {
          waits.quiet.push((await load({ url, headers, seconds: 3, ...LOOK_UPS })).p99);
          const file = await fileOf();
          const clients = load({ url, headers, seconds: 3, ...LOOK_UPS });
          const rate = await imported(served, file);
          waits.importing.push((await clients).p99);
          return rate;
        },
      });
      const middle = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
      return { rates, p99: { quiet: middle(waits.quiet), importing: middle(waits.importing) } };
    } finally {
      await server.stop();
    }
  });
}

/** @returns lines/s of the whole command, from its start to its end */
async function imported(data, file) {
  const started = performance.now();
  const child = spawn(process.execPath, [CLI, 'import', file, '--json'], {
    env: { PATH: process.env.PATH, CREDENCE_DATA: data },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  const code = await new Promise((ended) => child.once('close', ended));
  if (code !== 0) throw new Error(`import ended with ${code}`);
  return (1000 * JSON.parse(output).recorded) / (performance.now() - started);
}
