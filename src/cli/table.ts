/**
 * Rows as aligned columns, the keys of the first row; columns with only numbers are aligned to the right.
 * @param none what is said instead if there are no rows
 */
export function table(rows: readonly Record<string, string | number | null>[], none = ''): string {
  if (rows.length === 0) return none;
  const columns = Object.keys(rows[0]!);
  const cells = rows.map((row) => columns.map((column) => String(row[column] ?? '')));
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => row[i]!.length)));
  const right = columns.map((_column, i) => cells.every((row) => /^[-+]?[\d,.]*$/.test(row[i]!)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => (right[i] ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join('  ')
      .trimEnd();
  return [columns, ...cells].map(line).join('\n');
}
