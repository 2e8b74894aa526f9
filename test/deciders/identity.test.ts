import {
  decideClearBadStatus,
  decideGrant,
  decideRevoke,
  decideSetBadStatus,
  operatorStateOf,
} from '../../src/features/identity/domain/identity.js';
import { type Given, badStatus, badStatusCleared, granted, logOf, revoked } from '../projections/log.js';

const ALICE = 'tris:alice';
const NOW = Date.parse('2026-01-01T00:00:00Z');
const after = (...given: Given[]) => operatorStateOf(logOf(given));
const types = (facts: { type: string }[]) => facts.map(({ type }) => type);

describe('a BAD status', () => {
  test('is set with its level and reason', () => {
    expect(decideSetBadStatus(after(), ALICE, 3, 'fraud')).toMatchObject([
      { type: 'BadStatusSet', data: { tris_id: ALICE, level: 3, reason_code: 'fraud' } },
    ]);
  });
  test.each([
    ['the same level and reason', 3, 'fraud', []],
    ['another level', 2, 'fraud', ['BadStatusSet']],
    ['another reason', 3, 'spam', ['BadStatusSet']],
  ])('set again with %s', (_name, level, reason, expected) => {
    expect(types(decideSetBadStatus(after(badStatus(ALICE, 3)), ALICE, level, reason))).toEqual(expected);
  });
  test('is cleared only if there is one', () => {
    expect(types(decideClearBadStatus(after(badStatus(ALICE, 3)), ALICE))).toEqual(['BadStatusCleared']);
    expect(decideClearBadStatus(after(), ALICE)).toEqual([]);
    expect(decideClearBadStatus(after(badStatus(ALICE, 3), badStatusCleared(ALICE)), ALICE)).toEqual([]);
  });
  test('can be set again once cleared', () => {
    const state = after(badStatus(ALICE, 3), badStatusCleared(ALICE));
    expect(types(decideSetBadStatus(state, ALICE, 3, 'fraud'))).toEqual(['BadStatusSet']);
  });
});

describe('a verification', () => {
  const grant = { status: 'zk-KYH', issuer: 'key:ops', operator: true, expires_at: null, evidence_hash: 'aa' } as const;
  test('is granted by an operator', () => {
    expect(decideGrant(ALICE, grant, NOW)).toMatchObject([
      { type: 'VerificationGranted', data: { tris_id: ALICE, scheme: 'operator', ...grant } },
    ]);
  });
  test('is not granted once it has expired', () => {
    const until = (ms: number) => ({ ...grant, expires_at: new Date(ms).toISOString() });
    expect(types(decideGrant(ALICE, until(NOW + 1), NOW))).toEqual(['VerificationGranted']);
    for (const ms of [NOW, NOW - 1]) {
      expect(() => decideGrant(ALICE, until(ms), NOW)).toThrow('expires_at must be in the future');
    }
  });
  test.each([
    ['its issuer', 'key:ops', ['VerificationRevoked']],
    ['an operator for everybody', null, ['VerificationRevoked']],
    ['another issuer', 'tris:kyc', []],
  ])('is revoked by %s', (_name, issuer, expected) => {
    const grants = { status: 'zk-KYH', issuer, scheme: null } as const;
    expect(types(decideRevoke(after(granted(ALICE, 'key:ops')), ALICE, grants))).toEqual(expected);
  });
  test('is not revoked if it is not held, or no longer held', () => {
    const anyKyh = { status: 'zk-KYH', issuer: null, scheme: null } as const;
    const held = granted(ALICE, 'key:ops');
    expect(decideRevoke(after(held), ALICE, { ...anyKyh, status: 'zk-KYC (ID only)' })).toEqual([]);
    expect(decideRevoke(after(held), ALICE, { ...anyKyh, scheme: 'kyh-poseidon' })).toEqual([]);
    expect(decideRevoke(after(held, revoked(ALICE, null)), ALICE, anyKyh)).toEqual([]);
  });
});
