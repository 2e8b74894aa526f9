import type { Writable } from 'node:stream';
import type { RecordedEvent } from '../kernel/event.js';
import { Presets, SingleBar } from 'cli-progress';

/** Shows progress: nothing in the first second, then a bar on a terminal or plain lines elsewhere. */
export interface Progress {
  update(done: number, total: number): void;
  /** Ends the display. Call it also when the work fails. */
  stop(): void;
}

const QUIET_MS = 1_000;
const LINE_EVERY_MS = 3_000;

/**
 * @param label the activity, such as "Reading"
 * @param unit what is counted, in the plural
 * @param output where it is shown
 */
export function startProgress(label: string, unit: string, output: Writable & { isTTY?: boolean }): Progress {
  const view = output.isTTY ? barView(label, unit, output) : lineView(label, unit, output);
  let started: number | undefined;
  return {
    update(done, expected) {
      // The number of all can be an estimate.
      const total = Math.max(done, expected);
      started ??= performance.now();
      const milliseconds = performance.now() - started;
      if (milliseconds < QUIET_MS) return;
      const rate = (1000 * done) / milliseconds;
      view.show(done, total, rate, rate > 0 ? Math.max(0, total - done) / rate : Infinity);
    },
    stop: view.stop,
  };
}

interface View {
  show(done: number, total: number, rate: number, secondsLeft: number): void;
  stop(): void;
}

function barView(label: string, unit: string, output: Writable): View {
  let bar: SingleBar | undefined;
  return {
    show(done, total, rate, secondsLeft) {
      const payload = { rate: count(rate), left: duration(secondsLeft) };
      if (!bar) {
        const format = `${label} {bar} {percentage}% | {value}/{total} ${unit} | {rate}/s | {left} left`;
        bar = new SingleBar(
          {
            format,
            clearOnComplete: true,
            stream: output as NodeJS.WritableStream,
            // Its handler of signals ends the process, which may be a server.
            gracefulExit: output === process.stderr,
          },
          Presets.shades_classic,
        );
        bar.start(total, done, payload);
      }
      bar.setTotal(total);
      bar.update(done, payload);
    },
    stop: () => bar?.stop(),
  };
}

function lineView(label: string, unit: string, output: Writable): View {
  let next = 0;
  return {
    show(done, total, rate, secondsLeft) {
      if (performance.now() < next) return;
      next = performance.now() + LINE_EVERY_MS;
      const percent = total > 0 ? Math.floor((100 * done) / total) : 100;
      const line = `${label}: ${count(done)} of ${count(total)} ${unit} (${percent}%), ${count(rate)}/s, ${duration(secondsLeft)} left`;
      output.write(`${line}\n`);
    },
    stop: () => undefined,
  };
}

/** A whole number with thousands separators. */
export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** A duration in readable form. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'unknown time';
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** The maximum number of streams named. */
const MAX_HIDDEN = 20;

/** One line about streams that an operator has deleted or truncated in EventStoreDB. */
export function describeHidden(streams: readonly string[]): string {
  const names = streams.slice(0, MAX_HIDDEN).join(', ') + (streams.length > MAX_HIDDEN ? ', …' : '');
  const what =
    'streams that were deleted or truncated in EventStoreDB, whose events scores lack, or will after a scavenge';
  return `HIDDEN: ${what} (${count(streams.length)}): ${names}`;
}

/** One clause about an event that cannot be read. */
export function describeDamage({ position, damage }: RecordedEvent): string {
  const whose = damage!.tris_id === null ? 'about an unknown identity' : `of ${damage!.tris_id}`;
  return `the event at position ${position}, ${whose}, is damaged: ${damage!.reason}`;
}
