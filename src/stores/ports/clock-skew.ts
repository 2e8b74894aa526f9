/** More than this between the clock of a process and that of the shared store, in ms, is worth a warning. */
export const MOST_SKEW_MS = 2_000;

/** @param skew ms, positive if ahead */
export function skewOf(skew: number): string {
  return `${(Math.abs(skew) / 1000).toFixed(1)} s ${skew < 0 ? 'behind' : 'ahead of'}`;
}
