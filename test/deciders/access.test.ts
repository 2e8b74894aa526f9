import { newIdentity } from '../../projections/identities.js';
import type { IdentityReader } from '../../src/features/disc/identity-reader.js';
import { MODEL_LENS } from '../../src/scoring/lens.js';
import { scoringBy } from '../../src/scoring/models/all.js';
import { disc1 } from '../../src/scoring/models/disc-1.js';
import { observe } from '../../src/features/access/subjects.js';
import { unknownIdentity } from '../../src/kernel/problems.js';
import { checkedAt, decideRevoke, grantOf } from '../../src/features/access/domain/decision.js';
import { RECORDED, checked, logOf } from '../projections/log.js';

const decision = checked('tris:alice', 'AP_A_V1');
const granted = { ...decision, data: { ...decision.data, granted: true } };
const revoked = { type: 'EligibilityRevoked', data: { jti: 'j' } };

test('a token is revoked once', () => {
  const events = decideRevoke(grantOf(logOf([granted]))!);
  expect(events.map(({ type, data }) => [type, data])).toEqual([['EligibilityRevoked', { jti: 'j' }]]);
  expect(decideRevoke(grantOf(logOf([granted, revoked]))!)).toEqual([]);
});

test('a denial has issued no token', () => {
  expect(grantOf(logOf([decision]))).toBeUndefined();
});

test('a decision was made at the time of its facts, or when it was recorded if a clock ahead gave them a later one', () => {
  const recorded = Date.parse(RECORDED);
  const factsAt = (ms: number) => ({ as_of: new Date(ms).toISOString() });
  expect(checkedAt(factsAt(recorded - 5), recorded)).toBe(recorded - 5);
  expect(checkedAt(factsAt(recorded + 5), recorded)).toBe(recorded);
});

test('a subject that is not known is observed where it was not found, by the model of that state', async () => {
  const lens = scoringBy(MODEL_LENS, disc1);
  const seen = { state: newIdentity(), lens, position: 7, as_of: 1, trusts: () => true };
  const look = async () => ({ snapshots: [unknownIdentity('tris:new'), seen], lens, position: 7 });
  const identities = { look } as unknown as IdentityReader;
  expect(await observe(['tris:new', 'tris:alice'], { vp: null, owner: null }, identities, 1)).toMatchObject([
    { seen: null, position: 7, model: disc1, now: 1, as_of: 1 },
    { seen: { lens } },
  ]);
});
