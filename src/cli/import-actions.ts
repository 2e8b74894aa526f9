import { randomUUID } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../kernel/clock.js';
import { Writer } from '../commands/writer.js';
import { bodyHash, internalActor } from '../commands/context.js';
import { BODY_LIMIT, parseJson } from '../http/json-body.js';
import { readBody } from '../http/validation.js';
import { beginLog } from '../features/lenses/new-log.js';
import { Platforms } from '../features/organizations/platforms.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import { type FieldError, Problem } from '../kernel/problems.js';
import { type Action, actionStream } from '../features/relay/domain/relay.js';
import { RelayActionDto } from '../features/relay/relay.dto.js';
import { ActionRecorder } from '../features/relay/relay.handlers.js';
import { toAction } from '../features/relay/relay.input.js';
import type { Stores } from '../stores/open.js';
import { type Line, readLines } from './lines.js';
import { RepeatedLines } from './repeated-lines.js';

/** Appends in flight: they share commits. */
const IN_FLIGHT = 1_024;
/** All wrong lines are counted; at most this many are described. */
const MAX_DESCRIBED = 20;
/** A low estimate of a line's length, to size the filter of repeated lines. */
const MIN_LINE_BYTES = 100;

export interface LineError extends FieldError {
  line: number;
}

export interface ImportReport {
  /** Lines that are not blank. */
  lines: number;
  /** Invalid lines. If there are any, nothing was written. */
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
    super(`Stopped at line ${line}: ${cause.message.replace(/\.$/, '')}. ${done}; run the command again to continue.`, {
      cause,
    });
  }
}

/** Turns a line's JSON into an action. @throws Problem for an invalid line */
export type ReadLine = (json: unknown, now: number) => Action;

/** A body of `POST /api/decision-relay`. */
export const relayBody: ReadLine = (json, now) => toAction(readBody(RelayActionDto, json), now);

export interface ImportOptions {
  clock: Clock;
  /** Default: `relayBody`. */
  read?: ReadLine;
  /** A store that is unavailable or busy is waited for, as those of the cluster profile should be. */
  waits?: boolean;
  /** First the whole file is checked, in bytes; then its lines are recorded. */
  onProgress?: (phase: 'checking' | 'recording', done: number, total: number) => void;
}

/**
 * Records the actions of an NDJSON file. The whole file is checked before anything is written. Safe to repeat, also
 * after a crash: a line that was already recorded is recognised by its external_id or, without one, by its content and
 * the number of equal lines before it.
 * @throws ImportStopped when the log refuses an action for good
 */
export async function importActions(
  stores: Pick<Stores, 'eventStore' | 'keyValue'>,
  file: string,
  { clock, read = relayBody, waits = false, onProgress = () => undefined }: ImportOptions,
): Promise<ImportReport> {
  const { size } = await stat(file);
  const repeated = new RepeatedLines(size / MIN_LINE_BYTES);
  const report: ImportReport = {
    lines: 0,
    wrong: 0,
    recorded: 0,
    already_present: 0,
    conflicts: 0,
    errors: [],
    seconds: 0,
  };

  for await (const { lines, bytesRead } of readLines(file)) {
    for (const line of lines) {
      report.lines++;
      try {
        const action = readAction(line, clock(), read);
        if (action.external_id === null) repeated.note(bodyHash(action));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        report.wrong++;
        report.errors.push(...describe(line, error).slice(0, MAX_DESCRIBED - report.errors.length));
      }
    }
    onProgress('checking', bytesRead, size);
  }
  if (report.wrong > 0) return report;

  await beginLog(stores.eventStore, clock);
  const started = performance.now();
  const recorder = new Recorder(stores, clock, read, waits, repeated, report);
  try {
    let taken = 0;
    for await (const { lines } of readLines(file)) {
      for (const line of lines) await recorder.take(line);
      onProgress('recording', (taken += lines.length), report.lines);
    }
  } finally {
    await recorder.finish();
  }
  report.seconds = (performance.now() - started) / 1000;
  report.errors.sort((a, b) => a.line - b.line).splice(MAX_DESCRIBED);
  return report;
}

