import { isDue, yieldIfDue } from '../../kernel/turn.js';

/**
 * The numbers of the items with the largest values, largest first, then by name. However many items there are, other
 * requests can run meanwhile.
 * @param numbers of the items
 * @param values by number
 * @param names by number, all different
 */
export async function largest(
  numbers: readonly number[],
  values: Float64Array,
  names: readonly string[],
  limit: number,
): Promise<number[]> {
  const order = (a: number, b: number) => values[b]! - values[a]! || (names[a]! < names[b]! ? -1 : a === b ? 0 : 1);
  let found: number[] = [];
  /** `limit` items come up to here in the order, so none after it is wanted. */
  let last: number | undefined;
  for (const n of numbers) {
    if (isDue()) await yieldIfDue();
    if (last !== undefined && order(n, last) > 0) continue;
    found.push(n);
    if (found.length < 2 * limit) continue;
    found = found.sort(order).slice(0, limit);
    last = found.at(-1);
  }
  found.sort(order);
  await yieldIfDue();
  return found.slice(0, limit);
}
