/**
 * How long to wait after an attempt that failed, ms: `from` at first, then twice as long after each further failure, but
 * never longer than `most`. The defaults suit a store or a connection that may be back at any moment.
 * @param failures in a row, 1 or more
 */
export function backoff(failures: number, { from = 50, most = 500 } = {}): number {
  return Math.min(from * 2 ** (failures - 1), most);
}
