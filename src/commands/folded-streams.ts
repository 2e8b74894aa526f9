import { BoundedMap } from '../kernel/bounded-map.js';
import type { RecordedEvent } from '../kernel/event.js';
import type { EventStore } from '../stores/ports/event-store.js';

/** A state folded from a stream. */
export interface FoldedStream<S> {
  state: S;
  /** Events of the stream. */
  events: number;
  /** The last of them, if there is any. */
  last: Pick<RecordedEvent, 'id' | 'position'> | undefined;
}

const KEPT = 1_000;

/** The states of streams that may be long: each is kept, and only what was appended since is read. */
export class FoldedStreams<S> {
  private readonly known = new BoundedMap<string, FoldedStream<S>>(KEPT);

  /** @param fold must leave the state it is given as it is */
  constructor(
    private readonly store: Pick<EventStore, 'readStream'>,
    readonly empty: (stream: string) => S,
    readonly fold: (state: S, events: readonly RecordedEvent[]) => S,
  ) {}

  async of(stream: string): Promise<FoldedStream<S>> {
    const known = this.known.get(stream) ?? { state: this.empty(stream), events: 0, last: undefined };
    const news = await this.store.readStream(stream, { from: known.events });
    if (news.length === 0) return known;
    const { id, position } = news.at(-1)!;
    const next = { state: this.fold(known.state, news), events: known.events + news.length, last: { id, position } };
    this.known.set(stream, next);
    return next;
  }
}
