import { type Fact, fact } from '../kernel/event-definition.js';
import type { RecordedEvent } from '../kernel/event.js';
import { idempotencyKeyReused } from '../kernel/problems.js';
import { type EventStore, WrongExpectedRevision } from '../stores/ports/event-store.js';
import type { CommandContext } from './context.js';
import { idempotencyKeyAnswered, idempotencyKeyClaimed } from './idempotency.events.js';

/** Appends to a stream that has `length` events. @throws WrongExpectedRevision if it has more or fewer */
type Append = (stream: string, length: number, facts: readonly Fact[], context: CommandContext) => Promise<unknown>;

/**
 * For which body and stream each Idempotency-Key was used, as the log says (docs/decisions/0002). What an earlier try of
 * a command has done is remembered until the command ends.
 */
export class IdempotencyKeys {
  /**
   * Of the commands whose Idempotency-Key was recorded by an earlier try, which is known once it is claimed: the streams in
   * which that changed nothing, with their number of events at that time.
   */
  readonly earlier = new WeakMap<CommandContext, Map<string, number>>();

  constructor(
    private readonly store: EventStore,
    private readonly append: Append,
  ) {}

  /**
   * Records that this Idempotency-Key is used for this stream and body, before anything else is written, so that a
   * retry can continue. Does nothing without a key.
   * @param refuse throws if the stream's history refuses the command; called before a new key is recorded
   * @param claims the stream to record it in; default: one named after the key. If another request with the same key may
   * use a stream of its own (`useOwnStream`): that stream, so that one of two such requests is refused
   * @throws Problem idempotency_key_reused if it was used for another body or stream
   */
  async claim(
    stream: string,
    context: CommandContext,
    refuse?: (history: readonly RecordedEvent[]) => void,
    claims?: string,
  ): Promise<void> {
    const check = async () => {
      if (!refuse) return;
      const history = await this.store.readStream(stream);
      // The first try may have been recorded since.
      if (!history.some((event) => isRetryOf(event, context))) refuse(history);
    };
    await this.claimUnless(check, stream, context, claims);
  }

  /**
   * Claims the key unless the command is refused.
   * @param refuse rejects if the command is refused
   * @returns whether no earlier try of the command can have written anything
   */
  async claimUnless(
    refuse: () => Promise<void>,
    stream: string,
    context: CommandContext,
    claims?: string,
  ): Promise<boolean> {
    if (context.idempotency === null) return true;
    claims ??= claimsStream(context.idempotency);
    let events = await this.store.readStream(claims);
    if (events.length === 0) {
      await refuse();
      if (await this.appendUnlessChanged(claims, 0, fact(idempotencyKeyClaimed, { stream }), context)) return true;
      events = await this.store.readStream(claims);
    }
    this.learn(events, stream, context);
    return false;
  }

  /** @throws Problem idempotency_key_reused if the key was claimed for another body or stream */
  private learn(claims: readonly RecordedEvent[], stream: string, context: CommandContext): void {
    const { metadata, data } = claims[0]!;
    if (metadata.body_hash !== context.body_hash || data['stream'] !== stream) throw idempotencyKeyReused();
    const answered = claims.filter(({ type }) => type === idempotencyKeyAnswered.type);
    const unchanged = answered.map(({ data }) => [data['stream'], data['events']] as [string, number]);
    this.earlier.set(context, new Map(unchanged));
  }

  /**
   * Instead of `claim`, if the stream is named after the Idempotency-Key: what is created there uses the key. The caller
   * compares the body hash of what `Writer.create` finds.
   * @throws Problem idempotency_key_reused if the key was used for another body
   */
  async useOwnStream(stream: string, context: CommandContext): Promise<void> {
    // Not for the items of a batch: what `create` finds is enough for them.
    if (!context.onRepeated) return;
    const [created] = await this.store.readStream(stream, { limit: 1 });
    if (!created) return;
    if (created.metadata.body_hash !== context.body_hash) throw idempotencyKeyReused();
    this.earlier.set(context, new Map());
  }

  /**
   * The stream that an earlier try of a command has claimed its key for, if any.
   * @throws Problem idempotency_key_reused
   */
  async claimedFor(context: CommandContext): Promise<string | undefined> {
    const claims = await this.claimsOf(context);
    const stream = claims[0]?.data['stream'] as string | undefined;
    if (stream !== undefined) this.learn(claims, stream, context);
    return stream;
  }

  /** What is recorded of the key of a command: its claim first, by any request. Empty if nobody has claimed it. */
  async claimsOf({ idempotency }: CommandContext): Promise<RecordedEvent[]> {
    return idempotency === null ? [] : this.store.readStream(claimsStream(idempotency));
  }

  /** Records that nothing changed in a stream, so that a retry with the same key changes nothing either. */
  async noteUnchanged(stream: string, events: number, context: CommandContext): Promise<void> {
    const { length } = await this.claimsOf(context);
    // Without a claim, a retry is recognised by another stream.
    if (length === 0) return;
    const answered = fact(idempotencyKeyAnswered, { stream, events });
    // If it is not appended, another try of the same request was first.
    await this.appendUnlessChanged(claimsStream(context.idempotency!), length, answered, context);
  }

  /** @returns false if the stream does not have `length` events */
  private async appendUnlessChanged(
    stream: string,
    length: number,
    event: Fact,
    context: CommandContext,
  ): Promise<boolean> {
    try {
      await this.append(stream, length, [event], context);
      return true;
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      return false;
    }
  }
}

/** Whether the event was written by an earlier try of the request, recognised by its Idempotency-Key. */
export function isRetryOf({ metadata }: RecordedEvent, context: CommandContext): boolean {
  return metadata.idempotency !== undefined && metadata.idempotency === context.idempotency;
}

/** The stream of an Idempotency-Key, by its hash. */
function claimsStream(idempotency: string): string {
  return `idem-${idempotency}`;
}
