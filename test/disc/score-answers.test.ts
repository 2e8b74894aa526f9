import { evolve, newIdentity } from '../../projections/identities.js';
import type { IdentityEvent } from '../../projections/identity-events.js';
import type { IdentitySnapshot } from '../../src/features/disc/identity-reader.js';
import { ScoreAnswers, discScore, etagPartsOf } from '../../src/features/disc/score.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { disc2 } from '../../src/scoring/models/disc-2.js';

/** What is kept of answers never shows: each is what would be computed anew. */

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 15);

function sightOf(actions: number, changes: Partial<IdentitySnapshot> = {}): IdentitySnapshot {
  const state = newIdentity();
  for (let position = 1; position <= actions; position++) {
    const at = NOW - position * DAY_MS;
    const data = {
      tris_id: 'tris:a',
      metric: 'financial_swap',
      criticality: 'High',
      platform_id: 'p',
      evidence_hash: null,
    };
    const header = { id: `e${position}`, stream: 's', position, occurred_at: at, recorded_at: at };
    evolve(state, { ...header, type: 'ActionRelayed', data } as IdentityEvent);
  }
  return {
    tris_id: 'tris:a',
    as_of: NOW,
    isPresent: true,
    position: 99,
    lens: scoringBy(MODEL_LENS, disc1),
    generation: 'g1',
    state,
    trusts: () => true,
    reader: { row: {} } as IdentitySnapshot['reader'],
    ...changes,
  };
}

test('a cached answer is returned only for the same state, lens, time and generation', () => {
  const answers = new ScoreAnswers();
  const lens = {
    ...MODEL_LENS,
    model: disc1,
    content_hash: 'other',
    tct_by_metric: new Map([['financial_swap', 140]]),
  };
  const bad = { ...sightOf(2).state, bad_status: { level: 3, reason_code: 'x', since: 1 } };
  const changes = [
    { as_of: NOW + 400 * DAY_MS },
    { lens },
    { lens: scoringBy(MODEL_LENS, disc2) },
    { isPresent: false, state: bad },
    { generation: 'g2', state: bad },
    { tris_id: 'tris:b' },
  ];
  // Each change beside an answer that differs in nothing else.
  const changed = changes.flatMap((change) => [sightOf(2), sightOf(2, change)]);
  const sights = [sightOf(1), sightOf(1, { position: 100 }), ...changed, sightOf(1)];
  const texts = sights.map((sight) => answers.of(sight));
  expect(texts).toEqual(sights.map((sight) => JSON.stringify(discScore(sight))));
  expect(new Set(texts).size).toBe(6);
  // Computed once: it differs from the last in nothing that an answer depends on.
  const same = sightOf(1, { position: 100 });
  Object.defineProperty(same.state, 'evidence', {
    get: () => {
      throw new Error('computed again');
    },
  });
  expect(answers.of(same)).toBe(texts.at(-1));
});

test('the ETag of an answer changes with everything that the answer depends on', () => {
  const same = sightOf(1);
  const others = [
    { position: 100 },
    { as_of: NOW + 1 },
    { generation: 'g2' },
    { lens: scoringBy(MODEL_LENS, disc2) },
    { lens: scoringBy({ ...MODEL_LENS, content_hash: 'other' }, disc1) },
    { reader: { row: { disputes: ['d'] } } as unknown as IdentitySnapshot['reader'] },
  ].map((changes) => ({ ...same, ...changes }));
  expect(etagPartsOf(sightOf(1))).toEqual(etagPartsOf(same));
  for (const other of others) expect(etagPartsOf(other)).not.toEqual(etagPartsOf(same));
});
