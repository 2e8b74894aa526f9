import { read } from './markdown.js';
import { follow } from './tour.js';

/** docs/tour.md: its commands give the answers that stand below them. */

test('every command of the tour returns the answer documented below it', async () => {
  expect(await follow(read('docs/tour.md'))).toBeGreaterThan(10);
});
