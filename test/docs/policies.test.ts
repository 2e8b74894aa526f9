import { ELIGIBILITY_REASONS } from '../../src/features/access/eligibility.dto.js';
import { codes, read, section, tableRows } from './markdown.js';
import { follow } from './tour.js';

/** docs/policies.md: its commands give the answers that stand below them. */

const DOCUMENT = read('docs/policies.md');

test('every command returns the answer documented below it', async () => {
  expect(await follow(DOCUMENT)).toBeGreaterThan(5);
});

test('every reason for which a token is not active', () => {
  const text = section(DOCUMENT, 'Eligibility tokens');
  const listed = tableRows(text.slice(text.indexOf('| Reason'))).map(([reason]) => codes(reason!)[0]);
  expect(listed).toEqual([...ELIGIBILITY_REASONS]);
});
