import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { commandLine } from './command-line.mjs';
import { ROOT, count, inTemporaryFolder, machine, median, startServer } from './measure.mjs';

const USAGE = `npm run bench:console -- [--only view,interactions,memory] [--minutes 10] [--tries 10]
What the console takes in a Chromium on this machine, beside the service.

view: from the request for the page, with an empty cache, to the first frame with the score and 1,000 events.
interactions: from a key or a click to the next paint (Event Timing), in the view of 50,000 events, in a draft with 100
inputs and in the live feed; and the longest frame while 50,000 events are loaded, and while they are moved through.
memory: the JavaScript heap of the live view after a collection, while changes arrive.`;

const { chromium } = createRequire(join(ROOT, 'test/package.json'))('playwright-core');
const SMALL = { tris_id: 'tris:small', events: 1_000 };
const LARGE = { tris_id: 'tris:large', events: 50_000 };
const CATEGORIES = ['financial', 'creative', 'educational', 'behavioral', 'social', 'security', 'compliance'];
const DAY_MS = 86_400_000;
const CHANGES_PER_SECOND = 20;
const LOOK_MS = 15_000;

const action = (tris_id, n, of) => ({
  tris_id,
  action_type: n % 20 === 19 ? 'misdeed_flags' : `kind_${n % 17}`,
  category: CATEGORIES[n % CATEGORIES.length],
  criticality: ['minimal', 'low', 'moderate', 'high', 'critical'][n % 5],
  platform_id: `platform-${n % 20}`,
  occurred_at: new Date(Date.now() - DAY_MS * (1 + (1_000 * Math.max(0, of - n)) / of)).toISOString(),
});

