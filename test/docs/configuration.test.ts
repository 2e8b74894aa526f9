import { configurationTable } from '../../src/kernel/config.js';
import { read } from './markdown.js';

test('docs/configuration.md has the table that is made from the configuration', () => {
  const text = read('docs/configuration.md');
  const [, table] = /<!-- configuration:.*-->\n([\s\S]*?)\n<!-- prettier-ignore-end -->/.exec(text)!;
  expect(table).toBe(configurationTable());
});
