import { existsSync, readdirSync } from 'node:fs';
import { codes, read, tableRows } from './markdown.js';

/** docs/decisions/ and the comments that cite it. */

const RECORDS = readdirSync('docs/decisions').filter((file) => /^\d{4}-/.test(file));
const REQUIREMENTS = [...read('docs/decisions/requirements.md').matchAll(/^(\d+)\. /gm)].map(([, n]) => Number(n));

/** Every citation in a source file, as `<file>: <number>`. */
function citations(pattern: RegExp): [file: string, number: string][] {
  return ['src', 'projections', 'test', 'bench', 'circuits', 'contracts', 'examples'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(ts|mjs|js|sol|circom)$/.test(file) && !file.includes('node_modules'))
      .flatMap((file) =>
        [...read(`${folder}/${file}`).matchAll(pattern)].flatMap(([, numbers]) =>
          numbers!.split(/, | and /).map((number): [string, string] => [`${folder}/${file}`, number]),
        ),
      ),
  );
}

test('the list has every record, in order', () => {
  const listed = tableRows(read('docs/decisions/README.md')).map(([cell]) => /\((.*)\)/.exec(cell!)![1]);
  expect(listed).toEqual(RECORDS);
});

test('requirements are numbered without a gap', () => {
  expect(REQUIREMENTS).toEqual(REQUIREMENTS.map((_, i) => i + 1));
});

test('every decision and requirement that a comment cites exists', () => {
  const decisions = citations(/docs\/decisions\/(\d{4}(?:(?:, | and )\d{4})*)/g);
  const requirements = citations(/\brequirements? (\d+(?:(?:, | and )\d+)*)/g);
  expect(decisions.length).toBeGreaterThan(5);
  expect(requirements.length).toBeGreaterThan(15);
  const known = new Set(RECORDS.map((file) => file.slice(0, 4)));
  expect(decisions.filter(([, number]) => !known.has(number))).toEqual([]);
  expect(requirements.filter(([, number]) => !REQUIREMENTS.includes(Number(number)))).toEqual([]);
});

test('a record has the sections Context, Decision and Consequence', () => {
  for (const file of RECORDS) {
    const headings = [...read(`docs/decisions/${file}`).matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
    expect([file, headings]).toEqual([file, ['Context', 'Decision', 'Consequence']]);
  }
});

test('every file that a record names exists', () => {
  const named = RECORDS.flatMap((file) => codes(read(`docs/decisions/${file}`)));
  const files = named.filter((code) => /^(src|contracts)\/[\w./-]+$/.test(code));
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
});
