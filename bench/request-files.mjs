/**
 * `npm run bench:files`: which of our files a warm relay, a look-up after it, another look-up and a check of an access
 * policy run, and how many functions of each; and the lines of each folder. The projector is told of what a request has
 * appended once the request has ended, so that what it does is listed by itself. Functions that also run without any
 * request, or not for every request, are left out. What the projector runs is not compared: on a busy machine other work
 * of it falls into a request.
 */
import { fork } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { commandLine } from './command-line.mjs';

const USAGE = `npm run bench:files -- [options]: the lines of each folder, and our functions that requests run, by file;
compared with bench/size.json, so that a growth is seen in review
  --compare   print only what differs, as the check does
  --update    write what was found into bench/size.json`;
const ROOT = join(import.meta.dirname, '..');
const TABLE = join(import.meta.dirname, 'size.json');
const OURS = /\/dist\/((?:src|projections)\/.+\.js)$/;
/** The number of functions of a request may differ by so many: what depends on the time is run by some of them. */
const TOLERANCE = 20;
/** Other work of a busy machine adds functions: if there are more, they are counted again, up to so many times. */
const TRIES = 3;
const PROJECTOR = ', in the projector';
const ROUNDS = 7;
/** The last rounds. What runs in all of them but one counts: other work of a busy machine falls into some. */
const WARM = 5;

/**
 * In the server. A message `take` is answered with how often each function has run since the last one; `hold` keeps
 * appends from subscribers of the log until `release`.
 */
