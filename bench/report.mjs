import { readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { format, resolveConfig } from 'prettier';
import { machine } from './measure.mjs';

const HEAD = ['| what | ours | against | ratio | wanted | measured |', '|---|---|---|---|---|---|'];
/** The load of the machine from other work, when the run began. */
const [loadBefore] = loadavg();

const line = (row) =>
  `| ${row.join(' | ')} | ${new Date().toISOString().slice(0, 10)}, load ${loadBefore.toFixed(1)} |`;
const whatOf = (tableLine) => tableLine.split('|')[1].trim();

export function tableOf(rows) {
  return [...HEAD, ...rows.map(line)].join('\n');
}

/**
 * Puts rows into the first table below a heading of docs/benchmarks.md: an existing row with the same first cell
 * is replaced, the others and all text stay. The line on the machine, above the table, is of the last run.
 */
export async function report(file, rows, about, heading) {
  await changeTable(file, heading, about, (lines) => {
    const table = new Map(lines.slice(HEAD.length).map((text) => [whatOf(text), text]));
    for (const row of rows) table.set(row[0], line(row));
    return [...HEAD, ...table.values()];
  });
}

/** Puts lines in place of the first table below a heading, and renews the line on the machine above it. */
export async function replaceTable(file, heading, table, about) {
  await changeTable(file, heading, `${about}; load of other work ${loadBefore.toFixed(1)}`, () => table);
}

async function changeTable(file, heading, about, change) {
  const lines = (await readFile(file, 'utf8')).split('\n');
  const section = lines.indexOf(heading);
  const first = lines.findIndex((text, n) => n > section && text.startsWith('|') && whatOf(text) === 'what');
  if (section < 0 || first < 0) throw new Error(`${file} has no table of figures below "${heading}".`);
  let end = first;
  while (lines[end]?.startsWith('|')) end++;
  const before = lines.slice(0, first);
  const said = before.findLastIndex((text) => text.startsWith('Last run: '));
  if (said > section) before[said] = `Last run: ${machine()}; ${about}`;
  const text = [...before, ...change(lines.slice(first, end)), ...lines.slice(end)].join('\n');
  const options = { ...(await resolveConfig(file)), filepath: file };
  await writeFile(file, await format(text, options));
}
