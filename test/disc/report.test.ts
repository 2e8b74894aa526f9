import { decodeEvent } from '../../projections/events.js';
import { monthsBefore, reportOf } from '../../src/features/disc/report.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { type Given, endorsed, logOf, relayed } from '../projections/log.js';
import { folded } from './growing-views.js';

/** What belongs to the period of a report, and what does not. */

const ALICE = 'tris:alice';

test.each([
  ['2026-06-15T10:20:30.456Z', 3, '2026-03-15T10:20:30.456Z'],
  ['2026-01-15T00:00:00.000Z', 3, '2025-10-15T00:00:00.000Z'],
  ['2026-05-31T23:59:59.999Z', 3, '2026-02-28T23:59:59.999Z'],
  ['2024-05-31T23:59:59.999Z', 3, '2024-02-29T23:59:59.999Z'],
  ['2024-02-29T12:00:00.000Z', 12, '2023-02-28T12:00:00.000Z'],
  ['2026-07-31T00:00:00.000Z', 1, '2026-06-30T00:00:00.000Z'],
  ['0004-03-31T00:00:00.000Z', 1, '0004-02-29T00:00:00.000Z'],
  ['0000-03-31T00:00:00.000Z', 1, '0000-02-29T00:00:00.000Z'],
  ['0000-03-31T00:00:00.000Z', 12, '0000-01-01T00:00:00.000Z'],
])('the period up to %s of %i months begins after %s', (to, months, from) => {
  expect(new Date(monthsBefore(Date.parse(to), months)).toISOString()).toBe(from);
});

test('a report counts what occurred after its beginning, and up to its end', async () => {
  const [from, to] = ['2026-02-28T12:00:00.000Z', '2026-05-31T12:00:00.000Z'];
  const action = (metric: string, platform_id: string, occurred_at: string): Given => {
    const event = relayed(ALICE, metric, 'Critical', { occurred_at });
    return { ...event, data: { ...event.data, platform_id } };
  };
  const credonation = (from: string, occurred_at: string): Given => endorsed(ALICE, from, 140, { occurred_at });
  const log = logOf([
    action('social_before', 'before', from),
    credonation('before', from),
    action('social_within', 'first', '2026-02-28T12:00:00.001Z'),
    credonation('first', '2026-02-28T12:00:00.001Z'),
    action('social_within', 'last', to),
    credonation('last', to),
    credonation('after', '2026-05-31T12:00:00.001Z'),
  ]).map(decodeEvent);
  const lens = scoringBy(MODEL_LENS, disc1);
  const of = { tris_id: ALICE, as_of: Date.parse(to), isPresent: false, position: 7, lens, generation: 'g' };
  const report = await reportOf(await folded(log, of), 3, 'insight', 'log');
  expect(report.period).toEqual({ from, to });
  expect(report.actions_by_metric).toEqual({ social_within: 2 });
  expect(report.top_platforms.map(({ platform_id }) => platform_id)).toEqual(['first', 'last']);
  expect(report.top_credonators.map(({ from: sender }) => sender)).toEqual([
    'tris:platform:first',
    'tris:platform:last',
  ]);
  expect(report.trajectory.map(({ at, total_tct }) => [at, total_tct])).toEqual([
    [from, 140],
    ['2026-03-31T04:00:00.000Z', 280],
    ['2026-04-30T20:00:00.000Z', 280],
    [to, 420],
  ]);
});
