import { grantOf } from '../../src/features/access/domain/decision.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { accessPolicyOf } from '../../src/features/access/domain/access-policy.js';
import { PLATFORM, lensStackOf } from '../../src/features/lenses/domain/lens-stream.js';
import { policyOf } from '../../src/features/lenses/domain/validation-policy.js';
import { issuerOf } from '../../src/features/trove/domain/issuer.js';
import { troveRecordOf } from '../../src/features/trove/domain/record.js';
import { schemeOf } from '../../src/features/verifications/domain/scheme.js';
import { linkOf } from '../../src/features/accounts/domain/wallet.js';
import { logOf } from '../projections/log.js';

test.each<[string, string, (history: RecordedEvent[]) => unknown]>([
  ['an access policy', 'AccessPolicyRetired', accessPolicyOf],
  ['a validation policy', 'ValidationPolicyRetired', policyOf],
  ['a stack of lenses', 'LensActivated', (history) => lensStackOf(history, PLATFORM)],
  ['an issuer', 'IssuerRetired', issuerOf],
  ['a record', 'TroveRecordRejected', troveRecordOf],
  ['a verification scheme', 'SchemeRetired', schemeOf],
  ['a wallet', 'WalletUnlinked', linkOf],
  ['a token', 'EligibilityRevoked', grantOf],
])('%s is not guessed where its stream cannot be read', (_what, type, fold) => {
  const history = logOf([{ type, data: { neither: 'this nor that' }, stream: 'the-stream' }]);
  expect(() => fold(history)).toThrow(
    expect.objectContaining({ code: 'history_unreadable', message: expect.stringMatching(/^the-stream .*\be1\b/) }),
  );
});
