import { type CommandContext, refuseUnlessAccepted } from './context.js';
import type { FoldedStream, FoldedStreams } from './folded-streams.js';
import type { Fact } from '../kernel/event-definition.js';
import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, type Clock } from '../kernel/clock.js';
import { eventId, newSalt } from '../stores/ports/event-encoding.js';
import { Problem } from '../kernel/problems.js';
import { Turns } from '../kernel/turns.js';
import type { EventMetadata, NewEvent, Position, RecordedEvent } from '../kernel/event.js';
import { EVENT_STORE, type EventStore, StoreUnavailable, WrongExpectedRevision } from '../stores/ports/event-store.js';
import { IdempotencyKeys, isRetryOf } from './idempotency-keys.js';

/** Decides what a command changes, from the history of a stream; throws if the command is refused. */
type Decide = (history: readonly RecordedEvent[]) => readonly Fact[];

/** The effect of a command: written now, or found because this is a retry. */
export interface CommandEffect {
  /** Of the last event of the append. */
  position: Position;
  events: readonly NewEvent[];
  /** Written by this request: now, or by an earlier try with the same Idempotency-Key. */
  own: boolean;
}

/** The same, with the events of the stream as the command left it, also if others followed before a retry. */
export interface Update extends CommandEffect {
  history: readonly RecordedEvent[];
  /** Whether the last of these, `events`, were written now. */
  isNew: boolean;
}

/** The same, with the state of the stream before it; of a retry, the present one. */
interface FoldedUpdate<S> extends CommandEffect {
  before: FoldedStream<S>;
}

/** How often `update` decides again after a conflict. */
const ATTEMPTS = 8;

/** Appends what deciders decide: one fact, one stream, one append, exactly once in effect (docs/decisions/0001 and 0002). */
@Injectable()
export class Writer {
  readonly idempotency: IdempotencyKeys;
  /** By stream. */
  private readonly turns = new Turns(Infinity, 1);
  /** Why the last append had no outcome, and when (on a monotonic clock); null once a later append has succeeded. */
  lastFailure: { message: string; at: number } | null = null;

  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {
    this.idempotency = new IdempotencyKeys(store, (...args) => this.append(...args));
  }

  /**
   * A command on one stream: claims its Idempotency-Key, then `update`. A refused command leaves nothing in the log,
   * and its key can be used with a corrected body, unless the refusal comes from a change made in between.
   * @throws Problem idempotency_key_reused, write_conflict
   */
  async execute(stream: string, context: CommandContext, decide: Decide): Promise<Update> {
    await this.idempotency.claim(stream, context, decide);
    return this.update(stream, context, decide);
  }

  /**
   * Executes a command on a stream that may be long. It decides on the state of the stream, which is kept, so that only
   * what was appended since is read. A retry that may find its own event reads the whole stream.
   * @param options.once it must not be decided again on a state that its author has not seen
   * @throws Problem idempotency_key_reused, write_conflict; WrongExpectedRevision instead if it is decided once, and another
   * writer came between the reading and the append
   */
  async executeFolded<S>(
    stream: string,
    context: CommandContext,
    streams: FoldedStreams<S>,
    decide: (state: S) => readonly Fact[],
    { once = false } = {},
  ): Promise<FoldedUpdate<S>> {
    let seen: number | undefined;
    const refuse = async () => {
      const { state, events } = await streams.of(stream);
      seen = events;
      try {
        decide(state);
      } catch (refusal) {
        // The first try may have been recorded since.
        if ((await this.idempotency.claimsOf(context)).length === 0) throw refusal;
      }
    };
    const isFirst = await this.idempotency.claimUnless(refuse, stream, context);
    const update = async (): Promise<FoldedUpdate<S>> => {
      const before = await streams.of(stream);
      // Since it claimed the key, a try that was sent at the same time may have written what this one would write again.
      if (isFirst && (before.events === seen || context.idempotency === null)) {
        return { ...(await this.record(stream, before, decide(before.state), context)), before };
      }
      const stateOf = (history: readonly RecordedEvent[]) => streams.fold(streams.empty(stream), history);
      const outcome = await this.updateOnce(stream, context, (history) => decide(stateOf(history)));
      const { history, events, isNew } = outcome;
      const read = isNew ? history.slice(0, -events.length) : history;
      return { ...outcome, before: { state: stateOf(read), events: read.length, last: read.at(-1) } };
    };
    return once ? update() : this.decidingAgain(stream, update);
  }

  /** Appends what was decided on a stream with so many events, or notes that nothing was. */
  private async record(
    stream: string,
    { events, last }: Pick<FoldedStream<unknown>, 'events' | 'last'>,
    facts: readonly Fact[],
    context: CommandContext,
  ): Promise<CommandEffect> {
    if (facts.length > 0) return this.append(stream, events, facts, context);
    await this.idempotency.noteUnchanged(stream, events, context);
    return { position: last?.position ?? 0, events: [], own: false };
  }

  /** The first event of a stream, if it exists. */
  async firstOf(stream: string): Promise<RecordedEvent | undefined> {
    const [first] = await this.store.readStream(stream, { limit: 1 });
    return first;
  }

