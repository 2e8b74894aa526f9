import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { internalActor } from '../commands/context.js';
import { Writer } from '../commands/writer.js';
import { beginLog } from '../features/lenses/new-log.js';
import { Platforms } from '../features/organizations/platforms.js';
import { ActionRecorder } from '../features/relay/relay.handlers.js';
import { Problem } from '../kernel/problems.js';
import type { Stores } from '../stores/open.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import { type ActionLine, type CheckedLines, MAX_DESCRIBED, describe } from './action-lines.js';
import { CommandFailed } from './exit.js';

/** How long to wait before what the log did not take is tried again, ms. */
const RETRY_MS = 1_000;

/** `errors` are the first of the wrong lines, or of the conflicts. */
export interface ImportReport extends CheckedLines {
  recorded: number;
  already_present: number;
  /** Lines whose external_id was used for another action. */
  conflicts: number;
  /** Time spent writing. */
  seconds: number;
}

/** The report on lines of which none is recorded. */
export function nothingRecorded({ lines, wrong, errors }: CheckedLines): ImportReport {
  return { lines, wrong, recorded: 0, already_present: 0, conflicts: 0, errors, seconds: 0 };
}

export interface RecordOptions {
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
 * @throws CommandFailed when the log refuses an action for good; what `batches` throws
 */
export async function recordActions(
  stores: Pick<Stores, 'eventStore' | 'keyValue'>,
  batches: AsyncIterable<ActionLine[]>,
  total: number,
  { waits = false, actor = 'cli', onProgress = () => undefined }: RecordOptions = {},
): Promise<ImportReport> {
  const report = nothingRecorded({ lines: total, wrong: 0, errors: [] });
  await beginLog(stores.eventStore, Date.now);
  const started = performance.now();
  const tryAll = attemptsOf(stores, actor, report);
  const isPassing = (error: Error) => waits && error instanceof StoreUnavailable && error.isPassing;
  let taken = 0;
  for await (const lines of batches) {
    // Lines of one stream one after the other.
    for (let left = lines; left.length > 0;) {
      const firsts = new Map(left.toReversed().map((line) => [line.stream, line]));
      const tried = left.filter((line) => firsts.get(line.stream) === line);
      const failures = await tryAll(tried).catch((error: Error) => new Map(tried.map((line) => [line, error])));
      left = left.filter((line) => failures.has(line) || firsts.get(line.stream) !== line);
      const error = tried.map((line) => failures.get(line)).find((failure) => failure && !isPassing(failure));
      if (error) throw stoppedAt(left[0]!, error, report);
      if (failures.size > 0) await sleep(RETRY_MS);
    }
    report.errors.sort((a, b) => a.line - b.line).splice(MAX_DESCRIBED);
    onProgress((taken += lines.length), total);
  }
  report.seconds = (performance.now() - started) / 1000;
  return report;
}

function stoppedAt({ number }: ActionLine, error: Error, { recorded }: ImportReport): Error {
  if (!(error instanceof StoreUnavailable || error instanceof Problem)) return error;
  const reason = error instanceof StoreUnavailable ? error.explanation : error.message.replace(/\.$/, '');
  const done = `${recorded} lines were recorded by this run, and every line before that one is in the log`;
  return new CommandFailed(`Stopped at line ${number}: ${reason}. ${done}; run the command again to continue.`);
}

/**
 * @returns a function that tries lines of different streams, and returns why those are not in the log that are not refused
 * for good
 */
function attemptsOf(
  { eventStore, keyValue }: Pick<Stores, 'eventStore' | 'keyValue'>,
  by: string,
  report: ImportReport,
) {
  const writer = new Writer(eventStore, Date.now);
  const platforms = new Platforms(writer);
  const recorder = new ActionRecorder(writer, keyValue);
  const ofAll = { actor: internalActor(by), correlation_id: randomUUID(), idempotency: null };
  return async (lines: readonly ActionLine[]): Promise<Map<ActionLine, Error>> => {
    const head = await eventStore.head();
    const owners = new Map<string, string | null>();
    for (const { action } of lines) {
      const platform = action.platform_id;
      if (!owners.has(platform)) owners.set(platform, await platforms.ownerOf(platform));
    }
    const failures = new Map<ActionLine, Error>();
    const recording = lines.map(async (line) => {
      const { number, action, stream, hash } = line;
      const owner = owners.get(action.platform_id)!;
      const context = { ...ofAll, body_hash: hash };
      try {
        const { position } = await recorder.record({ action, stream, owner, source: 'vouched', context });
        // What was recorded before these lines has its first position.
        if (position > head) report.recorded++;
        else report.already_present++;
      } catch (error) {
        if (error instanceof Problem && error.code === 'external_id_conflict') {
          report.conflicts++;
          report.errors.push(...describe(number, error));
        } else failures.set(line, error as Error);
      }
    });
    await Promise.all(recording);
    return failures;
  };
}
