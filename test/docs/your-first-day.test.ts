import { spawnSync } from 'node:child_process';
import { blocks, read } from './markdown.js';

/** The change that docs/your-first-day.md makes. */

const steps = blocks(read('docs/your-first-day.md'));

test('its changes fit the files as they are', () => {
  const changes = steps.filter(({ language }) => language === 'diff');
  expect(changes).toHaveLength(2);
  for (const { text } of changes) {
    const { status, stderr } = spawnSync('git', ['apply', '--check', '-'], { input: text, encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
  }
});

test('the tests that it says fail are there', () => {
  const [rating, hash] = steps.filter(({ language }) => language === 'text').map(({ text }) => text.trim());
  expect(rating).toBe('a score of 41.9 is rated Fair');
  expect(read('test/scoring/score.test.ts')).toContain("'a score of %d is rated %s'");
  expect(read('test/scoring/models.test.ts')).toContain(`'${hash}'`);
});
