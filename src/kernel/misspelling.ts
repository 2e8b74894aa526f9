/** The known name that an unknown one is probably a misspelling of: the closest one, at most `edits` edits away. */
export function similarName(unknown: string, known: Iterable<string>, edits: number): string | undefined {
  let closest: { name: string; distance: number } | undefined;
  for (const name of known) {
    if (Math.abs(name.length - unknown.length) > edits) continue;
    const distance = editDistance(unknown, name);
    if (distance <= edits && (!closest || distance < closest.distance)) closest = { name, distance };
  }
  return closest?.name;
}

/** How many characters have to be inserted, deleted or replaced, or neighbours exchanged (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let [before, row] = [[0], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const exchanged = i > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? before[j - 2]! + 1 : Infinity;
      next.push(Math.min(replaced, exchanged, row[j]! + 1, next[j - 1]! + 1));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
