import { readdirSync, readFileSync } from 'node:fs';

test('CONTRIBUTING.md lists every folder of tests, once', () => {
  const listed = [...readFileSync('CONTRIBUTING.md', 'utf8').matchAll(/^\| `test\/(\S+)` /gm)].map(([, name]) => name);
  const folders = readdirSync('test', { withFileTypes: true }).filter((entry) => entry.isDirectory());
  expect(listed.sort()).toEqual(folders.map(({ name }) => name).filter((name) => name !== 'node_modules'));
});