async function report() {
  const { LogReader } = await import('../dist/src/stores/lmdb/log-reader.js');
  const { announce } = LogReader.prototype;
  let held;
  LogReader.prototype.announce = function (events) {
    if (held) held.push(() => announce.call(this, events));
    else announce.call(this, events);
  };
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  process.on('message', async (message) => {
    if (message === 'hold') held = [];
    if (message === 'release') {
      const waiting = held;
      held = undefined;
      for (const tell of waiting) tell();
    }
    if (message !== 'take') return;
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

/** Starts the service. @returns its process and its address */
async function start(data) {
  const server = fork(join(ROOT, 'dist/src/main.js'), {
    execArgv: ['--import', import.meta.url],
    env: { ...process.env, CREDENCE_DATA: data, CREDENCE_PORT: '0' },
    silent: true,
  });
  let output = '';
  for await (const text of server.stdout.setEncoding('utf8')) {
    output += text;
    const [url] = /http:\S+/.exec(output) ?? [];
    if (url) return { server, url };
  }
  throw new Error(`the server ended: ${output}`);
}

/** The functions that ran since the last call, each as `<file> <name> <place>`. */
async function functionsOf(server) {
  const taken = await new Promise((settle) => server.once('message', settle).send('take'));
  return taken.flatMap(([file, ran]) => ran.map(([name, at]) => `${file} ${name} ${at.startOffset}`));
}

/** By request, and by request in the projector: the functions of ours that it runs. */
async function functionsOfRequests() {
  const data = mkdtempSync(join(tmpdir(), 'credence-files-'));
  const { server, url } = await start(data);
  try {
    const rounds = await measured(server, url, readFileSync(join(data, 'dev-api-key'), 'utf8'));
    return Object.fromEntries(
      ['relay', 'look-up', 'look-up again', 'check'].flatMap((name) =>
        [name, name + PROJECTOR].map((title, n) => [title, functionsIn(rounds, name, n)]),
      ),
    );
  } finally {
    const ended = new Promise((settle) => server.once('exit', settle));
    server.kill('SIGTERM');
    await ended;
    rmSync(data, { recursive: true });
  }
}

/** By round and request: what ran before the projector was told of it, and after. */
async function measured(server, url, key) {
  const post = (path, body) => {
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    return fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  };
  const [tris_id, policy_id] = ['tris:warm', 'AP_WARM_V1'];
  const action = { action_type: 'repayment', category: 'financial', criticality: 'High', platform_id: 'app' };
  const requests = {
    check: () => post('/v1/policies/ap/check', { policy_id, subject_tris: tris_id }),
    relay: () => post('/api/decision-relay', { tris_id, ...action }),
    // Until what these have left to a timer is done.
    nothing: () => sleep(1_500),
    'look-up': () => fetch(`${url}/api/disc-score/${tris_id}`),
    // The text of the answer is kept: nothing has changed since.
    'look-up again': () => fetch(`${url}/api/disc-score/${tris_id}`),
  };
  const during = async (request) => {
    server.send('hold');
    await functionsOf(server);
    const answer = await request();
    if (answer && !answer.ok) throw new Error(await answer.text());
    await answer?.text();
    await sleep(300);
    const ran = await functionsOf(server);
    server.send('release');
    await sleep(300);
    return [ran, await functionsOf(server)];
  };
  while (!(await fetch(`${url}/health/ready`)).ok) await sleep(50);
  await during(() => post('/v1/policies/ap', { policy_id, rules: { disc_min: 1 } }));
  const rounds = [];
  for (let n = 0; n < ROUNDS; n++) {
    const round = {};
    for (const [name, request] of Object.entries(requests)) round[name] = await during(request);
    rounds.push(round);
  }
  return rounds;
}

/** The functions that a request runs, before (0) or after (1) the projector is told of it. */
function functionsIn(rounds, name, n) {
  const ranIn = (what, least) => {
    const times = counted(rounds.slice(-WARM).flatMap((round) => round[what][n]));
    return Object.keys(times).filter((one) => times[one] >= least);
  };
  const idle = new Set(ranIn('nothing', WARM / 2));
  return ranIn(name, WARM - 1).filter((one) => !idle.has(one));
}

/** `src/features/<name>` and `src/stores/<name>` are folders of their own, as are the other folders of `src`. */
const folderOf = (file) => /^(?:src\/(?:features|stores)\/[^/]+|src\/[^/]+|[^/]+)(?=\/)/.exec(file)[0];

/** By folder: the lines of its files. */
function linesOfFolders() {
  return counted(
    ['projections', 'src'].flatMap((top) =>
      readdirSync(join(ROOT, top), { recursive: true })
        .map((name) => `${top}/${name}`)
        .filter((file) => /\.(ts|mjs)$/.test(file))
        .flatMap((file) => Array(readFileSync(join(ROOT, file), 'utf8').split('\n').length - 1).fill(folderOf(file))),
    ),
  );
}

/** How often each name is there, by name. */
function counted(names) {
  const numbers = {};
  for (const name of names.sort()) numbers[name] = (numbers[name] ?? 0) + 1;
  return numbers;
}

/** What differs by more than this, as lines of text. */
function differences(known, found, what, tolerance) {
  return [...new Set([...Object.keys(known), ...Object.keys(found)])].flatMap((name) => {
    const [before = 0, now = 0] = [known[name], found[name]];
    return Math.abs(now - before) > tolerance ? [`${name}: ${now} ${what}, not ${before}`] : [];
  });
}

async function main() {
  const { values: options } = commandLine(USAGE, { compare: { type: 'boolean' }, update: { type: 'boolean' } });
  const known = JSON.parse(readFileSync(TABLE, 'utf8'));
  let requests;
  let found;
  let different;
  for (let tries = 0; tries < TRIES; tries++) {
    requests = await functionsOfRequests();
    const compared = Object.entries(requests).filter(([title]) => !title.endsWith(PROJECTOR));
    const functions = Object.fromEntries(compared.map(([title, ran]) => [title, ran.length]));
    found = { lines: linesOfFolders(), functions };
    different = differences(known.functions, functions, 'functions', TOLERANCE);
    if (different.length === 0) break;
  }
  if (!options.compare) {
    for (const [title, ran] of Object.entries(requests)) {
      if (ran.length === 0) continue;
      const files = Object.entries(counted(ran.map((one) => one.split(' ')[0])));
      console.log(`\n${title}: ${ran.length} functions in ${files.length} files`);
      for (const [file, functions] of files) console.log(`${String(functions).padStart(4)} ${file}`);
    }
    const total = Object.values(found.lines).reduce((sum, lines) => sum + lines, 0);
    console.log(`\n${total} lines`);
    for (const [folder, lines] of Object.entries(found.lines)) console.log(`${String(lines).padStart(6)} ${folder}`);
  }
  if (options.update) return writeFileSync(TABLE, `${JSON.stringify(found, null, 2)}\n`);
  different.unshift(...differences(known.lines, found.lines, 'lines', 0));
  if (different.length === 0) return;
  console.log(`\n${different.join('\n')}\nIf this is meant: npm run bench:files -- --update`);
  process.exitCode = 1;
}

await (process.send ? report() : main());
