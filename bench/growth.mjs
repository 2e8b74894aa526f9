import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { open } from 'lmdb';
import { ActionLines } from '../dist/src/cli/action-lines.js';
import { recordActions } from '../dist/src/cli/import-actions.js';
import { drop, rebuild } from '../dist/src/read-side/generations.js';
import { LmdbEventStore } from '../dist/src/stores/lmdb/lmdb-event-store.js';
import { closeStores, openStores } from '../dist/src/stores/open.js';
import { chart } from './chart.mjs';
import { commandLine, wrongUsage } from './command-line.mjs';
import { ENVIRONMENT, LOG, inFlight, entryOf, newAppends, rawEntries } from './log.mjs';
import { ROOT, count, inTemporaryFolder, median, rssAnon } from './measure.mjs';
import { fillLog } from './population.mjs';
import { replaceTable } from './report.mjs';

const USAGE = `npm run bench:growth -- append|import|rebuild [--max <events or lines>] [--rounds 3] [--figures <file>]
  [--svg <file>] [--out docs/benchmarks.md]
How the rates of writing, importing and rebuilding change while the log grows, beside a peer in the same run:
  append    one event each to new streams, 256 in flight; --max 200000, in ten parts. Peers: raw puts of the same bytes,
            without and with an index of streams
  import    lines of actions into one log, 50,000 at a time; --max 1000000. Peer: raw puts of the bytes of their events
  rebuild   logs of 100,000 events and ten times as many up to --max 1000000, each in a separate process. Peer: a scan
            of the log that decodes every event
Every part is printed when it is measured, and the chart drawn again. --figures keeps the figures: a rebuild that is
run again continues with the next size.`;
const LINES_AT_A_TIME = 50_000;
/** How often a rebuild reports its progress. */
const TELL_EVERY_MS = 10_000;
/** A shorter log is not divided. */
const DIVIDED_FROM = 120_000;
/** The shares of a build in its progress (src/read-side/build.ts): read and divided, folded, written. */
const PHASES = { read: 0.4, folded: 0.8, written: 1 };

const given = {
  max: { type: 'string' },
  rounds: { type: 'string', default: '3' },
  figures: { type: 'string' },
  svg: { type: 'string' },
  out: { type: 'string' },
  'rebuild-of': { type: 'string' },
};
const { values: options, positionals } = commandLine(USAGE, given, true);

/** Rate per second and processor time of all threads, in µs, of some work on so many items. */
async function measured(items, work) {
  const [started, used] = [performance.now(), process.cpuUsage()];
  await work();
  const { user, system } = process.cpuUsage(used);
  return { rate: (1000 * items) / (performance.now() - started), cpu: (user + system) / items };
}

/** The figures of work that is measured in parts. */
class Total {
  seconds = 0;
  microseconds = 0;

  add(items, { rate, cpu }) {
    this.seconds += items / rate;
    this.microseconds += items * cpu;
  }

  of(items) {
    return { rate: items / this.seconds, cpu: this.microseconds / items };
  }
}

async function appending(most, tell) {
  await inTemporaryFolder(async (folder) => {
    const part = Math.ceil(most / 10);
    let store = await LmdbEventStore.open(join(folder, 'log'));
    const log = open({ ...ENVIRONMENT, ...LOG, path: join(folder, 'raw') });
    const root = open({ ...ENVIRONMENT, path: join(folder, 'indexed') });
    const events = root.openDB({ name: 'log', ...LOG });
    const index = root.openDB({ name: 'index', encoding: 'binary' });
    const position = Buffer.alloc(4);
    try {
      for (let done = 0; done < most; done += part) {
        const figures = {};
        const turn = async (name, prepare, one) => {
          const total = new Total();
          // The events are made beforehand, a part at a time, so that they do not fill the memory.
          for (let from = 0; from < part; from += 20_000) {
            const prepared = prepare(newAppends(Math.min(20_000, part - from)), done + from);
            total.add(prepared.length, await measured(prepared.length, () => inFlight(prepared, one)));
          }
          figures[name] = total.of(part);
        };
        await turn(
          'ours',
          (appends) => appends,
          ({ stream, event }) => store.append(stream, 'no-stream', [event]),
        );
        // Waits until its index is written, which would otherwise slow the peers down.
        await store.close();
        store = await LmdbEventStore.open(join(folder, 'log'));
        await turn('raw lmdb', rawEntries, ({ key, entry }) => log.put(key, entry));
        await turn('raw lmdb with an index', rawEntries, ({ key, entry, stream }) => {
          position.writeUInt32LE(key);
          void index.put([stream, 0], Buffer.from(position));
          return events.put(key, entry);
        });
        await tell({ size: done + part, ...figures, memory: await rssAnon() });
      }
    } finally {
      await Promise.all([store.close(), log.close(), root.close()]);
    }
  });
}

