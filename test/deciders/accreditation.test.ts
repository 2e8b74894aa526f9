import {
  accreditationOf,
  decideAccreditation,
  isTrusted,
  lastChange,
} from '../../src/features/identity/domain/accreditation.js';
import type { GrantableStatus, Verification } from '../../src/features/identity/domain/identity.js';
import { type Given, logOf } from '../projections/log.js';

const BANK = 'tris:bank';
const [KYH, KYC] = ['zk-KYH', 'zk-KYC (ID only)'] as const;
const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
const accredited = (minute: number, ...statuses: GrantableStatus[]): Given => ({
  type: 'IssuerAccredited',
  data: { issuer: BANK, statuses },
  recorded_at: at(minute),
});
const withdrawn = (minute: number, ...statuses: GrantableStatus[]): Given => ({
  ...accredited(minute, ...statuses),
  type: 'AccreditationWithdrawn',
});
const held: Verification = { status: KYH, issuer: BANK, scheme: 'operator', operator: false, expires_at: null };
/** Accredited by the event at position 1, not any more from position 2 on, and again from position 3 on. */
const bank = accreditationOf(logOf([accredited(1, KYH), withdrawn(2, KYH), accredited(3, KYH, KYC)]));

test('a grant counts from the position of the accreditation on, and until before that of its withdrawal', () => {
  expect([0, 1, 2, 3, 4].filter((position) => isTrusted(held, bank, position))).toEqual([1, 3, 4]);
  expect([0, 1, 2, 3].filter((position) => isTrusted({ ...held, status: KYC }, bank, position))).toEqual([3]);
});

test('operators’ grants and proofs count without an accreditation', () => {
  expect(isTrusted(held, undefined, 1)).toBe(false);
  expect(isTrusted({ ...held, operator: true }, undefined, 1)).toBe(true);
  expect(isTrusted({ ...held, scheme: 'kyh-circuit' }, undefined, 1)).toBe(true);
});

test('the last change known at a time is one recorded at that time at the latest, and before the position', () => {
  const times = [0, 1, 2, 3].map((minute) => lastChange(bank, Date.parse(at(minute)), 4));
  expect(times).toEqual([0, 1, 2, 3]);
  expect(lastChange(bank, Date.parse(at(3)), 3)).toBe(2);
  expect(lastChange(undefined, Date.parse(at(3)), 4)).toBe(0);
});

test('only what changes is decided', () => {
  const statuses = (facts: ReturnType<typeof decideAccreditation>) =>
    facts.map(({ type, data }) => [type, data['statuses']]);
  const one = accreditationOf(logOf([accredited(1, KYH)]));
  expect(statuses(decideAccreditation(one, BANK, { accredit: [KYH] }))).toEqual([]);
  expect(statuses(decideAccreditation(one, BANK, { accredit: [KYH, KYC] }))).toEqual([['IssuerAccredited', [KYC]]]);
  expect(statuses(decideAccreditation(one, BANK, { withdraw: [KYC] }))).toEqual([]);
  expect(statuses(decideAccreditation(bank, BANK, { withdraw: [KYC] }))).toEqual([['AccreditationWithdrawn', [KYC]]]);
  expect(statuses(decideAccreditation(bank, BANK, { withdraw: null }))).toEqual([
    ['AccreditationWithdrawn', [KYH, KYC]],
  ]);
});