async function fill(data) {
  const env = { ...process.env, CREDENCE_DATA: data };
  const child = spawn(process.execPath, [join(ROOT, 'dist/src/cli.js'), 'import', '-'], {
    env,
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  for (const { tris_id, events } of [SMALL, LARGE]) {
    for (let n = 0; n < events; n++) child.stdin.write(`${JSON.stringify(action(tris_id, n, events))}\n`);
  }
  child.stdin.end();
  const code = await new Promise((resolve) => child.once('exit', resolve));
  if (code !== 0) throw new Error(`the import ended with ${code}`);
}

/** A new tab, with nothing cached. */
async function open(browser, { url, key }) {
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(`sessionStorage.setItem('credence-key', ${JSON.stringify(key)});${WATCH}`);
  return { page, goTo: (hash) => page.goto(`${url}/console${hash}`), close: () => context.close() };
}

/** Milliseconds since the page was asked for, at the first frame that shows both. */
async function firstView(browser, server) {
  const { page, goTo, close } = await open(browser, server);
  await goTo(`#/identity/${SMALL.tris_id}`);
  const shown = await page.waitForFunction(
    (text) =>
      document.querySelector('[data-testid=score]') !== null &&
      document.querySelector('.plot canvas') !== null &&
      document.body.innerText.includes(text) &&
      performance.now(),
    `${count(SMALL.events)} events.`,
    { polling: 'raf' },
  );
  const time = await shown.jsonValue();
  await close();
  return time;
}

/** Makes the page keep the longest event of each interaction, and the longest frame. */
const WATCH = `
  window.interactions = new Map();
  window.longestFrame = 0;
  new PerformanceObserver((list) => {
    for (const { interactionId, duration } of list.getEntries()) {
      if (interactionId > 0) interactions.set(interactionId, Math.max(duration, interactions.get(interactionId) ?? 0));
    }
  }).observe({ type: 'event', durationThreshold: 16 });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) longestFrame = Math.max(longestFrame, duration);
  }).observe({ type: 'long-animation-frame' });`;

/** @returns {Promise<{times: number[], frame: number}>} ms; interactions under 16 ms are not reported one by one, and count as 16 */
async function interact(page, number, interaction) {
  await page.evaluate('interactions.clear(), (longestFrame = 0)');
  for (let n = 0; n < number; n++) {
    await interaction(n);
    // An interaction of a user comes after the last one was painted.
    await page.evaluate('new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)))');
  }
  const { durations, frame } = await page.evaluate('({ durations: [...interactions.values()], frame: longestFrame })');
  return { times: [...durations, ...Array(Math.max(0, number - durations.length)).fill(16)], frame };
}

async function interactions(browser, server) {
  const { page, goTo, close } = await open(browser, server);
  const measured = {};
  await goTo(`#/identity/${LARGE.tris_id}`);
  // The start of the page is measured with the first view.
  await page.getByText(/events loaded/).waitFor();
  await page.evaluate('longestFrame = 0');
  await page.getByText(`${count(LARGE.events)} events.`).waitFor({ timeout: 300_000 });
  await page.waitForLoadState('networkidle');
  const loading = await page.evaluate('longestFrame');
  await page.getByRole('slider', { name: /^Score over time/ }).focus();
  const keys = ['End', 'ArrowLeft', '+', 'ArrowLeft', '+', 'PageUp', '+', 'ArrowRight', '-', 'Enter', '-', '-'];
  const large = await interact(page, 10 * keys.length, (n) => page.keyboard.press(keys[n % keys.length]));
  measured['50,000 events'] = large.times;
  await page.getByRole('link', { name: 'Events', exact: true }).click();
  const rows = await interact(page, 20, () => page.getByRole('button', { name: 'Earlier' }).click());
  measured['50,000 events, rows'] = rows.times;

  await goTo('#/lab/draft');
  const inputs = Array.from({ length: 100 }, (_, n) => ({
    metric: `social_${n}`,
    criticality: 'Minimal',
    weight: 0.01,
  }));
  const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
  const draft = JSON.stringify({ policy_id: 'VP_BENCH_V1', tris_org: 'tris:bench', inputs, metadata });
  await page.getByLabel('The policy as JSON').fill(draft);
  await page.getByLabel('Metric 50', { exact: true }).focus();
  measured['a draft with 100 inputs'] = (await interact(page, 60, () => page.keyboard.press('x'))).times;

  await goTo('#/live');
  await page.getByText(/followed live/).waitFor();
  await page.getByLabel('TRIS id contains').focus();
  measured['the filter of the live view'] = (
    await interact(page, 60, (n) => page.keyboard.press(n % 2 ? 'Backspace' : 's'))
  ).times;
  await close();
  return { measured, frames: { 'is loaded': loading, 'is used': Math.max(large.frame, rows.frame) } };
}

/** @returns {Promise<number[]>} MB, every 15 seconds */
async function memory(browser, server, minutes) {
  const { page, goTo, close } = await open(browser, server);
  const devtools = await page.context().newCDPSession(page);
  await goTo('#/live');
  await page.getByText(/followed live/).waitFor();
  const end = Date.now() + minutes * 60_000;
  const headers = { 'content-type': 'application/json', 'x-api-key': server.key };
  const feeding = (async () => {
    for (let n = 0; Date.now() < end; n++) {
      const body = JSON.stringify({ ...action(`tris:live-${n % 5_000}`, n, 1), occurred_at: undefined });
      const { status } = await fetch(`${server.url}/api/decision-relay`, { method: 'POST', headers, body });
      if (status !== 202) throw new Error(`a relay was answered with ${status}`);
      await sleep(1_000 / CHANGES_PER_SECOND);
    }
  })();
  const heaps = [];
  while (Date.now() < end) {
    await sleep(Math.min(LOOK_MS, Math.max(0, end - Date.now())));
    await devtools.send('HeapProfiler.collectGarbage');
    const { usedSize } = await devtools.send('Runtime.getHeapUsage');
    heaps.push(usedSize / 2 ** 20);
  }
  await feeding;
  console.log(await page.locator('p[role=status]').innerText());
  await close();
  return heaps;
}

const quantile = (values, share) => [...values].sort((a, b) => a - b)[Math.ceil(share * values.length) - 1];

const { values: given } = commandLine(USAGE, {
  only: { type: 'string', default: 'view,interactions,memory' },
  minutes: { type: 'string', default: '10' },
  tries: { type: 'string', default: '10' },
});
const only = given.only.split(',');
console.log(`${machine()}, load ${loadavg()[0].toFixed(1)}`);
await inTemporaryFolder(async (folder) => {
  const data = join(folder, 'data');
  await fill(data);
  const { url, stop } = await startServer(join(ROOT, 'dist/src/main.js'), { CREDENCE_DATA: data });
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    const server = { url, key: await readFile(join(data, 'dev-api-key'), 'utf8') };
    if (only.includes('view')) {
      const times = [];
      for (let n = 0; n < Number(given.tries); n++) times.push(await firstView(browser, server));
      console.log(`first view of 1,000 events: ${count(median(times))} ms, at most ${count(Math.max(...times))} ms`);
    }
    if (only.includes('interactions')) {
      const { measured, frames } = await interactions(browser, server);
      for (const [name, times] of Object.entries({ ...measured, all: Object.values(measured).flat() })) {
        console.log(
          `${name}: ${times.length} interactions, p95 ${quantile(times, 0.95)} ms, at most ${Math.max(...times)} ms`,
        );
      }
      for (const [when, frame] of Object.entries(frames)) {
        console.log(
          `longest frame while an identity with 50,000 events ${when}: ${frame === 0 ? 'under 50' : count(frame)} ms`,
        );
      }
    }
    if (only.includes('memory')) {
      const heaps = await memory(browser, server, Number(given.minutes));
      const [first, last] = [heaps[0], heaps.at(-1)];
      console.log(`live feed: ${first.toFixed(1)} MB first, ${last.toFixed(1)} MB after ${given.minutes} minutes`);
      console.log(heaps.map((heap) => heap.toFixed(1)).join(' '));
    }
  } finally {
    await browser.close();
    await stop();
  }
});
