import { existsSync, readdirSync } from 'node:fs';
import { codes, read, section, tableRows } from './markdown.js';

/** docs/architecture.md names what there is. */

const DOCUMENT = read('docs/architecture.md');

const folders = (parent: string): string[] =>
  readdirSync(parent, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? [`${parent}${entry.name}/`] : [],
  );

test('every folder of the sources has a line, and every feature', () => {
  const listed = tableRows(section(DOCUMENT, 'Folders')).flatMap(([cell]) => codes(cell!));
  expect(listed).toEqual(expect.arrayContaining(folders('src/')));
  const features = section(DOCUMENT, 'Folders').split('The features:')[1]!;
  expect(tableRows(features).map(([cell]) => codes(cell!)[0])).toEqual(
    expect.arrayContaining(folders('src/features/')),
  );
});

test('every file it names exists', () => {
  const named = codes(DOCUMENT).filter((code) => /^(src|projections|test|scripts|docs)\/[\w./-]+$/.test(code));
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((file) => !existsSync(file))).toEqual([]);
});

test('README and architecture have at most 200 lines', () => {
  for (const file of ['README.md', 'docs/architecture.md'])
    expect(read(file).split('\n').length).toBeLessThanOrEqual(201);
});
