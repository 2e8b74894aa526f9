import { openSync, readSync } from 'node:fs';
import { createServer } from 'node:net';
import { isMainThread } from 'node:worker_threads';

/**
 * Preloaded into a process (`--import`), tells whoever connects to the socket TURNS_SOCKET the longest that one turn of
 * its event loop has used the processor since it was asked last, in ms. If that is more than TURNS_MOST_MS, also how long
 * some work takes now that is the same on every machine: a machine can become slower after a process has started. What
 * else the machine does is not part of either, but for what it takes from caches and the clock of the processor.
 */
if (isMainThread) {
  const spent = processorTime();
  const text = JSON.stringify(Array.from({ length: 20_000 }, (_, n) => ({ name: `name ${(n * 7_919) % 20_000}` })));
  const work = () => {
    const began = spent();
    JSON.parse(text).sort((a, b) => (a.name < b.name ? -1 : 1));
    return spent() - began;
  };
  // Compiled before it is timed.
  for (let n = 0; n < 10; n++) work();
  let most = 0;
  let last = spent();
  const look = () => {
    const now = spent();
    most = Math.max(most, now - last);
    last = now;
  };
  setInterval(look, 1).unref();
  createServer((socket) => {
    const isLong = most > Number(process.env.TURNS_MOST_MS);
    socket.on('error', () => undefined).end(isLong ? `${most} ${Math.min(work(), work(), work())}` : `${most}`);
    // Without the time of the work.
    last = spent();
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
    return () => {
      // The system adds what a running thread has used to the file every few milliseconds, and whenever it is asked this.
      process.cpuUsage();
      return Number.parseInt(bytes.latin1Slice(0, readSync(file, bytes, 0, bytes.length, 0))) / 1e6;
    };
  } catch {
    return () => performance.now();
  }
}
