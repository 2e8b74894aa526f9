import { existsSync, readdirSync } from 'node:fs';
import { codes, read, section, tableRows } from './markdown.js';

/** docs/architecture.md names what there is. */

const DOCUMENT = read('docs/architecture.md');

test('every runtime dependency has its reason, and no other package', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  const listed = tableRows(section(DOCUMENT, 'Runtime dependencies')).flatMap(([cell]) => codes(cell!));
  expect(listed).toEqual(Object.keys(dependencies));
});

test('every event type has its stream', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.events.ts'));
  const defined = files.flatMap((file) =>
    [...read(`src/${file}`).matchAll(/defineEvent\(\s*'(\w+)'/g)].map(([, type]) => type!),
  );
  const listed = tableRows(section(DOCUMENT, 'Streams and events')).flatMap(([, cell]) => codes(cell!));
  expect(listed.sort()).toEqual(defined.sort());
});

test('every file it names exists', () => {
  const named = codes(DOCUMENT).filter((code) => /^(src|projections|test)\/[\w./-]+$/.test(code));
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((file) => !existsSync(file))).toEqual([]);
});
