import { convertToCommandError } from '@eventstore/db-client';
import type { Link } from './link.js';
import { connectionReplaced } from './pulse.js';
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
  { take, rest, signal }: Reading<R>,
): AsyncGenerator<R> {
  if (signal?.aborted) return;
  if (link.hasEnded) throw connectionReplaced();
  let stream = undefined as ServerStream | undefined;
  /** A result that has arrived and is not taken yet: until it is, the stream is paused. */
  let result = undefined as R | undefined;
  let hasEnded = false;
  let isReleased = false;
  let failure: unknown;
  let wake = (): void => undefined;
  const onAbort = () => wake();
  /** Not within an event of the stream, where it would be lost: https://github.com/grpc/grpc-node/issues/1652. */
  const cancel = () => setImmediate(() => stream?.cancel());
  const release = (): void => {
    if (isReleased) return;
    isReleased = true;
    watchdog.end();
    signal?.removeEventListener('abort', onAbort);
    if (!hasEnded) cancel();
  };
  const fail = (error: unknown): void => {
    failure ??= error;
    // At once, since the reader may never continue.
    release();
    wake();
  };
  const receive = (response: ReadResponse): void => {
    watchdog.alive();
    if (failure !== undefined || response === 'no record') return;
    try {
      result = take(response);
    } catch (error) {
      return fail(error);
    }
    if (result === undefined) return;
    stream!.pause();
    wake();
  };
  const watchdog = link.pulse.watch(() => result === undefined && !hasEnded, fail);
  signal?.addEventListener('abort', onAbort);
  open().then((opened) => {
    stream = opened;
    stream.on('data', receive);
    stream.on('error', (error) => fail(convertToCommandError(error)));
    stream.on('end', () => {
      hasEnded = true;
      wake();
    });
    if (isReleased) cancel();
  }, fail);
  try {
    while (!signal?.aborted) {
      if (result !== undefined) {
        const taken = result;
        result = undefined;
        watchdog.alive();
        stream!.resume();
        yield taken;
      } else if (failure !== undefined) throw failure;
      else if (hasEnded) {
        yield rest();
        return;
      } else await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    release();
  }
}
