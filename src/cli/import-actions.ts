import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../kernel/clock.js';
import { type CommandContext, internalActor } from '../commands/context.js';
import { Writer } from '../commands/writer.js';
import { beginLog } from '../features/lenses/new-log.js';
import { Platforms } from '../features/organizations/platforms.js';
import { ActionRecorder } from '../features/relay/relay.handlers.js';
import { Problem } from '../kernel/problems.js';
import type { Stores } from '../stores/open.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import {
  type ActionFile,
  type ActionLine,
  ActionLines,
  BATCH,
  type LineError,
  MAX_DESCRIBED,
  describe,
} from './action-lines.js';

/** Batches in flight: while one is committed, the next ones are made. */
const IN_FLIGHT = 2;

export interface ImportReport {
  /** Lines that are not blank. */
  lines: number;
  /** Invalid lines. If there are any, nothing is written. */
  wrong: number;
  recorded: number;
  already_present: number;
  /** Lines whose external_id was used for another action. */
  conflicts: number;
  /** The first of the wrong lines, or of the conflicts. */
  errors: LineError[];
  /** Time spent writing. */
  seconds: number;
}

/** An action was refused for good. Every line before `line` is in the log. */
export class ImportStopped extends Error {
  override readonly name = 'ImportStopped';

  constructor(
    readonly line: number,
    { recorded }: ImportReport,
    cause: StoreUnavailable | Problem,
  ) {
    const done = `${recorded} lines were recorded by this run, and every line before that one is in the log`;
    const reason = cause instanceof StoreUnavailable ? cause.explanation : cause.message.replace(/\.$/, '');
    super(`Stopped at line ${line}: ${reason}. ${done}; run the command again to continue.`, {
      cause,
    });
  }
}

export interface CheckOptions {
  clock: Clock;
  /** Of the lines. Default: bodies of `POST /api/decision-relay`. */
  format?: ActionFile['format'];
  /** Bytes of the file. */
  onProgress?: (done: number, total: number) => void;
}

/** A file whose lines were all checked: `wrong` and `errors` say what is wrong with them. */
export interface CheckedActions extends Pick<ImportReport, 'lines' | 'wrong' | 'errors'> {
  /** Once, and only if nothing is wrong. At most BATCH lines at a time. @throws FileChanged */
  read(): AsyncIterable<ActionLine[]>;
}

/** The report on lines of which none is recorded. */
export function nothingRecorded({
  lines,
  wrong,
  errors,
}: Pick<ImportReport, 'lines' | 'wrong' | 'errors'>): ImportReport {
  return { lines, wrong, recorded: 0, already_present: 0, conflicts: 0, errors, seconds: 0 };
}

/** Reads and checks the whole NDJSON file. */
export async function checkActions(
  path: string,
  { clock, format = 'relay', onProgress = () => undefined }: CheckOptions,
): Promise<CheckedActions> {
  const { size } = await stat(path);
  const source = new ActionLines({ path, format, now: clock() });
  const checked: CheckedActions = { lines: 0, wrong: 0, errors: [], read: () => source.read() };
  for await (const { lines, wrong, errors, bytesRead } of source.check()) {
    checked.lines += lines;
    checked.wrong += wrong;
    checked.errors.push(...errors);
    onProgress(bytesRead, size);
  }
  return checked;
}

export interface ImportOptions extends Pick<CheckOptions, 'clock' | 'format'>, Pick<RecordOptions, 'waits'> {
  /** First the whole file is checked, in bytes; then its lines are recorded. */
  onProgress?: (phase: 'checking' | 'recording', done: number, total: number) => void;
}

export interface RecordOptions {
  clock: Clock;
  /** Whether to wait for a store that is unavailable or busy, as in the cluster profile. */
  waits?: boolean;
  /** Who imports them; default: a program. */
  actor?: string;
  onProgress?: (lines: number, total: number) => void;
}

/**
 * Records the actions of lines that were all checked. Safe to repeat, also after a crash: a line that was already
 * recorded is recognised by its external_id or, without one, by its content and the number of equal lines before it.
 * @param total number of lines
 * @throws ImportStopped when the log refuses an action for good; what `batches` throws
 */
export async function recordActions(
  stores: Pick<Stores, 'eventStore' | 'keyValue'>,
  batches: AsyncIterable<ActionLine[]>,
  total: number,
  { clock, waits = false, actor = 'cli', onProgress = () => undefined }: RecordOptions,
): Promise<ImportReport> {
  const report = nothingRecorded({ lines: total, wrong: 0, errors: [] });
  await beginLog(stores.eventStore, clock);
  const started = performance.now();
  const recorder = new Recorder(stores, clock, waits, actor, report);
  try {
    let taken = 0;
    for await (const lines of batches) {
      await recorder.take(lines);
      onProgress((taken += lines.length), total);
    }
  } finally {
    await recorder.finish();
  }
  report.seconds = (performance.now() - started) / 1000;
  report.errors.sort((a, b) => a.line - b.line).splice(MAX_DESCRIBED);
  return report;
}

