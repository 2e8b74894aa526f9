import fc from 'fast-check';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import {
  type Given,
  about,
  acknowledged,
  badStatus,
  badStatusCleared,
  endorsed,
  granted,
  linked,
  platformOf,
  relayed,
  revoked,
  rowsAfter,
  unlinked,
  trove,
} from './log.js';

/** Whatever sizes a log is folded in, the rows are the same to the byte. */

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
    .constantFrom('TroveRecordSubmitted', 'TroveProofSubmitted', 'TroveRecordApproved', 'TroveRecordRejected')
    .map(trove),
  // The action that an approved record became.
  fc.constant({ ...relayed('tris:alice', 'creative_code', 'High'), stream: trove('TroveRecordApproved').stream }),
  // Events nobody can read any more: wrong data, and no valid time.
  who.map((id) => relayed(id, 'social_vouch', 'Enormous')),
  who.map((id) => relayed(id, 'social_vouch', 'High', { occurred_at: 'once upon a time' })),
);
const logs = fc.array(event, { maxLength: 40 });
const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 5 });

test('batches of any size leave the same bytes', async () => {
  await fc.assert(
    fc.asyncProperty(logs, sizes, async (log, batches) => {
      const atOnce = (await rowsAfter(log)).bytes;
      expect((await rowsAfter(log, { sizes: [1] })).bytes).toBe(atOnce);
      expect((await rowsAfter(log, { sizes: batches })).bytes).toBe(atOnce);
    }),
    { numRuns: 300 },
  );
});

test('batches that end at a number of changed rows leave the same bytes', async () => {
  await fc.assert(
    fc.asyncProperty(logs, sizes, fc.integer({ min: 1, max: 30 }), async (log, slices, rowsPerBatch) => {
      const atOnce = await rowsAfter(log);
      const inBatches = await rowsAfter(log, { sizes: slices, rowsPerBatch });
      expect(inBatches.bytes).toBe(atOnce.bytes);
      // No event changes more than nine rows: a record, and its entries in four lists before and after.
      expect(inBatches.largestBatch).toBeLessThan(rowsPerBatch + 9);
    }),
    { numRuns: 300 },
  );
});

test('batches of any size leave the same bytes of a large identity, whose platforms get owners meanwhile', async () => {
  const metrics = fc.integer({ min: 1, max: 40 }).map((n) => `financial_m${n}`);
  const onPlatform = fc.tuple(metrics, platform).map(([metric, platform_id]): Given => {
    const action = relayed('tris:alice', metric, 'Low');
    return { ...action, data: { ...action.data, platform_id } };
  });
  const many = fc.array(
    fc.oneof(
      { weight: 12, arbitrary: onPlatform },
      fc.tuple(platform, who).map((args) => platformOf(...args)),
    ),
    { minLength: 90, maxLength: 160, size: 'max' },
  );
  await fc.assert(
    fc.asyncProperty(many, sizes, async (log, batches) => {
      const { texts: oneByOne } = await rowsAfter(log, { sizes: [1] });
      for (const sizes of [[Infinity], batches.map((size) => size * 5)]) {
        const { texts } = await rowsAfter(log, { sizes });
        expect([...texts].filter(([row, text]) => oneByOne.get(row) !== text)).toEqual([]);
        expect(texts.size).toBe(oneByOne.size);
      }
    }),
    { numRuns: 60 },
  );
});

test('a projection folded alone leaves the rows it leaves beside the others', async () => {
  await fc.assert(
    fc.asyncProperty(logs, async (log) => {
      const together = (await rowsAfter(log)).texts;
      const apart = new Map<string, string>();
      for (const projection of PROJECTIONS) {
        const { texts } = await rowsAfter(log, { projections: [projection] });
        for (const [row, text] of texts) apart.set(row, text);
      }
      expect(new Map([...apart].sort())).toEqual(new Map([...together].sort()));
    }),
  );
});

test('a projection writes its own views only', async () => {
  await fc.assert(
    fc.asyncProperty(logs, async (log) => {
      for (const projection of PROJECTIONS) {
        const { texts } = await rowsAfter(log, { projections: [projection] });
        for (const row of texts.keys()) expect(row.split('|')[0]!.split('.')[0]).toBe(projection.name);
      }
    }),
    { numRuns: 30 },
  );
});