/** Keeps many appends in flight and counts the outcome of each line. */
class Recorder {
  private readonly recorder: ActionRecorder;
  private readonly platforms: Platforms;
  private readonly correlationId = randomUUID();
  /** By stream: lines of one stream are recorded one after the other. */
  private readonly running = new Map<string, Promise<void>>();
  private underWay = 0;
  private resume: (() => void) | undefined;
  private failure: Error | undefined;
  /** Lines that are not known to be recorded, in their order. */
  private readonly unsettled = new Set<number>();

  constructor(
    private readonly stores: Pick<Stores, 'eventStore' | 'keyValue'>,
    private readonly clock: Clock,
    private readonly read: ReadLine,
    private readonly waits: boolean,
    private readonly repeated: RepeatedLines,
    private readonly report: ImportReport,
  ) {
    const writer = new Writer(stores.eventStore, clock);
    this.platforms = new Platforms(stores.eventStore, writer);
    this.recorder = new ActionRecorder(writer, stores.keyValue);
  }

  /** Resolves when another line may be added. @throws the error of an earlier line */
  async take(line: Line): Promise<void> {
    if (this.failure) throw this.stopped(this.failure);
    const action = readAction(line, this.clock(), this.read);
    const hash = bodyHash(action);
    const identity = action.external_id === null ? this.repeated.identityOf(hash) : null;
    const stream = actionStream(action, identity, randomUUID);
    const before = this.running.get(stream) ?? Promise.resolve();
    this.unsettled.add(line.number);
    const turn = before
      .then(() => this.recordPatiently(line, action, stream, hash))
      .then(() => void this.unsettled.delete(line.number))
      .catch((error: unknown) => void (this.failure ??= error as Error))
      .then(() => {
        if (this.running.get(stream) === turn) this.running.delete(stream);
        // Waits for half of them, since appends made together are committed together.
        if (--this.underWay <= IN_FLIGHT / 2) this.resume?.();
      });
    this.running.set(stream, turn);
    if (++this.underWay >= IN_FLIGHT) await new Promise<void>((resolve) => (this.resume = resolve));
  }

  async finish(): Promise<void> {
    await Promise.all(this.running.values());
    if (this.failure) throw this.stopped(this.failure);
  }

  private stopped(failure: Error): Error {
    const isRefusal = failure instanceof StoreUnavailable || failure instanceof Problem;
    const [line] = this.unsettled;
    return isRefusal && line !== undefined ? new ImportStopped(line, this.report, failure) : failure;
  }

  private async recordPatiently(...action: Parameters<Recorder['record']>): Promise<void> {
    for (;;) {
      try {
        return await this.record(...action);
      } catch (error) {
        if (!(this.waits && error instanceof StoreUnavailable && error.isPassing)) throw error;
        await sleep(1_000 * error.retryAfter);
      }
    }
  }

  private async record(line: Line, action: Action, stream: string, hash: string): Promise<void> {
    const [existing] = await this.stores.eventStore.readStream(stream, { limit: 1 });
    if (existing?.metadata.body_hash === hash) {
      this.report.already_present++;
      return;
    }
    const context = {
      actor: internalActor('cli'),
      correlation_id: this.correlationId,
      idempotency: null,
      body_hash: hash,
    };
    try {
      await this.recorder.record(action, stream, await this.platforms.ownerOf(action.platform_id), context);
      this.report.recorded++;
    } catch (error) {
      if (!(error instanceof Problem && error.code === 'external_id_conflict')) throw error;
      this.report.conflicts++;
      // Lines settle out of order, but only within the window in flight.
      if (this.report.errors.length < IN_FLIGHT + MAX_DESCRIBED) this.report.errors.push(...describe(line, error));
    }
  }
}

/** @throws Problem for a line that the relay would refuse */
function readAction({ bytes }: Line, now: number, read: ReadLine): Action {
  if (bytes === null) throw new Problem('payload_too_large', `the line is longer than ${BODY_LIMIT} bytes`);
  return read(parseJson(bytes), now);
}

function describe({ number }: Line, problem: Problem): LineError[] {
  const { code, message } = problem;
  const errors = problem.extra.errors ?? [{ pointer: '', code, message }];
  return errors.map((error) => ({ line: number, ...error, message: error.message.replace(/\bbody\b/, 'line') }));
}
