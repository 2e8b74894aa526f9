import type { Writable } from 'node:stream';

/** Resolves once everything that was written is sent, or the stream is closed. */
export function drained(stream: Pick<Writable, 'once' | 'off'>): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.once('drain', done).once('close', done);
  });
}
