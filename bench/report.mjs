import { readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { format, resolveConfig } from 'prettier';
import { machine } from './measure.mjs';

const HEAD = ['| what | ours | against | ratio | wanted | measured |', '|---|---|---|---|---|---|'];
/** Of the machine when the run began: what else it had to do. */
const [loadBefore] = loadavg();

const line = (row) =>
  `| ${row.join(' | ')} | ${new Date().toISOString().slice(0, 10)}, load ${loadBefore.toFixed(1)} |`;
const whatOf = (tableLine) => tableLine.split('|')[1].trim();

export function tableOf(rows) {
  return [...HEAD, ...rows.map(line)].join('\n');
}

/**
 * Puts rows into the table of docs/benchmarks.md: a row that stands there with the same first cell is replaced, the others
 * and all text stay. The line on the machine is of the last run.
 */
export async function report(file, rows, rounds) {
  const lines = (await readFile(file, 'utf8')).split('\n');
  const first = lines.findIndex((text) => text.startsWith('|') && whatOf(text) === 'what');
  if (first < 0) throw new Error(`${file} has no table of figures.`);
  let end = first + HEAD.length;
  while (lines[end]?.startsWith('|')) end++;
  const table = new Map(lines.slice(first + HEAD.length, end).map((text) => [whatOf(text), text]));
  for (const row of rows) table.set(row[0], line(row));
  const text = [...lines.slice(0, first), ...HEAD, ...table.values(), ...lines.slice(end)].join('\n');
  const about = `Last run: ${machine()}; medians of ${rounds} interleaved rounds.`;
  const options = { ...(await resolveConfig(file)), filepath: file };
  await writeFile(file, await format(text.replace(/^Last run: .*$/m, about), options));
}
