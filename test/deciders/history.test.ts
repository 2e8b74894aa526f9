import { issuedOf } from '../../src/eligibility/eligibility.js';
import type { RecordedEvent } from '../../src/event-store/event-store.js';
import { accessPolicyOf } from '../../src/policies/ap/ap.js';
import { lensOwner, lensStackOf } from '../../src/policies/vp/promotion.js';
import { policyOf } from '../../src/policies/vp/vp.js';
import { issuerOf } from '../../src/trove/issuers.js';
import { troveRecordOf } from '../../src/trove/trove.js';
import { schemeOf } from '../../src/verifications/schemes.js';
import { linkOf } from '../../src/wallets/wallets.js';
import { logOf } from '../projections/log.js';

test.each<[string, string, (history: RecordedEvent[]) => unknown]>([
  ['an access policy', 'AccessPolicyRetired', accessPolicyOf],
  ['a validation policy', 'ValidationPolicyRetired', policyOf],
  ['a stack of lenses', 'LensActivated', (history) => lensStackOf(history, lensOwner('platform', ''))],
  ['an issuer', 'IssuerRetired', issuerOf],
  ['a record', 'TroveRecordRejected', troveRecordOf],
  ['a verification scheme', 'SchemeRetired', schemeOf],
  ['a wallet', 'WalletUnlinked', linkOf],
  ['a token', 'EligibilityRevoked', issuedOf],
])('%s is not guessed where its stream cannot be read', (_what, type, fold) => {
  const history = logOf([{ type, data: { neither: 'this nor that' }, stream: 'the-stream' }]);
  expect(() => fold(history)).toThrow(
    expect.objectContaining({ code: 'history_unreadable', message: expect.stringMatching(/^the-stream .*\be1\b/) }),
  );
});
