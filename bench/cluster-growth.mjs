import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig } from '../dist/src/kernel/config.js';
import { closeStores, openProfile } from '../dist/src/stores/open.js';
import { appliedIn, bytesOfRows, withCluster } from './cluster.mjs';
import { commandLine } from './command-line.mjs';
import { ROOT, count, groupMemory, startServer } from './measure.mjs';
import { fill } from './population.mjs';
import { replaceTable } from './report.mjs';

const USAGE = `npm run bench:cluster-growth -- [--max 1000000] [--out docs/scale.md]
What the processes of a cluster take while its log grows to 100,000 events and ten times as many up to --max, ten for
each identity: one process with both roles applies them as they come. Its own servers; EventStoreDB writes to the disk.
10,000,000 events take half an hour on two cores, and longer beside other work.`;
const { values: options } = commandLine(USAGE, {
  max: { type: 'string', default: '1000000' },
  out: { type: 'string' },
});
const SERVICE = join(ROOT, 'dist/src/main.js');
const ACTIONS_EACH = 5;
const EVENTS_EACH = 2 * ACTIONS_EACH;
/** How often the memory is read. */
const LOOK_MS = 1_000;
/** How often what is under way is told. */
const TELL_MS = 30_000;

/** Fills the log up to a size, and waits until the service has applied it. @returns the most memory meanwhile, by process */
async function grow(stores, from, to, pids) {
  const most = {};
  const look = async () => {
    for (const [name, pid] of Object.entries(pids)) most[name] = Math.max(most[name] ?? 0, await groupMemory(pid));
  };
  const ending = new AbortController();
  const started = performance.now();
  const watching = (async () => {
    for (let told = started; !ending.signal.aborted; await sleep(LOOK_MS)) {
      await look();
      if (performance.now() - told < TELL_MS) continue;
      told = performance.now();
      const seconds = (told - started) / 1000;
      const isBehind = (await appliedIn(stores.readModels)) < (await stores.eventStore.head());
      const memory = Object.entries(most).map(([name, mb]) => `${name} ${mb.toFixed(0)}`);
      console.error(`  ${seconds.toFixed(0)} s${isBehind ? ', not all applied' : ''}; MB: ${memory.join(', ')}`);
    }
  })();
  await fill(stores, (to - from) / EVENTS_EACH, ACTIONS_EACH, from / EVENTS_EACH);
  while ((await appliedIn(stores.readModels)) < (await stores.eventStore.head())) await sleep(LOOK_MS);
  const seconds = (performance.now() - started) / 1000;
  ending.abort();
  await watching;
  return { size: to, rate: (to - from) / seconds, most };
}

await withCluster(
  async (env, _key, servers) => {
    const service = await startServer(SERVICE, env);
    const stores = await openProfile(loadConfig(env), Date.now);
    const pids = {
      service: service.pid,
      EventStoreDB: servers.eventStored,
      PostgreSQL: servers.postgres,
      Redis: servers.redis,
    };
    const points = [];
    for (let [from, to] = [0, 100_000]; to <= Number(options.max); [from, to] = [to, to * 10]) {
      const point = await grow(stores, from, to, pids);
      point.bytes = (await bytesOfRows(stores.readModels)) / to;
      points.push(point);
      console.log(JSON.stringify(point));
    }
    await closeStores(stores);
    await service.stop();
    const row = (what, cell) => [what, ...points.map(cell)];
    const all = ({ most }) => Object.values(most).reduce((sum, mb) => sum + mb, 0);
    const rows = [
      row('what', ({ size }) => count(size)),
      row('---', () => '---'),
      ...Object.keys(pids).map((name) => row(`most memory of ${name}, MB`, ({ most }) => count(most[name]))),
      row('together, MB', (point) => count(all(point))),
      row('events recorded and applied a second', ({ rate }) => count(rate)),
      row('bytes of an event in PostgreSQL', ({ bytes }) => bytes.toFixed(0)),
    ];
    const table = rows.map((cells) => `| ${cells.join(' | ')} |`);
    console.log(table.join('\n'));
    if (options.out) await replaceTable(options.out, '## Measured', table, 'one run');
  },
  { isOnDisk: true },
);
