import { convertToCommandError } from '@eventstore/db-client';
import type { Link } from './connection.js';
import { NoAnswer } from './pulse.js';
import type { ReadResponse, ServerRecord } from './read-response.js';

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
  { take, rest, signal }: Reading<R>,
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

  let stream: ServerStream | undefined;
  let released = false;
  const watchdog = link.pulse.watch(() => !paused && !ended, fail);
  // Within an event of the stream, a cancellation would be lost: https://github.com/grpc/grpc-node/issues/1652.
  const cancel = (): void => void setImmediate(() => stream?.cancel());
  release = () => {
    if (released) return;
    released = true;
    watchdog.end();
    link.gone.removeEventListener('abort', gone);
    signal?.removeEventListener('abort', stop);
    if (!ended) cancel();
  };
  link.gone.addEventListener('abort', gone);
  signal?.addEventListener('abort', stop);
  const listen = (opened: ServerStream): void => {
    stream = opened;
    opened.on('data', (response) => {
      watchdog.alive();
      if (failure !== undefined || response === 'no record') return;
      try {
        const taken = take(response);
        if (taken === undefined) return;
        ready.push(taken);
      } catch (error) {
        fail(error);
        return;
      }
      paused = true;
      opened.pause();
      wake();
    });
    opened.on('error', (error) => fail(convertToCommandError(error)));
    opened.on('end', () => {
      ended = true;
      wake();
    });
    if (released) cancel();
  };
  open().then(listen, fail);
  try {
    while (!stopped) {
      const next = ready.shift();
      if (next !== undefined) {
        if (paused) {
          paused = false;
          watchdog.alive();
          stream!.resume();
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