  /** Appends the first events of a stream. If the stream exists, returns its events, and the position of its first append. */
  async create(stream: string, facts: readonly Fact[], context: CommandContext): Promise<CommandEffect> {
    // The store does not tell a repeated append from the first one.
    let isRepeated = this.idempotency.earlier.has(context) && (await this.firstOf(stream)) !== undefined;
    let outcome: CommandEffect;
    try {
      outcome = await this.append(stream, 0, facts, context);
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error;
      isRepeated = true;
      outcome = await this.existing(stream, context);
    }
    if (isRepeated && outcome.own) context.onRepeated?.();
    return outcome;
  }

  private async existing(stream: string, context: CommandContext): Promise<CommandEffect> {
    const events = await this.store.readStream(stream);
    const [first] = events as [RecordedEvent];
    // A key may have been used for another body at the same time: that is refused, not repeated.
    const own = isRetryOf(first, context) && first.metadata.body_hash === context.body_hash;
    return { position: events[first.metadata.size - 1]!.position, events, own };
  }

  /**
   * Reads a stream, decides, and appends at exactly the revision read; on a conflict reads and decides again.
   * Commands on one stream queue up in this process. A retry with the same Idempotency-Key finds its event and writes
   * nothing.
   * @throws Problem write_conflict when other processes keep winning
   */
  async update(stream: string, context: CommandContext, decide: Decide): Promise<Update> {
    return this.decidingAgain(stream, () => this.updateOnce(stream, context, decide));
  }

  private decidingAgain<T>(stream: string, update: () => Promise<T>): Promise<T> {
    return this.turns.run(stream, async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        try {
          return await update();
        } catch (error) {
          if (!(error instanceof WrongExpectedRevision)) throw error;
        }
      }
      throw new Problem('write_conflict', 'Other requests kept changing the same data; try again.');
    });
  }

  /** @throws WrongExpectedRevision when another writer came between the reading and the append */
  private async updateOnce(stream: string, context: CommandContext, decide: Decide): Promise<Update> {
    const before = await this.store.readStream(stream);
    const first = this.firstIn(before, stream, context);
    if (first) return first;
    const { length } = before;
    const effect = await this.record(stream, { events: length, last: before.at(-1) }, decide(before), context);
    const { position, events } = effect;
    const news = events.map((event, n) => ({ ...event, stream, revision: length + n, position }));
    return { ...effect, history: [...before, ...news], isNew: news.length > 0 };
  }

  /**
   * What the first try of a command did; undefined if there was none, or it has not done anything yet. For commands that
   * check more than their stream before they claim their key.
   * @throws Problem idempotency_key_reused
   */
  async firstTry(context: CommandContext): Promise<Update | undefined> {
    const stream = await this.idempotency.claimedFor(context);
    return stream === undefined ? undefined : this.firstIn(await this.store.readStream(stream), stream, context);
  }

  private firstIn(history: readonly RecordedEvent[], stream: string, context: CommandContext): Update | undefined {
    const earlier = history.filter((event) => isRetryOf(event, context));
    if (earlier.length > 0) {
      context.onRepeated?.();
      const { position } = earlier.at(-1)!;
      const left = history.filter((event) => event.position <= position);
      return { position, events: earlier, own: true, history: left, isNew: false };
    }
    const then = this.idempotency.earlier.get(context)?.get(stream);
    if (then === undefined) return undefined;
    context.onRepeated?.();
    const left = history.slice(0, then);
    return { position: left.at(-1)?.position ?? 0, events: [], own: false, history: left, isNew: false };
  }

  /**
   * Appends to a stream that has `length` events.
   * @throws WrongExpectedRevision if it has more or fewer; Problem unauthorized
   */
  async append(
    stream: string,
    length: number,
    facts: readonly Fact[],
    context: CommandContext,
  ): Promise<CommandEffect> {
    // Here, since every command has waited before: for items before it in its batch, proofs, chains, its stream.
    refuseUnlessAccepted(context.actor);
    const events = this.eventsOf(stream, facts, context, length);
    try {
      const { position } = await this.store.append(stream, length === 0 ? 'no-stream' : length - 1, events);
      this.lastFailure = null;
      return { position, events, own: true };
    } catch (error) {
      // A busy log works: if the service were not ready then, its load would only move to the other processes.
      const isFailure = error instanceof StoreUnavailable && error.code !== 'store_busy';
      if (isFailure) this.lastFailure = { message: error.message, at: performance.now() };
      throw error;
    }
  }

  /** A retry of a command has the same ids in whatever trace: those are not a part of it. */
  private eventsOf(stream: string, facts: readonly Fact[], context: CommandContext, revision: number): NewEvent[] {
    const { actor, correlation_id, body_hash, idempotency, trace } = context;
    const recorded_at = new Date(this.clock()).toISOString();
    return facts.map(({ type, schema, data, occurredAt, decided }, index) => {
      const occurred_at = occurredAt === undefined ? recorded_at : new Date(occurredAt).toISOString();
      const id = eventId(stream, body_hash, revision + index, decided);
      const metadata: EventMetadata = {
        schema,
        occurred_at,
        recorded_at,
        correlation_id,
        actor: actor.name,
        body_hash,
        index,
        size: facts.length,
        salt: newSalt(),
      };
      if (idempotency !== null) metadata.idempotency = idempotency;
      if (trace !== undefined) metadata.traceparent = trace;
      return { id, type, data, metadata };
    });
  }
}
