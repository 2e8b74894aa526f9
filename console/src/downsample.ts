/**
 * Selects points of a line for drawing: of each of `buckets` equal spans of time the first, the lowest, the highest and
 * the last one, so that the line looks as if all were drawn.
 * @param times ascending
 * @returns indices, ascending, without duplicates: at most 4 × (buckets + 1) of those from `start` up to but excluding `end`
 */
export function downsample(
  times: readonly number[],
  values: readonly number[],
  start: number,
  end: number,
  buckets: number,
): number[] {
  if (end - start <= 4 * buckets) return Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);
  const kept: number[] = [];
  const from = times[start]!;
  const width = (times[end - 1]! - from) / buckets || 1;
  for (let i = start; i < end;) {
    const bucket = Math.floor((times[i]! - from) / width);
    let lowest = i;
    let highest = i;
    let last = i;
    for (let j = i; j < end && Math.floor((times[j]! - from) / width) === bucket; j++) {
      if (values[j]! < values[lowest]!) lowest = j;
      if (values[j]! > values[highest]!) highest = j;
      last = j;
    }
    for (const index of [i, ...[lowest, highest].sort((a, b) => a - b), last]) {
      if (kept.at(-1) === undefined || index > kept.at(-1)!) kept.push(index);
    }
    i = last + 1;
  }
  return kept;
}
