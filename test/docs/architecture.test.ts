import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
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

test('the features that a feature may import are those of the checked rules', () => {
  const { forbidden } = createRequire(import.meta.url)('../../.dependency-cruiser.cjs') as {
    forbidden: { name: string; to: { pathNot: string[] } }[];
  };
  const nameOf = (folder: string): string => /features\/([\w-]+)\//.exec(folder)![1]!;
  const checked = forbidden
    .filter(({ name }) => name.startsWith('feature-'))
    .map(({ name, to }) => [name.replace('feature-', ''), to.pathNot.slice(1).map(nameOf)]);
  const features = section(DOCUMENT, 'Folders').split('The features:')[1]!;
  const documented = tableRows(features).map(([folder, , imports]) => {
    return [nameOf(folder!), imports === '-' ? [] : imports!.split(', ')];
  });
  expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(checked));
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