/** A line of an action, deterministic; ten for each identity. */
function line(n, most) {
  return JSON.stringify({
    tris_id: `tris:identity-${(n * 7919) % Math.ceil(most / 10)}`,
    action_type: n % 10 === 9 ? 'trade_flags' : 'loan_repayment',
    category: ['finance', 'social', 'creative'][n % 3],
    criticality: ['minimal', 'low', 'moderate', 'high', 'critical'][n % 5],
    platform_id: `platform-${n % 50}`,
    occurred_at: new Date(1.7e12 + ((n * 31) % 1000) * 43_200_000).toISOString(),
    external_id: `tx-${n}`,
  });
}

async function importing(most, tell) {
  await inTemporaryFolder(async (folder) => {
    const stores = await openStores(join(folder, 'data'), Date.now, { inBulk: true });
    const raw = open({ ...ENVIRONMENT, ...LOG, path: join(folder, 'raw') });
    const file = join(folder, 'actions.ndjson');
    try {
      for (let done = 0; done < most; done += LINES_AT_A_TIME) {
        const lines = Array.from({ length: LINES_AT_A_TIME }, (_, n) => line(done + n, most));
        await writeFile(file, `${lines.join('\n')}\n`);
        const before = await stores.eventStore.head();
        let seconds;
        const ours = await measured(LINES_AT_A_TIME, async () => {
          const actions = new ActionLines(file);
          const { lines: checked } = await actions.check();
          ({ seconds } = await recordActions(stores, actions.read(), checked));
        });
        // The rate of recording, as the command prints it, without the check of the file.
        ours.rate = LINES_AT_A_TIME / seconds;
        const memory = await rssAnon();
        const peer = new Total();
        for await (const slice of stores.eventStore.readAll(before, { sliceSize: 5_000 })) {
          const entries = slice.map((event) => ({ key: event.position, entry: entryOf(event) }));
          peer.add(
            entries.length,
            await measured(entries.length, () => inFlight(entries, (each) => raw.put(each.key, each.entry), 1_024)),
          );
        }
        await tell({ size: done + LINES_AT_A_TIME, ours, 'raw lmdb': peer.of(LINES_AT_A_TIME), memory });
      }
    } finally {
      await raw.close();
      await closeStores(stores);
    }
  });
}

async function rebuilding(most, tell, rounds, known) {
  for (let size = 100_000; size <= most; size *= 10) {
    if (known.some((each) => each.size === size)) continue;
    console.log(`filling a log of ${count(size)} events …`);
    await inTemporaryFolder(async (data) => {
      await fillLog(data, size / 10, 5);
      await tell(JSON.parse(await run(['--rebuild-of', data, '--rounds', String(rounds), '--max', String(size)])));
    });
  }
}

/** In a separate process, whose memory is measured. */
async function rebuildOf(data, size, rounds) {
  const stores = await openStores(data, Date.now);
  const { eventStore, readModels } = stores;
  const events = await eventStore.countAfter(0);
  let [present, memory] = [await rssAnon(), 0];
  const watch = setInterval(async () => {
    present = await rssAnon();
    memory = Math.max(memory, present);
  }, 100);
  const [ours, peer] = [[], []];
  let phases = {};
  for (let round = 0; round < rounds; round++) {
    let built;
    const began = performance.now();
    let told = began;
    const ends = {};
    const onProgress = (done, total) => {
      for (const [phase, share] of Object.entries(PHASES)) {
        if (done >= share * total) ends[phase] ??= (performance.now() - began) / 1000;
      }
      const now = performance.now();
      if (now - told < TELL_EVERY_MS && done < total) return;
      told = now;
      const phase = Object.keys(PHASES).find((each) => ends[each] === undefined) ?? 'done';
      const progress = `${count(done)} of ${count(total)} events, ${count((1000 * done) / (now - began))}/s`;
      console.error(`  ${((now - began) / 1000).toFixed(0)} s, until ${phase}: ${progress}, ${present.toFixed(0)} MB`);
    };
    ours.push(
      await measured(events, async () => {
        built = await rebuild('all', eventStore, readModels, new AbortController().signal, onProgress);
      }),
    );
    phases = events < DIVIDED_FROM ? {} : ends;
    await drop(built.id, readModels);
    peer.push(
      await measured(events, async () => {
        for await (const slice of eventStore.readAll(0, { sliceSize: 5_000 })) void slice.length;
      }),
    );
  }
  clearInterval(watch);
  await closeStores(stores);
  const middle = (all) => ({ rate: median(all.map(({ rate }) => rate)), cpu: median(all.map(({ cpu }) => cpu)) });
  return { size, ours: middle(ours), 'scan + decode': middle(peer), memory, phases };
}

