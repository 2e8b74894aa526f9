import { openSync, readSync } from 'node:fs';
import { createServer } from 'node:net';
import { isMainThread } from 'node:worker_threads';

/**
 * Preloaded into a process (`--import`), tells whoever connects to the socket TURNS_SOCKET the longest that one turn of
 * its event loop has used the processor since it was asked last, in ms. What else the machine does is not part of that.
 */
if (isMainThread) {
  const spent = processorTime();
  let most = 0;
  let last = spent();
  const look = () => {
    const now = spent();
    most = Math.max(most, now - last);
    last = now;
  };
  setInterval(look, 1).unref();
  createServer((socket) => {
    socket.on('error', () => undefined).end(String(most));
    most = 0;
  })
    .listen(process.env.TURNS_SOCKET)
    .unref();
}

/** The processor time of this thread so far, in ms; the time itself where the system does not say. */
function processorTime() {
  try {
    const file = openSync(`/proc/self/task/${process.pid}/schedstat`);
    const bytes = Buffer.alloc(64);
    return () => Number.parseInt(bytes.latin1Slice(0, readSync(file, bytes, 0, bytes.length, 0))) / 1e6;
  } catch {
    return () => performance.now();
  }
}
