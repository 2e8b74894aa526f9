import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import autocannon from 'autocannon';

/** What every benchmark shares: interleaved rounds, medians, temporary folders, child processes, load over HTTP. */

export const ROOT = join(import.meta.dirname, '..');

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

/**
 * Runs every contestant once per round, in turn, so that what disturbs the machine disturbs all of them; returns the
 * median of each.
 * @param {Record<string, () => Promise<number>>} contestants each returns its figure of one round
 */
export async function interleave(rounds, contestants) {
  const figures = Object.fromEntries(Object.keys(contestants).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, run] of Object.entries(contestants)) figures[name].push(await run());
  }
  return Object.fromEntries(Object.entries(figures).map(([name, values]) => [name, median(values)]));
}

export async function inTemporaryFolder(work) {
  const folder = await mkdtemp(join(tmpdir(), 'credence-bench-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Starts a Node script, as `npm start` does, that prints `... http://host:port ...`, and returns its address.
 * @param options of Node
 */
export async function startServer(script, env = {}, options = []) {
  const child = spawn(process.execPath, ['--max-semi-space-size=32', ...options, script], {
    env: {
      PATH: process.env.PATH,
      CREDENCE_RATE_LIMIT: '1000000000',
      CREDENCE_PORT: '0',
      CREDENCE_LOG_LEVEL: 'error',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await new Promise((found, failed) => {
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
      const match = /(http:\/\/[\d.]+:\d+)/.exec(output);
      if (match) found(match[1]);
    });
    child.on('exit', (code) => failed(new Error(`${script} ended with ${code}: ${output}`)));
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  return { url, pid: child.pid, stop };
}

/** Requests, their number per second, and p99 in ms; every answer must be 2xx, but for `refusals` of a thousand. */
export async function load({ url, connections, seconds, refusals = 0, ...request }) {
  const result = await autocannon({ url, connections, duration: seconds, ...request });
  const { non2xx, errors, '2xx': answered } = result;
  if (answered === 0 || non2xx * 1000 > refusals * answered || errors > 0) {
    const statuses = JSON.stringify(result.statusCodeStats);
    throw new Error(`${url}: ${answered} answered, ${non2xx} refused, ${errors} errors, ${statuses}`);
  }
  return { requests: answered, rate: result.requests.average, p99: result.latency.p99 };
}

/** Requests that were answered with 2xx, and their number per second; the others are not counted. */
export async function accepted({ url, connections, seconds, ...request }) {
  const result = await autocannon({ url, connections, duration: seconds, ...request });
  if (result.errors > 0) throw new Error(`${url}: ${result.errors} errors`);
  return { requests: result['2xx'], rate: result['2xx'] / result.duration };
}

/** Anonymous resident memory of a process in MB: a scan of a memory-mapped log counts as resident otherwise. */
export async function rssAnon(pid = 'self') {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/RssAnon:\s+(\d+)/.exec(status)[1]) / 1024;
}

/** Processor time of a process with all its threads, in seconds: to the hundredth, as the kernel counts it. */
export const processorTime = (pid) => timeIn(`/proc/${pid}/stat`);

/** The same of its main thread alone. */
export const mainThreadTime = (pid) => timeIn(`/proc/${pid}/task/${pid}/stat`);

/** The same of a process and those that it has started, which are still there. */
export async function groupTime(pid) {
  const times = await Promise.all((await groupOf(pid)).map((each) => processorTime(each).catch(() => 0)));
  // What its ended children have used is in fields 16 and 17 of its own.
  return times.reduce((sum, time) => sum + time, await timeIn(`/proc/${pid}/stat`, 13));
}

/** The ids of a process and of those that it has started, which are still there. */
async function groupOf(pid) {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return [pid, ...children.trim().split(' ').filter(Boolean)];
}

/** Memory in MB of a process and those that it has started, without files. A page that several share counts once. */
export async function groupMemory(pid) {
  const maps = (await groupOf(pid)).map((each) => readFile(`/proc/${each}/smaps_rollup`, 'utf8').catch(() => ''));
  const parts = (await Promise.all(maps)).flatMap((map) => [...map.matchAll(/^Pss_(?:Anon|Shmem):\s+(\d+)/gm)]);
  return parts.reduce((sum, [, kilobytes]) => sum + Number(kilobytes), 0) / 1024;
}

/** @param at the place of the first of two times, which follow each other */
async function timeIn(path, at = 11) {
  const fields = (await readFile(path, 'utf8')).replace(/^.*\) /, '').split(' ');
  return (Number(fields[at]) + Number(fields[at + 1])) / 100;
}

export function machine() {
  const [cpu] = cpus();
  return `${cpus().length} × ${cpu.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${process.platform} ${process.arch}, Node ${process.version}`;
}

export const count = (value) => Math.round(value).toLocaleString('en-US');
