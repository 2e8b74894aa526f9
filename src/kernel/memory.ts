import { totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';

/** Bytes that this process may use: the limit of its heap or, if that is less, of its container. */
export function memoryLimit(): number {
  const { heap_size_limit } = getHeapStatistics();
  // 0 or undefined: unknown. Without a limit it is the memory of the machine, or more than any machine has.
  return Math.min(heap_size_limit, process.constrainedMemory() || Infinity);
}

/** An idle service takes about 100 MB, so little is left for builds. They take less at once, and so more time. */
export const IS_MEMORY_SHORT = memoryLimit() < 320 * 2 ** 20;

/** Whether the machine or the container can keep only a few hundred MB of the stores' files in memory. */
export const ARE_FEW_PAGES_KEPT = Math.min(totalmem(), process.constrainedMemory() || Infinity) <= 2 ** 30;
