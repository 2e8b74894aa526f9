import fc from 'fast-check';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { MODEL } from '../../src/scoring/model.js';
import { logs, logsOfLarge } from './arbitrary-log.js';
import { endorsed, relayed, rowsAfter } from './log.js';

/** Whatever sizes a log is folded in, the rows are the same to the byte. */

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
  await fc.assert(
    fc.asyncProperty(logsOfLarge, sizes, async (log, batches) => {
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

test('batches of any size leave the same bytes of a day that is divided by the credonations of one sender only', async () => {
  const log = Array.from({ length: 300 }, (_, n) => [
    relayed('tris:alice', `${MODEL.categories[n % MODEL.categories.length]}_swap`, 'Low'),
    endorsed('tris:alice', 'lender', 30),
  ]).flat();
  const { bytes } = await rowsAfter(log, { sizes: [1] });
  expect((await rowsAfter(log)).bytes).toBe(bytes);
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
