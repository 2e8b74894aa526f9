import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ELIGIBILITY_REASONS } from '../../src/features/access/eligibility.dto.js';
import { SLOW, Store, action } from '../cli/credence.js';
import { blocks, codes, read, section, tableRows } from './markdown.js';
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

test(
  'the plan of the example files is the one documented, and it can be applied',
  async () => {
    const store = await Store.create();
    try {
      const repayment = { category: 'finance', action_type: 'loan_repayment_consistency', criticality: 'Low' };
      const actions = Array.from({ length: 20 }, (_, i) =>
        Array.from({ length: 10 * (i + 1) }, (_, day) =>
          action(24 * day, { ...repayment, tris_id: `tris:p${i}`, external_id: `n-${i}-${day}` }),
        ),
      );
      await store.json('import', store.file('actions.ndjson', actions.flat()));
      const example = blocks(section(DOCUMENT, 'Policies as files'));
      for (const { language, info, text } of example) {
        if (language !== 'yaml') continue;
        mkdirSync(join(store.folder, dirname(info)), { recursive: true });
        writeFileSync(join(store.folder, info), text);
      }
      const folder = join(store.folder, 'policies');
      const { code, stdout, stderr } = await store.run('policies', 'plan', folder);
      // A slow machine shows progress on stderr.
      expect([code, code === 1 ? '' : stderr]).toEqual([1, '']);
      const [documented, rest] = example.find(({ info }) => info === 'plan')!.text.split('…');
      expect([stdout.slice(0, documented!.length), rest]).toEqual([documented, '\n']);
      expect((await store.run('policies', 'apply', folder)).code).toBe(0);
    } finally {
      await store.remove();
    }
  },
  SLOW,
);
