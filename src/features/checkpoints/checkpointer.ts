import { LOG_TREE, LogTreeReader, type LogTreeState } from '../../../projections/log-tree.js';
import { internalContext } from '../../commands/context.js';
import type { Writer } from '../../commands/writer.js';
import { type Checkpoint, type SignedCheckpoints, checkpointIn } from '../../credentials/log-key.js';
import type { Position } from '../../kernel/event.js';
import { type Fact, fact } from '../../kernel/event-definition.js';
import type { Logger } from '../../kernel/logger.js';
import { base64Of, rootOf, rootOfPeaks } from '../../kernel/merkle.js';
import { Problem } from '../../kernel/problems.js';
import type { Views } from '../../read-side/views.js';
import { type EventStore, StoreUnavailable, WrongExpectedRevision } from '../../stores/ports/event-store.js';
import { logCheckpointed } from './domain/checkpoints.events.js';
import { CHECKPOINTS_STREAM, decideBeginOrigin } from './domain/checkpoints.js';

const ROUND_MS = 500;
/** A checkpoint is appended this long after the one before, ms: after many events, and after any. */
const SOON_MS = 1_000;
const LATEST_MS = 60_000;
const MANY_EVENTS = 1_000;

const ACTOR = 'job:checkpoints';

/**
 * Appends checkpoints of the log, and signs each that is in the log and extends the last one that was signed. Runs where
 * the tree of the log is folded, if there is a log key.
 */
export class Checkpointer {
  /** Why nothing is signed or appended any more, as a sentence; null while nothing is wrong. */
  refusal: string | null = null;
  private readonly timer: NodeJS.Timeout;
  private running: Promise<void> | undefined;
  /** The length of the stream of checkpoints, and since when this process knows it. */
  private known = { length: -1, since: 0 };
  /** The head of the log a round ago. */
  private head: Position = Infinity;

  /** What was found to be right, as JSON. */
  private checked = '';

  /** @param applies whether this process folds the tree now: of several, one does */
  constructor(
    private readonly store: EventStore,
    private readonly views: Views,
    private readonly writer: Writer,
    private readonly signed: SignedCheckpoints,
    private readonly applies: () => Promise<boolean>,
    private readonly logger: Logger,
  ) {
    const attempt = () => (this.running ??= this.attempt().finally(() => (this.running = undefined)));
    this.timer = setInterval(attempt, ROUND_MS);
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    await this.running;
  }

  private async attempt(): Promise<void> {
    try {
      const reason = await this.round();
      if (reason !== undefined) this.refuse(reason);
    } catch (error) {
      // Another worker was first, or a store cannot be read or written now.
      const passes = [WrongExpectedRevision, StoreUnavailable, Problem].some((kind) => error instanceof kind);
      if (!passes) this.refuse(`no checkpoint can be signed: ${(error as Error).message.replace(/\.$/, '')}`);
    }
  }

  /** @returns as `refusal`; undefined: it is as before */
  private async round(): Promise<string | null | undefined> {
    const { exists, missing } = this.signed;
    // Without a key, the stores are asked nothing.
    if (!exists && missing === undefined) return undefined;
    if (!(await this.applies())) return undefined;
    if (missing !== undefined) return missing;
    const note = await this.signed.note();
    const { generation, position, results } = await this.views.read([{ get: LOG_TREE }]);
    const isAtHead = position >= this.head;
    this.head = await this.store.head();
    const [state] = results as [LogTreeState | undefined];
    if (!state) return undefined;
    const last = note === undefined ? undefined : checkpointIn(note);
    // Read models that were lost are behind what was signed until they have caught up.
    if (last && last.size > state.size && !isAtHead) return undefined;
    const reason = await this.reasonAgainst(generation, state, last);
    if (reason !== null) return reason;
    const { events: length, origin, newest } = state.checkpoints ?? { events: 0 };
    const now = performance.now();
    if (length !== this.known.length) this.known = { length, since: now };
    if (!origin) {
      await this.append(length, decideBeginOrigin(null, 'first', ACTOR));
      return null;
    }
    const isOfOrigin = last?.origin === origin.origin;
    if (newest && !(isOfOrigin && newest.size <= last.size)) {
      await this.signed.sign({ origin: origin.origin, ...newest }, note);
    }
    // The newest checkpoint is itself an event.
    const events = newest ? state.size - newest.size - 1 : MANY_EVENTS;
    if (events === 0 || now - this.known.since < (events >= MANY_EVENTS ? SOON_MS : LATEST_MS)) return null;
    await this.append(length, fact(logCheckpointed, { size: state.size, root: base64Of(rootOfPeaks(state.peaks)) }));
    return null;
  }

  /** Why the log must not be signed, as a clause; null: it extends what was signed last. */
  private async reasonAgainst(
    generation: string,
    state: LogTreeState,
    last: Checkpoint | undefined,
  ): Promise<string | null> {
    if (state.incomplete !== undefined) return `the event at position ${state.incomplete} is damaged`;
    const { origin, newest } = state.checkpoints ?? {};
    const isReplaced = last !== undefined && origin?.replaces === last.origin;
    if (last && !isReplaced && origin?.origin !== last.origin) {
      return `the key has signed checkpoints of ${last.origin}, and this log is ${origin?.origin ?? 'without an origin'}`;
    }
    const extended = last && !isReplaced ? [last] : [];
    const checked = JSON.stringify([generation, last, newest]);
    for (const { size, root } of checked === this.checked ? [] : [...extended, ...(newest ? [newest] : [])]) {
      if (size > state.size) return `the log has ${state.size} events, and ${size} were signed`;
      const { hash } = new LogTreeReader(state, (range) => this.views.range(range));
      const own = base64Of(await rootOf(size, hash));
      if (own !== root) return `the root of its first ${size} events is ${own}, and ${root} was signed or recorded`;
    }
    const [hidden] = (newest && newest.size !== last?.size && (await this.store.hiddenStreams?.())) || [];
    if (hidden === undefined) this.checked = checked;
    return hidden === undefined ? null : `events of ${hidden} were deleted in EventStoreDB`;
  }

  private async append(length: number, recorded: Fact): Promise<void> {
    await this.writer.append(CHECKPOINTS_STREAM, length, [recorded], internalContext(ACTOR, recorded.data));
  }

  private refuse(reason: string | null): void {
    if (reason !== null && this.refusal === null) {
      this.logger.error(`log_not_signed: ${reason}. No checkpoint is recorded or signed (docs/runbook.md).`);
    }
    if (reason === null && this.refusal !== null) this.logger.warn('checkpoints of the log are signed again');
    this.refusal = reason;
  }
}
