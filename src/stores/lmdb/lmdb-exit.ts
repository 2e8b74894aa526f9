/**
 * For a transaction with a callback, LMDB's thread calls the main thread and waits for it. If the process ends
 * meanwhile, by `process.exit` or an uncaught error, it waits for LMDB's thread: a deadlock.
 */

/** The number of transactions that have started and are not settled. */
let waiting = 0;
let fatal: Error | undefined;

/** Counts a transaction with a callback, from before its start until it is settled. */
export function awaitingCall<T>(transaction: Promise<T>): Promise<T> {
  waiting++;
  return transaction.finally(() => waiting--);
}

process.on('uncaughtExceptionMonitor', (error) => (fatal = error));
process.on('exit', () => {
  if (waiting === 0) return;
  // Node would print it after this.
  if (fatal) process.stderr.write(`${fatal.stack ?? String(fatal)}\n`);
  // No acknowledged write is lost.
  process.kill(process.pid, 'SIGKILL');
});
