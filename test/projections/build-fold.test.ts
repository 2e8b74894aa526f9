import fc from 'fast-check';
import { decodeFolded } from '../../projections/events.js';
import { PROJECTIONS } from '../../src/read-side/all-projections.js';
import { Divider, PartitionFold, SortedRows } from '../../src/read-side/build-fold.js';
import type { RowKey } from '../../src/stores/ports/read-models.js';
import { rowAddress } from '../../src/stores/ports/row-key.js';
import { logs, logsOfLarge } from './arbitrary-log.js';
import { type Given, logOf, relayed, rowsAfter } from './log.js';

/** Rows in the order in which they are read: address and content. */
function rowsOf(sorted: SortedRows): [string, string][] {
  const rows: [string, string][] = [];
  const visits = sorted.inOrder((chunk, start, middle, end) => {
    rows.push([chunk.toString('utf8', start, middle), chunk.toString('utf8', middle, end)]);
  });
  for (const _ of visits) continue;
  return rows;
}

/** Folds a log in partitions, one after the other. */
function foldedIn(parts: number, events: readonly Given[]): [string, string][] {
  const shared = new SortedRows();
  const divider = new Divider(PROJECTIONS, parts, shared);
  const own = Array.from({ length: parts }, () => new SortedRows());
  const folds = own.map((rows, part) => new PartitionFold(PROJECTIONS, part, parts, rows));
  for (const event of logOf(events).map(decodeFolded)) {
    const place = divider.take(event);
    if (place.isShared) for (const fold of folds) fold.applyShared(event);
    for (const part of place.parts) folds[part]!.apply(event);
  }
  for (const fold of [divider, ...folds]) for (const _ of fold.finish()) continue;
  return [shared, ...own].flatMap(rowsOf);
}

test.each([
  ['of every kind of events', logs, 300],
  ['of a large identity, whose platforms get owners meanwhile', logsOfLarge, 40],
])('a log %s, folded in any number of partitions, leaves the rows that batches leave', async (_of, log, numRuns) => {
  await fc.assert(
    fc.asyncProperty(log, fc.integer({ min: 1, max: 7 }), async (events: Given[], parts) => {
      const { texts } = await rowsAfter(events);
      const folded = foldedIn(parts, events).map(([address, text]) => [address.replaceAll('\0', '|'), text] as const);
      expect(folded).toHaveLength(texts.size); // each row once
      expect(new Map(folded)).toEqual(texts);
    }),
    { numRuns },
  );
});

test('rows are read in the order of the bytes of their addresses', () => {
  const name = fc.string({ unit: 'grapheme', maxLength: 3 }).filter((text) => text.isWellFormed() && !/\0/.test(text));
  const keys = fc.record({ view: fc.constantFrom('a', 'a.b', 'b'), key: name, sort: name });
  fc.assert(
    fc.property(fc.uniqueArray(keys, { selector: rowAddress, maxLength: 30 }), (rows: RowKey[]) => {
      const sorted = new SortedRows();
      for (const row of rows) sorted.put(row, 1);
      const addresses = rowsOf(sorted).map(([address]) => Buffer.from(address));
      expect(addresses).toEqual([...addresses].sort(Buffer.compare));
      expect(addresses).toHaveLength(rows.length);
    }),
  );
});

test('an action is an event of one partition only, although every event changes the tree of the log', () => {
  const divider = new Divider(PROJECTIONS, 4, new SortedRows());
  for (const event of logOf([relayed('tris:alice', 'social_vouch', 'High')]).map(decodeFolded)) {
    const { parts, isShared } = divider.take(event);
    expect({ parts: parts.length, isShared }).toEqual({ parts: 1, isShared: false });
  }
});
