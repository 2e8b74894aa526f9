/**
 * `npm run bench:files`: which of our files a warm relay, the score look-up after it and another look-up run, and how
 * many functions of each. The projector runs in a separate process, so that what it does after the append is listed by
 * itself. Functions that also run without any request, or not for every request, are left out.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const OURS = /\/dist\/((?:src|projections)\/.+\.js)$/;

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

/** Starts a process of the service. @returns it, with the first line of its output that says this */
async function start(data, role, line) {
  const server = fork(join(import.meta.dirname, '../dist/src/main.js'), {
    execArgv: ['--import', import.meta.url],
    env: { ...process.env, CREDENCE_DATA: data, CREDENCE_PORT: '0', CREDENCE_ROLES: role },
    silent: true,
  });
  let output = '';
  for await (const text of server.stdout.setEncoding('utf8')) {
    output += text;
    const url = line.exec(output)?.[1];
    if (url) return { server, url };
  }
  throw new Error(`the ${role} ended: ${output}`);
}

/** The files of a process, with the functions that ran since the last call. */
async function filesOf(server) {
  const taken = await new Promise((settle) => server.once('message', settle).send('take'));
  return new Map(taken.map(([file, ran]) => [file, ran.map(([name, at]) => `${name} ${at.startOffset}`)]));
}

async function main() {
  const data = mkdtempSync(join(tmpdir(), 'credence-files-'));
  const { server: worker } = await start(data, 'worker', /(http:\S+)/);
  const { server: api, url } = await start(data, 'api', /^Credence serves (\S+)/m);
  const key = readFileSync(join(data, 'dev-api-key'), 'utf8');
  const body = { tris_id: 'tris:warm', action_type: 'repayment', category: 'financial', criticality: 'High' };
  const post = { method: 'POST', headers: { 'x-api-key': key, 'content-type': 'application/json' } };
  const requests = {
    relay: () => fetch(`${url}/api/decision-relay`, { ...post, body: JSON.stringify({ ...body, platform_id: 'app' }) }),
    // Until what the relay has left to a timer is done.
    nothing: () => sleep(1_500),
    'look-up': () => fetch(`${url}/api/disc-score/tris:warm`),
    // The text of the answer is kept: nothing has changed since.
    'look-up again': () => fetch(`${url}/api/disc-score/tris:warm`),
  };
  /** What ran in each process. */
  const during = async (request) => {
    await Promise.all([api, worker].map(filesOf));
    const answer = await request();
    if (answer && !answer.ok) throw new Error(await answer.text());
    await answer?.text();
    await sleep(300);
    return Promise.all([api, worker].map(filesOf));
  };
  const rounds = [];
  for (let n = 0; n < 10; n++) {
    const round = {};
    for (const [name, request] of Object.entries(requests)) round[name] = await during(request);
    rounds.push(round);
  }
  const warm = rounds.slice(-3);
  for (const name of ['relay', 'look-up', 'look-up again']) {
    for (const [n, title] of [name, `${name}, in the projector`].entries()) {
      const idle = new Set(rounds.flatMap(({ nothing }) => [...nothing[n].values()].flat()));
      const others = warm.slice(1).map((round) => round[name][n]);
      const files = [...warm[0][name][n]]
        .map(([file, functions]) => {
          const each = functions.filter((one) => !idle.has(one) && others.every((ran) => ran.get(file)?.includes(one)));
          return [file, each.length];
        })
        .filter(([, functions]) => functions > 0)
        .sort();
      console.log(`\n${title}: ${files.length} files`);
      for (const [file, functions] of files) console.log(`${String(functions).padStart(4)} ${file}`);
    }
  }
  for (const server of [api, worker]) server.kill('SIGTERM');
  await Promise.all([api, worker].map((server) => new Promise((ended) => server.once('exit', ended))));
  rmSync(data, { recursive: true });
}

await (process.send ? report() : main());
