/**
 * `npm run bench:files`: which of our files a warm relay and a warm score look-up run, and how many functions of each.
 * The list of docs/request-path.md is made with it. What the projector does after the append is listed by itself, and
 * what runs without any request is left out.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const OURS = /\/dist\/((?:src|projections)\/.+\.js)$/;
const AFTERWARDS = /^(?:projections\/|src\/serve\.js|src\/read-side\/(?:fold|follower|projector|lease)\.js)/;

/** In the server: how often each function has run since the last message. */
async function report() {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  process.on('message', async () => {
    const { result } = await session.post('Profiler.takePreciseCoverage');
    process.send(
      result.flatMap(({ url, functions }) => {
        const [, file] = OURS.exec(url) ?? [];
        const ran = functions.filter(({ ranges }) => ranges[0].count > 0);
        return file && ran.length > 0 ? [[file, ran.map(({ functionName, ranges }) => [functionName, ranges[0]])]] : [];
      }),
    );
  });
}

async function main() {
  const data = mkdtempSync(join(tmpdir(), 'credence-files-'));
  const server = fork(join(import.meta.dirname, '../dist/src/main.js'), {
    execArgv: ['--import', import.meta.url],
    env: { ...process.env, CREDENCE_DATA: data, CREDENCE_PORT: '0' },
    silent: true,
  });
  let output = '';
  let url;
  for await (const text of server.stdout.setEncoding('utf8')) {
    output += text;
    if ((url = /^Credence serves (\S+)/m.exec(output)?.[1])) break;
  }
  const key = readFileSync(join(data, 'dev-api-key'), 'utf8');
  const body = { tris_id: 'tris:warm', action_type: 'repayment', category: 'financial', criticality: 'High' };
  const post = { method: 'POST', headers: { 'x-api-key': key, 'content-type': 'application/json' } };
  const requests = {
    relay: () => fetch(`${url}/api/decision-relay`, { ...post, body: JSON.stringify({ ...body, platform_id: 'app' }) }),
    'look-up': () => fetch(`${url}/api/disc-score/tris:warm`),
    nothing: async () => undefined,
  };
  /** Files with the names of their functions that ran. */
  const during = async (request) => {
    const taken = () => new Promise((settle) => server.once('message', settle).send('take'));
    await taken();
    const answer = await request();
    if (answer && !answer.ok) throw new Error(await answer.text());
    await answer?.text();
    await sleep(300);
    return new Map((await taken()).map(([file, ran]) => [file, ran.map(([name, at]) => `${name} ${at.startOffset}`)]));
  };
  for (let n = 0; n < 5; n++) for (const request of Object.values(requests)) await during(request);

  const idle = new Set([...(await during(requests.nothing))].flatMap(([, ran]) => ran));
  for (const name of ['relay', 'look-up']) {
    const files = [...(await during(requests[name]))]
      .map(([file, ran]) => [file, ran.filter((one) => !idle.has(one)).length])
      .filter(([, functions]) => functions > 0)
      .sort();
    for (const [title, some] of [
      [name, files.filter(([file]) => !AFTERWARDS.test(file))],
      [`${name}, afterwards`, files.filter(([file]) => AFTERWARDS.test(file))],
    ]) {
      console.log(`\n${title}: ${some.length} files`);
      for (const [file, functions] of some) console.log(`${String(functions).padStart(4)} ${file}`);
    }
  }
  server.kill('SIGTERM');
  rmSync(data, { recursive: true });
}

await (process.send ? report() : main());
