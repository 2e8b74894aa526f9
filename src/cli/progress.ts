import type { Writable } from 'node:stream';
import type { RecordedEvent } from '../kernel/event.js';
import { Presets, SingleBar } from 'cli-progress';

const QUIET_MS = 1_000;
const LINE_EVERY_MS = 3_000;

type Output = Writable & { isTTY?: boolean };
/** Tells how much of the work is done. The number of all can be an estimate. @param part begins anew, with this label */
export type Update = (done: number, total: number, part?: string) => void;

/**
 * Shows the progress of work: nothing in the first second, then a bar on a terminal or plain lines elsewhere.
 * @param label the activity, such as "Reading"
 * @param unit what is counted, in the plural
 */
export async function showProgress<T>(
  label: string,
  unit: string,
  output: Output,
  work: (update: Update) => Promise<T>,
): Promise<T> {
  let shown: { label: string; nextLine: number; started?: number; bar?: SingleBar } = { label, nextLine: 0 };
  const update: Update = (done, expected, part = label) => {
    if (part !== shown.label) {
      shown.bar?.stop();
      shown = { label: part, nextLine: 0 };
    }
    const total = Math.max(done, expected);
    const now = performance.now();
    const started = (shown.started ??= now);
    if (now - started < QUIET_MS) return;
    const rate = (1000 * done) / (now - started);
    const payload = { rate: count(rate), left: duration(rate > 0 ? (total - done) / rate : Infinity) };
    if (output.isTTY) {
      if (!shown.bar) {
        shown.bar = newBar(shown.label, unit, output);
        shown.bar.start(total, done, payload);
      }
      shown.bar.setTotal(total);
      shown.bar.update(done, payload);
    } else if (now >= shown.nextLine) {
      shown.nextLine = now + LINE_EVERY_MS;
      const percent = total > 0 ? Math.floor((100 * done) / total) : 100;
      const sums = `${count(done)} of ${count(total)} ${unit} (${percent}%), ${payload.rate}/s, ${payload.left} left`;
      output.write(`${shown.label}: ${sums}\n`);
    }
  };
  try {
    return await work(update);
  } finally {
    shown.bar?.stop();
  }
}

function newBar(label: string, unit: string, output: Writable): SingleBar {
  const options = {
    format: `${label} {bar} {percentage}% | {value}/{total} ${unit} | {rate}/s | {left} left`,
    clearOnComplete: true,
    stream: output as NodeJS.WritableStream,
    // Its handler of signals ends the process, which may be a server.
    gracefulExit: output === process.stderr,
  };
  return new SingleBar(options, Presets.shades_classic);
}

/** A whole number with thousands separators. */
export function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

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
