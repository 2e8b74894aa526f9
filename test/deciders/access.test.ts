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