/** `checkActions`, then `recordActions` if nothing is wrong. */
export async function importActions(
  stores: Pick<Stores, 'eventStore' | 'keyValue'>,
  path: string,
  { clock, format, waits, onProgress = () => undefined }: ImportOptions,
): Promise<ImportReport> {
  const checked = await checkActions(path, {
    clock,
    format,
    onProgress: (done, total) => onProgress('checking', done, total),
  });
  if (checked.wrong > 0) return nothingRecorded(checked);
  return recordActions(stores, checked.read(), checked.lines, {
    clock,
    waits,
    onProgress: (done, total) => onProgress('recording', done, total),
  });
}

/** Keeps some batches in flight and counts the outcome of each line. */
class Recorder {
  private readonly recorder: ActionRecorder;
  private readonly platforms: Platforms;
  private readonly context: Omit<CommandContext, 'body_hash'>;
  private readonly batches: Promise<void>[] = [];
  /** By stream: the last batch with a line of it. Lines of one stream are recorded one after the other. */
  private readonly streams = new Map<string, object>();
  private failure: Error | undefined;
  /** The first line that is not in the log. */
  private failed = Infinity;

  constructor(
    private readonly stores: Pick<Stores, 'eventStore' | 'keyValue'>,
    clock: Clock,
    private readonly waits: boolean,
    actor: string,
    private readonly report: ImportReport,
  ) {
    this.context = { actor: internalActor(actor), correlation_id: randomUUID(), idempotency: null };
    const writer = new Writer(stores.eventStore, clock);
    this.platforms = new Platforms(stores.eventStore, writer);
    this.recorder = new ActionRecorder(writer, stores.keyValue);
  }

  /** Resolves when another batch may be added. @throws the error of an earlier line */
  async take(lines: ActionLine[]): Promise<void> {
    if (this.failure) throw this.stopped();
    const before = Promise.all(this.batches);
    this.batches.push(this.recordBatch(lines, before));
    if (this.batches.length >= IN_FLIGHT) await this.batches.shift();
  }

  async finish(): Promise<void> {
    await Promise.all(this.batches);
    if (this.failure) throw this.stopped();
  }

  private stopped(): Error {
    const isRefusal = this.failure instanceof StoreUnavailable || this.failure instanceof Problem;
    return isRefusal ? new ImportStopped(this.failed, this.report, this.failure as Problem) : this.failure!;
  }

  /** Lines of a stream that occurs more than once wait for those before them. */
  private async recordBatch(lines: readonly ActionLine[], before: Promise<unknown>): Promise<void> {
    const batch = {};
    let waiting: ActionLine[] = [];
    const first = lines.filter((line) => {
      const isFree = !this.streams.has(line.stream);
      this.streams.set(line.stream, batch);
      if (!isFree) waiting.push(line);
      return isFree;
    });
    await this.recordPatiently(first);
    if (waiting.length > 0) await before;
    while (waiting.length > 0) {
      const next = new Map(waiting.toReversed().map((line) => [line.stream, line]));
      await this.recordPatiently([...next.values()]);
      waiting = waiting.filter((line) => next.get(line.stream) !== line);
    }
    for (const { stream } of lines) if (this.streams.get(stream) === batch) this.streams.delete(stream);
  }

  /** Records lines of different streams. Does not throw: failures are noted. */
  private async recordPatiently(lines: readonly ActionLine[]): Promise<void> {
    let left = lines;
    while (left.length > 0) {
      const outcomes = this.failure
        ? left.map(() => this.failure!)
        : await this.record(left).catch((error: Error) => left.map(() => error));
      let retryAfter = 0;
      left = left.filter((line, n) => {
        const error = outcomes[n];
        if (error === undefined) return false;
        if (this.waits && error instanceof StoreUnavailable && error.isPassing) {
          retryAfter = Math.max(retryAfter, error.retryAfter);
          return true;
        }
        this.failure ??= error;
        this.failed = Math.min(this.failed, line.number);
        return false;
      });
      if (left.length > 0) await sleep(1_000 * retryAfter);
    }
  }

  /** @returns for each line why it is not in the log; undefined if it is, or never will be */
  private async record(lines: readonly ActionLine[]): Promise<(Error | undefined)[]> {
    const { eventStore } = this.stores;
    const head = await eventStore.head();
    const owners = new Map<string, string | null>();
    for (const { action } of lines) {
      const platform = action.platform_id;
      if (!owners.has(platform)) owners.set(platform, await this.platforms.ownerOf(platform));
    }
    const actions = lines.map(({ action, stream, hash }) => {
      const owner = owners.get(action.platform_id)!;
      return { action, stream, owner, source: 'vouched' as const, context: { ...this.context, body_hash: hash } };
    });
    const outcomes = await Promise.all(
      actions.map((action) => this.recorder.record(action).catch((error: Error) => error)),
    );
    return outcomes.map((outcome, n) => {
      if (!(outcome instanceof Error)) {
        // What was recorded before this batch has its first position.
        if (outcome.position > head) this.report.recorded++;
        else this.report.already_present++;
        return undefined;
      }
      if (!(outcome instanceof Problem && outcome.code === 'external_id_conflict')) return outcome;
      this.report.conflicts++;
      // Lines settle out of order, but only within the batches in flight.
      if (this.report.errors.length < IN_FLIGHT * BATCH + MAX_DESCRIBED) {
        this.report.errors.push(...describe(lines[n]!.number, outcome));
      }
      return undefined;
    });
  }
}
