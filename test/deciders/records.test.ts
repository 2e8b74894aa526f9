import { isRuledOut, troveRecordOf } from '../../src/features/trove/domain/record.js';
import { type Given, logOf, trove } from '../projections/log.js';

/** Whether anybody may still approve a record for a platform. `tris:bank` owns it. */

const BANK = 'tris:bank';
const submitted = (more: object = {}): Given => {
  const event = trove('TroveRecordSubmitted');
  return { ...event, schema: 2, data: { ...event.data, submitter: null, ...more } };
};
const ruling = (type: 'TroveRecordApproved' | 'TroveRecordRejected', reviewer: string | null): Given => {
  const event = trove(type);
  return { ...event, schema: 2, data: { ...event.data, reviewer } };
};
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
