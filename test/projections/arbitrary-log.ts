import fc from 'fast-check';
import {
  type Given,
  accessPolicy,
  about,
  acknowledged,
  badStatus,
  badStatusCleared,
  checked,
  endorsed,
  granted,
  linked,
  platformOf,
  relayed,
  revoked,
  unlinked,
  trove,
} from './log.js';

const who = fc.constantFrom('tris:alice', 'tris:bob', 'tris:bank');
const wallet = fc.constantFrom('0xaa', '0xbb');
const platform = fc.constantFrom('lender', 'exchange');
const times = fc.record({
  occurred_at: fc
    .date({ min: new Date('2024-01-01'), max: new Date('2026-01-01'), noInvalidDate: true })
    .map((date) => date.toISOString()),
});
const criticality = fc.constantFrom('Minimal', 'Low', 'Moderate', 'High', 'Critical');
const metric = fc.constantFrom('financial_swap', 'financial_default_flags', 'social_vouch');
const event: fc.Arbitrary<Given> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(who, metric, criticality, times).map((args) => relayed(...args)) },
  {
    weight: 3,
    arbitrary: fc.tuple(who, platform, fc.integer({ min: 10, max: 140 }), times).map((args) => endorsed(...args)),
  },
  fc.tuple(platform, who).map((args) => platformOf(...args)),
  fc
    .tuple(fc.constantFrom('OrganizationRegistered', 'OrganizationVetted', 'OrganizationVettingRevoked'), who)
    .map((args) => about(...args)),
  fc.tuple(who, fc.integer({ min: 1, max: 6 })).map((args) => badStatus(...args)),
  who.map(badStatusCleared),
  fc.tuple(who, fc.constantFrom('key:ops', 'tris:kyc')).map((args) => granted(...args)),
  fc.tuple(who, fc.constantFrom('key:ops', null)).map((args) => revoked(...args)),
  fc.tuple(who, wallet, fc.constantFrom('signed', 'asserted')).map((args) => linked(...args)),
  fc.tuple(who, wallet).map((args) => unlinked(...args)),
  // Of some event of the log, which may be readable, another's, or yet to come.
  fc.tuple(fc.integer({ min: 1, max: 40 }), who).map(([n, id]) => acknowledged(`e${n}`, id)),
  fc
    .constantFrom(
      'TroveRecordSubmitted',
      'TroveProofSubmitted',
      'TroveRecordApproved',
      'TroveRecordRejected',
      'TroveRecordRevoked',
      'TroveRejectionLifted',
    )
    .map(trove),
  // The action that an approved record became.
  fc.constant({ ...relayed('tris:alice', 'creative_code', 'High'), stream: trove('TroveRecordApproved').stream }),
  fc
    .tuple(fc.constantFrom('AP_A_V1', 'AP_B_V1'), fc.constantFrom('tris:bank', null))
    .map((args) => accessPolicy(...args)),
  fc
    .tuple(who, fc.constantFrom('AP_A_V1', 'AP_B_V1'), times)
    .map(([id, policy, at]) => checked(id, policy, at.occurred_at)),
  // Events nobody can read any more: wrong data, and no valid time.
  who.map((id) => relayed(id, 'social_vouch', 'Enormous')),
  who.map((id) => relayed(id, 'social_vouch', 'High', { occurred_at: 'once upon a time' })),
);
/** Short logs of few identities, with events of every kind. */
export const logs = fc.array(event, { maxLength: 40 });

const metrics = fc.integer({ min: 1, max: 40 }).map((n) => `financial_m${n}`);
const onPlatform = fc.tuple(metrics, platform).map(([metric, platform_id]): Given => {
  const action = relayed('tris:alice', metric, 'Low');
  return { ...action, data: { ...action.data, platform_id } };
});
/** Logs in which one identity becomes large, and its platforms get owners meanwhile. */
export const logsOfLarge = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: onPlatform },
    fc.tuple(platform, who).map((args) => platformOf(...args)),
  ),
  { minLength: 90, maxLength: 160, size: 'max' },
);