/** This script in a separate process. */
function run(args) {
  const child = spawn(process.execPath, [join(ROOT, 'bench/growth.mjs'), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return new Promise((resolve, reject) => {
    let output = '';
    child.stdout.on('data', (chunk) => (output += chunk));
    child.once('exit', (code) => (code === 0 ? resolve(output) : reject(new Error(`ended with ${code}`))));
  });
}

const BENCHES = {
  append: { of: appending, max: 200_000, unit: 'events', heading: '### Appends', title: 'Durable appends a second' },
  import: { of: importing, max: 1_000_000, unit: 'lines', heading: '### Import', title: 'Imported lines a second' },
  rebuild: { of: rebuilding, max: 1_000_000, unit: 'events', heading: '### Rebuild', title: 'Events rebuilt a second' },
};
const contestantsOf = (points) => Object.keys(points[0]).filter((name) => points[0][name]?.rate !== undefined);

function drawing({ title, unit }, points) {
  const sizes = points.map(({ size }) => size);
  const lines = contestantsOf(points).map((name) => ({
    name,
    points: points.map((each) => [each.size, each[name].rate]),
  }));
  const most = Math.max(...lines.flatMap((each) => each.points.map(([, rate]) => rate)));
  const step = 10 ** Math.floor(Math.log10(most)) / 2;
  const to = Math.ceil(most / step) * step;
  const isLog = sizes.at(-1) >= 10 * sizes[0] && points.length <= 4;
  return chart({
    title: `${title}, by the ${unit} in the log`,
    x: { isLog, from: isLog ? sizes[0] : 0, to: sizes.at(-1), marks: columnsOf(points).map(({ size }) => size) },
    y: { from: 0, to, marks: Array.from({ length: Math.round(to / step) + 1 }, (_, n) => n * step) },
    lines,
  });
}

/** At most five points: the first, the last, and some between. */
function columnsOf(points) {
  const wanted = new Set([0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * (points.length - 1))));
  return points.filter((_, n) => wanted.has(n));
}

function tableOf({ unit }, points) {
  const columns = columnsOf(points);
  const names = contestantsOf(points);
  const [first] = points;
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const row = (what, cell) => [what, ...columns.map(cell)];
  const rows = [
    ...names.map((name) => row(`${name}, ${unit}/s`, (each) => count(each[name].rate))),
    ...names
      .slice(1)
      .map((name) => row(`ours beside ${name}`, (each) => `${(each.ours.rate / each[name].rate).toFixed(2)}×`)),
    row('ours beside the first column', (each) => `${(each.ours.rate / first.ours.rate).toFixed(2)}×`),
    ...names.map((name) => row(`${name}, processor time of each, µs`, (each) => each[name].cpu.toFixed(1))),
    row('anonymous memory, MB', ({ memory }) => memory.toFixed(0)),
  ];
  if (first.phases) {
    const at =
      (phase) =>
      ({ phases }) =>
        phases[phase] === undefined ? '–' : `${phases[phase].toFixed(1)} s`;
    for (const phase of Object.keys(PHASES)) rows.push(row(`${phase} after`, at(phase)));
  }
  const titles = ['what', ...columns.map(({ size }) => count(size))];
  return [titles, titles.map(() => '---'), ...rows].map(line);
}

if (options['rebuild-of'] !== undefined) {
  console.log(JSON.stringify(await rebuildOf(options['rebuild-of'], Number(options.max), Number(options.rounds))));
  process.exit(0);
}
const bench = BENCHES[positionals[0]];
if (!bench) wrongUsage(`Say which: ${Object.keys(BENCHES).join(', ')}.`);
const keeps = positionals[0] === 'rebuild' && options.figures && existsSync(options.figures);
const points = keeps ? JSON.parse(readFileSync(options.figures, 'utf8')) : [];
const tell = async (point) => {
  points.push(point);
  const told = contestantsOf(points).map(
    (name) => `${name} ${count(point[name].rate)}/s, ${point[name].cpu.toFixed(1)} µs`,
  );
  console.log(`${count(point.size).padStart(12)} ${bench.unit}: ${told.join('; ')}; ${point.memory.toFixed(0)} MB`);
  if (options.figures) await writeFile(options.figures, JSON.stringify(points));
  if (options.svg) await writeFile(options.svg, drawing(bench, points));
};
await bench.of(Number(options.max ?? bench.max), tell, Number(options.rounds), points);
console.log(tableOf(bench, points).join('\n'));
if (options.out) {
  const about = positionals[0] === 'rebuild' ? `median of rounds: ${options.rounds}` : 'one run, contestants in turn';
  await replaceTable(options.out, bench.heading, tableOf(bench, points), about);
}
