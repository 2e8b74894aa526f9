import {
  type OperatorState,
  type Statement,
  decideStatement,
  operatorStateOf,
} from '../../src/features/identity/domain/identity.js';
import { type Given, badStatus, badStatusCleared, granted, logOf, revoked } from '../projections/log.js';

const ALICE = 'tris:alice';
const NOW = Date.parse('2026-01-01T00:00:00Z');
const after = (...given: Given[]) => operatorStateOf(logOf(given));
const decide = (state: OperatorState, statement: Statement) => decideStatement(state, ALICE, statement, true, NOW);
const types = (facts: { type: string }[]) => facts.map(({ type }) => type);

describe('a BAD status', () => {
  const set = (level: number, reason_code: string) => ({ kind: 'set_bad_status', level, reason_code }) as const;
  const clear = { kind: 'clear_bad_status' } as const;
  test('is set with its level and reason', () => {
    expect(decide(after(), set(3, 'fraud'))).toMatchObject([
      { type: 'BadStatusSet', data: { tris_id: ALICE, level: 3, reason_code: 'fraud' } },
    ]);
  });
  test.each([
    ['the same level and reason', 3, 'fraud', []],
    ['another level', 2, 'fraud', ['BadStatusSet']],
    ['another reason', 3, 'spam', ['BadStatusSet']],
  ])('set again with %s', (_name, level, reason, expected) => {
    expect(types(decide(after(badStatus(ALICE, 3)), set(level, reason)))).toEqual(expected);
  });
  test('is cleared only if there is one', () => {
    expect(types(decide(after(badStatus(ALICE, 3)), clear))).toEqual(['BadStatusCleared']);
    expect(decide(after(), clear)).toEqual([]);
    expect(decide(after(badStatus(ALICE, 3), badStatusCleared(ALICE)), clear)).toEqual([]);
  });
  test('can be set again once cleared', () => {
    const state = after(badStatus(ALICE, 3), badStatusCleared(ALICE));
    expect(types(decide(state, set(3, 'fraud')))).toEqual(['BadStatusSet']);
  });
});

describe('a verification', () => {
  const grant = { status: 'zk-KYH', issuer: 'key:ops', expires_at: null, evidence_hash: 'aa' } as const;
  test('is granted by an operator', () => {
    expect(decide(after(), { kind: 'grant', grant })).toMatchObject([
      { type: 'VerificationGranted', data: { tris_id: ALICE, scheme: 'operator', ...grant, operator: true } },
    ]);
  });
  test('is not granted once it has expired', () => {
    const until = (ms: number) =>
      decide(after(), { kind: 'grant', grant: { ...grant, expires_at: new Date(ms).toISOString() } });
    expect(types(until(NOW + 1))).toEqual(['VerificationGranted']);
    for (const ms of [NOW, NOW - 1]) {
      expect(() => until(ms)).toThrow('expires_at must be in the future');
    }
  });
  test.each([
    ['its issuer', 'key:ops', ['VerificationRevoked']],
    ['an operator for everybody', null, ['VerificationRevoked']],
    ['another issuer', 'tris:kyc', []],
  ])('is revoked by %s', (_name, issuer, expected) => {
    const grants = { status: 'zk-KYH', issuer, scheme: null } as const;
    expect(types(decide(after(granted(ALICE, 'key:ops')), { kind: 'revoke', grants: grants }))).toEqual(expected);
  });
  test('is not revoked if it is not held, or no longer held', () => {
    const anyKyh = { status: 'zk-KYH', issuer: null, scheme: null } as const;
    const held = granted(ALICE, 'key:ops');
    expect(decide(after(held), { kind: 'revoke', grants: { ...anyKyh, status: 'zk-KYC (ID only)' } })).toEqual([]);
    expect(decide(after(held), { kind: 'revoke', grants: { ...anyKyh, scheme: 'kyh-poseidon' } })).toEqual([]);
    expect(decide(after(held, revoked(ALICE, null)), { kind: 'revoke', grants: anyKyh })).toEqual([]);
  });
});
