import { codes, read, tableRows } from './markdown.js';

/** docs/dependencies.md gives a reason for every package that the service runs on. */

test('every runtime dependency has its reason, and no other package', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  const listed = tableRows(read('docs/dependencies.md')).flatMap(([cell]) => codes(cell!));
  expect(listed).toEqual(Object.keys(dependencies));
});
