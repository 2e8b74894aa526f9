import type { Link } from './connection.js';
import { NoAnswer } from './pulse.js';

/** The part of the client's reads that is used here. */
export interface ServerStream<T> {
  on(event: 'data', listener: (value: T) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  cancel(): Promise<void>;
}

interface Reading<T, R> {
  /** Called with each value; its result is yielded. */
  take: (value: T) => R | undefined;
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
export async function* readServerStream<T, R>(
  link: Link,
  open: () => ServerStream<T>,
  { take, rest, signal }: Reading<T, R>,
): AsyncGenerator<R> {
  const ready: R[] = [];
  let [paused, ended, stopped] = [false, false, false];
  let failure: unknown;
  let wake = (): void => undefined;
  let release = (): void => undefined;
  const fail = (error: unknown) => {
    failure ??= error;
    // At once, since the reader may never continue.
    release();
    wake();
  };
  const stop = () => {
    stopped = true;
    wake();
  };
  const gone = () => fail(new NoAnswer('the connection was made again'));
  if (signal?.aborted) return;
  if (link.gone.aborted) throw new NoAnswer('the connection was made again');

  const stream = open();
  const watchdog = link.pulse.watch(() => !paused && !ended, fail);
  release = () => {
    watchdog.end();
    link.gone.removeEventListener('abort', gone);
    signal?.removeEventListener('abort', stop);
    if (!ended) void stream.cancel().catch(() => undefined);
  };
  link.gone.addEventListener('abort', gone);
  signal?.addEventListener('abort', stop);
  stream.on('data', (value) => {
    watchdog.alive();
    if (failure !== undefined) return;
    try {
      const taken = take(value);
      if (taken === undefined) return;
      ready.push(taken);
    } catch (error) {
      fail(error);
      return;
    }
    paused = true;
    stream.pause();
    wake();
  });
  stream.on('error', fail);
  stream.on('end', () => {
    ended = true;
    wake();
  });
  try {
    while (!stopped) {
      const next = ready.shift();
      if (next !== undefined) {
        if (paused) {
          paused = false;
          watchdog.alive();
          stream.resume();
        }
        yield next;
      } else if (failure !== undefined) {
        throw failure;
      } else if (ended) {
        yield rest();
        return;
      } else {
        await new Promise<void>((resolve) => (wake = resolve));
      }
    }
  } finally {
    release();
  }
}
