/** null, undefined: empty. */
export type Cell = string | number | boolean | null | undefined;

/**
 * A line of a CSV file (RFC 4180). Cells are the exact data: one that a spreadsheet would take for a formula is not
 * changed.
 */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`;
}

function cellOf(value: Cell): string {
  const text = String(value ?? '');
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
