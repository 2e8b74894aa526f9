import { convertToCommandError } from '@eventstore/db-client';
import type { Link } from './link.js';
import { connectionReplaced, type Pulse } from './pulse.js';
import type { ReadResponse, ServerRecord } from './messages.js';

/** A read under way: the part of its gRPC call that is used here. */
export interface ServerStream {
  on(event: 'data', listener: (value: ReadResponse) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  cancel(): void;
}

interface Reading<R> {
  /** Called with each record; its result is yielded. */
  take: (record: ServerRecord) => R | undefined;
  /** Returns what is left at the end. */
  rest: () => R;
  /** Ends the read early, without an error and without the rest. */
  signal?: AbortSignal;
}

/**
 * Reads a stream of the server to its end. While one result is processed, only the next is collected; then the stream
 * is paused, and the server's flow control applies.
 * @throws NoAnswer when the server is silent although it should send; otherwise what the client or `take` reports
 */
export async function* readServerStream<R>(
  link: Link,
  open: () => Promise<ServerStream>,
  reading: Reading<R>,
): AsyncGenerator<R> {
  if (reading.signal?.aborted) return;
  if (link.gone.aborted) throw connectionReplaced();
  const arrivals = new Arrivals(link, reading);
  open().then(
    (stream) => arrivals.listen(stream),
    (error: unknown) => arrivals.fail(error),
  );
  try {
    while (!arrivals.stopped) {
      const next = arrivals.next();
      if (next !== undefined) yield next;
      else if (arrivals.failure !== undefined) throw arrivals.failure;
      else if (arrivals.ended) {
        yield reading.rest();
        return;
      } else {
        await arrivals.change();
      }
    }
  } finally {
    arrivals.release();
  }
}

/** What has arrived of a stream, and how the stream ended. It is paused from the arrival of a result to its `next`. */
class Arrivals<R> {
  ended = false;
  stopped = false;
  failure: unknown;
  private stream: ServerStream | undefined;
  private readonly ready: R[] = [];
  private paused = false;
  private released = false;
  private wake = (): void => undefined;
  private readonly watchdog: ReturnType<Pulse['watch']>;
  private readonly onGone = (): void => this.fail(connectionReplaced());
  private readonly onStop = (): void => {
    this.stopped = true;
    this.wake();
  };

  constructor(
    private readonly link: Link,
    private readonly reading: Reading<R>,
  ) {
    this.watchdog = link.pulse.watch(
      () => !this.paused && !this.ended,
      (error) => this.fail(error),
    );
    link.gone.addEventListener('abort', this.onGone);
    reading.signal?.addEventListener('abort', this.onStop);
  }

  listen(stream: ServerStream): void {
    this.stream = stream;
    stream.on('data', (response) => {
      this.watchdog.alive();
      if (this.failure === undefined && response !== 'no record') this.take(response);
    });
    stream.on('error', (error) => this.fail(convertToCommandError(error)));
    stream.on('end', () => {
      this.ended = true;
      this.wake();
    });
    if (this.released) this.cancel();
  }

  /** The next result that has arrived, if any. */
  next(): R | undefined {
    const next = this.ready.shift();
    if (next !== undefined && this.paused) {
      this.paused = false;
      this.watchdog.alive();
      this.stream!.resume();
    }
    return next;
  }

  /** Waits until there is a result, a failure or an end. */
  change(): Promise<void> {
    return new Promise((resolve) => (this.wake = resolve));
  }

  fail(error: unknown): void {
    this.failure ??= error;
    // At once, since the reader may never continue.
    this.release();
    this.wake();
  }

  release(): void {
    if (this.released) return;
    this.released = true;
    this.watchdog.end();
    this.link.gone.removeEventListener('abort', this.onGone);
    this.reading.signal?.removeEventListener('abort', this.onStop);
    if (!this.ended) this.cancel();
  }

  private take(record: ServerRecord): void {
    try {
      const taken = this.reading.take(record);
      if (taken === undefined) return;
      this.ready.push(taken);
    } catch (error) {
      this.fail(error);
      return;
    }
    this.paused = true;
    this.stream!.pause();
    this.wake();
  }

  /** Not within an event of the stream, where it would be lost: https://github.com/grpc/grpc-node/issues/1652. */
  private cancel(): void {
    setImmediate(() => this.stream?.cancel());
  }
}
