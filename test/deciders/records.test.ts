import {
  type Submission,
  approvalOf,
  decideLift,
  decideRevoke,
  decideSubmit,
  isRuledOut,
  troveRecordOf,
} from '../../src/features/trove/domain/record.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { actionIn, decideChange } from '../../src/features/relay/domain/withdrawal.js';
import { type Given, RECORDED, endorsed, logOf, relayed, trove } from '../projections/log.js';

const BANK = 'tris:bank';
const submitted = (more: object = {}): Given => {
  const event = trove('TroveRecordSubmitted');
  return { ...event, schema: 2, data: { ...event.data, submitter: null, ...more } };
};
const ruling = (type: 'TroveRecordApproved' | 'TroveRecordRejected', reviewer: string | null): Given => {
  const event = trove(type);
  return { ...event, schema: 2, data: { ...event.data, reviewer } };
};
/** Whether anybody may still approve the record for a platform. */
const isOut = (owner: string | null, ...events: Given[]) => isRuledOut(troveRecordOf(logOf(events))!, 'app', owner);

test.each<[string, boolean, string | null, Given[]]>([
  ['nobody has decided', false, BANK, [submitted()]],
  [
    'an operator has rejected it, and the owner may approve it',
    false,
    BANK,
    [submitted(), ruling('TroveRecordRejected', null)],
  ],
  [
    'an operator has rejected it, and nobody owns the platform',
    true,
    null,
    [submitted(), ruling('TroveRecordRejected', null)],
  ],
  ['only the owner has rejected it', false, BANK, [submitted(), ruling('TroveRecordRejected', BANK)]],
  [
    'both have rejected it',
    true,
    BANK,
    [submitted(), ruling('TroveRecordRejected', null), ruling('TroveRecordRejected', BANK)],
  ],
  ['the owner submitted it', true, BANK, [submitted({ submitter: BANK }), ruling('TroveRecordRejected', null)]],
  ['it is about the owner', true, BANK, [submitted({ tris_id: BANK }), ruling('TroveRecordRejected', null)]],
  [
    'it is about an agent of the owner',
    true,
    BANK,
    [submitted({ operator_tris: BANK }), ruling('TroveRecordRejected', null)],
  ],
])('%s: %s', (_what, expected, owner, events) => {
  expect(isOut(owner, ...events)).toBe(expected);
});

const proof = (signature: string) => ({ type: 'signature' as const, issuer: 'lab', signature, attestation: null });
const title = 'A thing';
/** What was submitted, again, with a proof. */
const again = (signature: string): Submission => ({
  tris_id: 'tris:alice',
  content_hash: 'c'.repeat(64),
  record_type: 'milestone',
  metric: 'creative_code',
  criticality: 'High',
  title,
  uri: null,
  occurred_at: Date.parse(RECORDED),
  agent_id: null,
  operator_tris: null,
  proof: proof(signature),
  submitter: null,
});
const decided = (...events: Given[]) =>
  decideSubmit(troveRecordOf(logOf([submitted({ title_hash: sha256Hex(title) }), ...events])), again('new'));

test('another proof is news until the record is approved', () => {
  expect(decided().map(({ type }) => type)).toEqual(['TroveProofSubmitted']);
  expect(decided(ruling('TroveRecordRejected', BANK)).map(({ type }) => type)).toEqual(['TroveProofSubmitted']);
  expect(decided(ruling('TroveRecordApproved', BANK))).toEqual([]);
  expect(() => decided(ruling('TroveRecordRejected', null))).toThrow(
    expect.objectContaining({ code: 'record_decided' }),
  );
});

describe('an approval is revoked', () => {
  /** Approved by the bank, and by the operators, who come second. */
  const both = (['tris:bank', null] as const).flatMap((reviewer) => [
    ruling('TroveRecordApproved', reviewer),
    relayed('tris:alice', 'creative_code', 'High', { stream: trove('TroveRecordApproved').stream! }),
    endorsed('tris:alice', 'lender', 100),
  ]);
  const revoke = (reviewer: string | null, ...more: Given[]) =>
    decideRevoke(logOf([submitted(), ...both, ...more]), 'mistake', { decided_by: 'key:r', reviewer }, BANK);
  const after = (reviewer: string | null) =>
    revoke(reviewer).map(({ type, schema, data }) => ({
      type,
      schema,
      data,
      stream: trove('TroveRecordApproved').stream!,
    }));

  test.each([
    [BANK, 'e3', 'e4', 'Approved'],
    [null, 'e6', 'e7', 'Approved'],
  ])('with its action, by its reviewer: %s', (reviewer, action_id, credonation_id, status) => {
    const facts = revoke(reviewer);
    expect(facts.map(({ type }) => type)).toEqual(['TroveRecordRevoked', 'ActionWithdrawn']);
    expect(facts[0]!.data).toMatchObject({ action_id, reviewer, decided_by: 'key:r', reason: 'mistake' });
    expect(facts[1]!.data).toMatchObject({ action_id, credonation_id, endorser: BANK, amount: 100, reason: 'mistake' });
    const log = logOf([submitted(), ...both, ...after(reviewer)]);
    expect(troveRecordOf(log)).toMatchObject({ status });
    // That of the other reviewer stands.
    expect(approvalOf(troveRecordOf(log)!, reviewer)).toBeUndefined();
    expect(() => decideChange(actionIn(log, action_id)!, 'counted', 'mistake', BANK)).toThrow(
      expect.objectContaining({ code: 'record_decided' }),
    );
    expect(revoke(reviewer, ...after(reviewer))).toEqual([]);
  });

  test('if the action is withdrawn already, alone', () => {
    const [, withdrawal] = after(BANK) as [Given, Given];
    expect(revoke(BANK, withdrawal).map(({ type }) => type)).toEqual(['TroveRecordRevoked']);
  });

  test('and nothing is left of the record once all are', () => {
    expect(troveRecordOf(logOf([submitted(), ...both, ...after(BANK), ...after(null)]))!.status).toBe('Rejected');
  });

  test('not by who has not approved it', () => {
    expect(() => revoke('tris:other')).toThrow(expect.objectContaining({ code: 'record_decided' }));
    const rejected = [submitted(), ruling('TroveRecordRejected', BANK)];
    const by = { decided_by: 'key:r', reviewer: BANK };
    expect(() => decideRevoke(logOf(rejected), 'mistake', by, BANK)).toThrow(
      expect.objectContaining({ code: 'record_decided' }),
    );
  });
});

test('an operator’s rejection is lifted, unless the record was approved or its proof rejected it', () => {
  const lifted = (...events: Given[]) => decideLift(logOf([submitted(), ...events]), 'key:ops').map(({ type }) => type);
  const byProof = ruling('TroveRecordRejected', null);
  byProof.data = { ...byProof.data, method: 'signature' };
  expect(lifted()).toEqual([]);
  expect(lifted(ruling('TroveRecordRejected', BANK))).toEqual([]);
  expect(lifted(ruling('TroveRecordRejected', null))).toEqual(['TroveRejectionLifted']);
  expect(() => lifted(byProof)).toThrow(/Rejected for its proof/);
  // In older logs, a proof could approve what an operator had rejected.
  expect(() => lifted(ruling('TroveRecordRejected', null), ruling('TroveRecordApproved', null))).toThrow(
    expect.objectContaining({ code: 'record_decided' }),
  );
});
