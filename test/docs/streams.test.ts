import { readdirSync } from 'node:fs';
import { codes, read, tableRows } from './markdown.js';

/** docs/streams.md is the catalogue of events. */

test('every event type has its stream', () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.events.ts'));
  const defined = files.flatMap((file) =>
    [...read(`src/${file}`).matchAll(/defineEvent\(\s*'(\w+)'/g)].map(([, type]) => type!),
  );
  const listed = tableRows(read('docs/streams.md')).flatMap(([, cell]) => codes(cell!));
  expect(listed.sort()).toEqual(defined.sort());
});
