import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CommandContext, internalActor } from '../commands/context.js';
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
  const recorder = new Recorder(stores, waits, actor, report);
  let taken = 0;
  for await (const lines of batches) {
    await recorder.record(lines);
    onProgress((taken += lines.length), total);
  }
  report.seconds = (performance.now() - started) / 1000;
  return report;
}

/** Records batches of lines and counts the outcome of each line. */
class Recorder {
  private readonly recorder: ActionRecorder;
  private readonly platforms: Platforms;
  private readonly context: Omit<CommandContext, 'body_hash'>;

  constructor(
    private readonly stores: Pick<Stores, 'eventStore' | 'keyValue'>,
    private readonly waits: boolean,
    actor: string,
    private readonly report: ImportReport,
  ) {
    this.context = { actor: internalActor(actor), correlation_id: randomUUID(), idempotency: null };
    const writer = new Writer(stores.eventStore, Date.now);
    this.platforms = new Platforms(writer);
    this.recorder = new ActionRecorder(writer, stores.keyValue);
  }

  /** Records lines, those of one stream one after the other. @throws CommandFailed */
  async record(lines: readonly ActionLine[]): Promise<void> {
    for (let left = lines; left.length > 0;) {
      const firsts = new Map(left.toReversed().map((line) => [line.stream, line]));
      const tried = left.filter((line) => firsts.get(line.stream) === line);
      const failures = await this.tryAll(tried).catch((error: Error) => new Map(tried.map((line) => [line, error])));
      left = left.filter((line) => failures.has(line) || firsts.get(line.stream) !== line);
      for (const line of tried) {
        const error = failures.get(line);
        if (!error) continue;
        if (!(this.waits && error instanceof StoreUnavailable && error.isPassing))
          throw this.stoppedAt(left[0]!, error);
      }
      if (failures.size > 0) await sleep(RETRY_MS);
    }
    this.report.errors.sort((a, b) => a.line - b.line).splice(MAX_DESCRIBED);
  }

  private stoppedAt({ number }: ActionLine, error: Error): Error {
    if (!(error instanceof StoreUnavailable || error instanceof Problem)) return error;
    const reason = error instanceof StoreUnavailable ? error.explanation : error.message.replace(/\.$/, '');
    const done = `${this.report.recorded} lines were recorded by this run, and every line before that one is in the log`;
    return new CommandFailed(`Stopped at line ${number}: ${reason}. ${done}; run the command again to continue.`);
  }

  /** Tries lines of different streams. @returns why lines are not in the log that are not refused for good */
  private async tryAll(lines: readonly ActionLine[]): Promise<Map<ActionLine, Error>> {
    const head = await this.stores.eventStore.head();
    const owners = new Map<string, string | null>();
    for (const { action } of lines) {
      const platform = action.platform_id;
      if (!owners.has(platform)) owners.set(platform, await this.platforms.ownerOf(platform));
    }
    const failures = new Map<ActionLine, Error>();
    const recording = lines.map(async (line) => {
      const { number, action, stream, hash } = line;
      const owner = owners.get(action.platform_id)!;
      const context = { ...this.context, body_hash: hash };
      try {
        const { position } = await this.recorder.record({ action, stream, owner, source: 'vouched', context });
        // What was recorded before these lines has its first position.
        if (position > head) this.report.recorded++;
        else this.report.already_present++;
      } catch (error) {
        if (error instanceof Problem && error.code === 'external_id_conflict') {
          this.report.conflicts++;
          this.report.errors.push(...describe(number, error));
        } else failures.set(line, error as Error);
      }
    });
    await Promise.all(recording);
    return failures;
  }
}
