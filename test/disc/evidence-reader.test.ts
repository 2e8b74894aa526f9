import { type IdentityRow, newIdentity } from '../../projections/identities.js';
import { EvidenceReader } from '../../src/features/disc/evidence-reader.js';

test('requests about large identities that begin together do not all read in one turn of the event loop', async () => {
  let reads = 0;
  const views = {
    readSince: (_position: number, queries: readonly unknown[]) => {
      const end = performance.now() + 1;
      while (performance.now() < end);
      reads++;
      return Promise.resolve({ results: queries.map(() => []) });
    },
  };
  const row = { ...newIdentity(), evidence: null, spread: { since: 0 } } as unknown as IdentityRow;
  const reader = new EvidenceReader(views as never, 'tris:hot', row, 1);
  const all = Array.from({ length: 30 }, () => reader.evidenceOf(['financial_loan']));
  await new Promise(setImmediate);
  expect(reads).toBeLessThan(10);
  await Promise.all(all);
  expect(reads).toBe(30);
});
