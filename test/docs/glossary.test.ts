import { GLOSSARY } from '../../console/src/glossary.js';
import { read, tableRows } from './markdown.js';

test('docs/glossary.md has the words of the console, in the same sentences', () => {
  const listed = tableRows(read('docs/glossary.md')).map(([word, meaning]) => [word, meaning!.replaceAll('`', '')]);
  expect(listed).toEqual(Object.entries(GLOSSARY));
});
