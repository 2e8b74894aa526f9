import { decodeEvent } from '../../projections/events.js';
import { evolve, newIdentity } from '../../projections/identities.js';
import { subjectOf } from '../../projections/identity-events.js';
import type { IdentitySnapshot } from '../../src/features/disc/identity-reader.js';
import { ReportBuilder, monthsBefore } from '../../src/features/disc/report.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { type Given, logOf, relayed } from '../projections/log.js';

/** What belongs to the period of a report, and what does not. */

const ALICE = 'tris:alice';

test.each([
  ['2026-06-15T10:20:30.456Z', 3, '2026-03-15T10:20:30.456Z'],
  ['2026-01-15T00:00:00.000Z', 3, '2025-10-15T00:00:00.000Z'],
  ['2026-05-31T23:59:59.999Z', 3, '2026-02-28T23:59:59.999Z'],
  ['2024-05-31T23:59:59.999Z', 3, '2024-02-29T23:59:59.999Z'],
  ['2024-02-29T12:00:00.000Z', 12, '2023-02-28T12:00:00.000Z'],
  ['2026-07-31T00:00:00.000Z', 1, '2026-06-30T00:00:00.000Z'],
])('the period up to %s of %i months begins after %s', (to, months, from) => {
  expect(new Date(monthsBefore(Date.parse(to), months)).toISOString()).toBe(from);
});

test('a report counts what occurred after its beginning, and up to its end', async () => {
  const [from, to] = ['2026-02-28T12:00:00.000Z', '2026-05-31T12:00:00.000Z'];
  const action = (metric: string, platform_id: string, occurred_at: string): Given => {
    const event = relayed(ALICE, metric, 'Critical', { occurred_at });
    return { ...event, data: { ...event.data, platform_id } };
  };
  const events = logOf([
    action('social_before', 'before', from),
    action('social_within', 'first', '2026-02-28T12:00:00.001Z'),
    action('social_within', 'last', to),
  ]).map((event) => subjectOf(decodeEvent(event))!.event);
  const state = newIdentity();
  for (const event of events) evolve(state, event);
  const lens = scoringBy(MODEL_LENS, disc1);
  const of = { tris_id: ALICE, as_of: Date.parse(to), isPresent: false, position: 3, lens, generation: 'g' };
  const snapshot: IdentitySnapshot = { ...of, state, large: null, trusts: () => true };
  const builder = new ReportBuilder(snapshot, 3, 'insight');
  for (const event of events) builder.addEvent(event);
  for (const { occurred_at, position } of [...events, { occurred_at: Date.parse(to) + 1, position: 4 }]) {
    builder.addCredonation({ from: `tris:${position}`, amount: 140, occurred_at, category: 'social' });
  }

  const report = await builder.build('log');
  expect(report.period).toEqual({ from, to });
  expect(report.actions_by_metric).toEqual({ social_within: 2 });
  expect(report.top_platforms.map(({ platform_id }) => platform_id)).toEqual(['first', 'last']);
  expect(report.top_credonators.map(({ from: sender }) => sender)).toEqual(['tris:2', 'tris:3']);
  expect(report.trajectory.map(({ at, total_tct }) => [at, total_tct])).toEqual([
    [from, 140],
    ['2026-03-31T04:00:00.000Z', 280],
    ['2026-04-30T20:00:00.000Z', 280],
    [to, 420],
  ]);
});
