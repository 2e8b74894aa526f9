import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { TRIS, fetchReady, keyOf, relayOptions } from './http.mjs';
import { ROOT, inTemporaryFolder, interleave, load, median, processorTime, startServer } from './measure.mjs';
import { fillLog } from './population.mjs';

/** One process beside several on one port (CREDENCE_PROCESSES): requests per second, and processor time of a request. */

const SECONDS = 3;

/** A process and those that it has started, without threads. */
async function familyOf(pid) {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return [pid, ...children.trim().split(' ').filter(Boolean).map(Number)];
}

/** Processor time of a service in seconds, all of its processes together. */
async function timeOf(pid) {
  const times = await Promise.all((await familyOf(pid)).map(processorTime));
  return times.reduce((sum, time) => sum + time, 0);
}

/** Proportional memory of a service in MB: a page that n of its processes share counts as an n-th for each. */
async function memoryOf(pid) {
  const sizes = (await familyOf(pid)).map(async (one) => {
    const rollup = await readFile(`/proc/${one}/smaps_rollup`, 'utf8');
    return Number(/^Pss_Anon:\s+(\d+)/m.exec(rollup)[1]) / 1024;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/** Lets processes, with all their threads, run on one processor only. */
function pin(pids, processor) {
  for (const pid of pids) execFileSync('taskset', ['-apc', String(processor), String(pid)], { stdio: 'ignore' });
}

/**
 * Reads of one identity over 64 connections and relays over 256, by services of one process and of several.
 * @param isPinned whether the processes of a service share one processor, and the load generator has another
 * @returns for each request: the rates and the processor times in µs; and the anonymous memory of each service in MB
 */
export async function overProcesses(rounds, processes, isPinned = false) {
  const numbers = { one: 1, several: processes };
  const costs = {};
  const memory = {};
  const services = {};
  const asked = {
    reads: ({ url }) => ({ url: `${url}/api/disc-score/${TRIS}`, connections: 64 }),
    relays: ({ url, key }) => ({ ...relayOptions(url, key), connections: 256 }),
  };
  return inTemporaryFolder((data) =>
    inTemporaryFolder(async (other) => {
      const folders = { one: data, several: other };
      try {
        for (const [name, number] of Object.entries(numbers)) {
          const folder = folders[name];
          await fillLog(folder, 1_000, 5);
          const server = await startServer(join(ROOT, 'dist/src/main.js'), {
            CREDENCE_DATA: folder,
            CREDENCE_PROCESSES: String(number),
          });
          services[name] = { ...server, key: keyOf(folder) };
          await fetchReady(`${server.url}/api/disc-score/${TRIS}`);
          if (isPinned) pin(await familyOf(server.pid), 0);
        }
        if (isPinned) pin([process.pid], 1);
        const rates = {};
        for (const [what, request] of Object.entries(asked)) {
          costs[what] = { one: [], several: [] };
          const round = (name) => async () => {
            const before = await timeOf(services[name].pid);
            const started = performance.now();
            const { rate } = await load({ ...request(services[name]), seconds: SECONDS });
            const requests = (rate * (performance.now() - started)) / 1_000;
            costs[what][name].push((((await timeOf(services[name].pid)) - before) * 1e6) / requests);
            return rate;
          };
          const contestants = { one: round('one'), several: round('several') };
          // Until every process has compiled what it runs often.
          await interleave(3, contestants);
          for (const figures of Object.values(costs[what])) figures.length = 0;
          rates[what] = await interleave(rounds, contestants);
        }
        for (const name of Object.keys(numbers)) memory[name] = await memoryOf(services[name].pid);
        const medians = ({ one, several }) => ({ one: median(one), several: median(several) });
        return { rates, costs: { reads: medians(costs.reads), relays: medians(costs.relays) }, memory };
      } finally {
        if (isPinned) pin([process.pid], `0-${cpus().length - 1}`);
        await Promise.all(Object.values(services).map(({ stop }) => stop()));
      }
    }),
  );
}
