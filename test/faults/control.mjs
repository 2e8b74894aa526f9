import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setImmediate } from 'node:timers/promises';

/**
 * Works for as many milliseconds as it is told, in slices of three between which other work could run, and answers with
 * the longest delay of its event loop meanwhile: what the machine adds to that of any process.
 */
const SLICE_MS = 3;
const LOOK_MS = 10;
const garbage = JSON.stringify(Array.from({ length: 200 }, (_, n) => ({ n, text: `text ${n}` })));

process.on('message', async (ms) => {
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  delay.enable();
  for (const end = performance.now() + ms; performance.now() < end; await setImmediate()) {
    for (const slice = performance.now() + SLICE_MS; performance.now() < slice;) JSON.parse(garbage);
  }
  delay.disable();
  process.send(delay.max / 1e6 - LOOK_MS);
});
