import fc from 'fast-check';
import { LOG_TREE, LogTreeReader, type LogTreeState, logTree, tileRows } from '../../projections/log-tree.js';
import {
  consistencyPath,
  inclusionPath,
  leafOf,
  nodeHash,
  rootOf,
  rootOfPeaks,
  TILE_WIDTH,
} from '../../src/kernel/merkle.js';
import { decodeFolded } from '../../projections/events.js';
import { consistencyProof, inclusionProof, rootOf as definedRoot } from '../audit/reference.js';
import { LEAVES, ROOTS } from '../audit/vectors.js';
import { logs } from './arbitrary-log.js';
import { type Given, StoredRows, logOf, relayed, rowsAfter } from './log.js';

/** The tree of a log, beside the definitions of RFC 9162, section 2.1. */

const bytes = (hash: string) => Buffer.from(hash, 'base64url');
const leavesOf = (log: readonly Given[]) => logOf(log).map((event) => bytes(leafOf(event)));

function readerOf(rows: StoredRows, state = rows.get(LOG_TREE) as unknown as LogTreeState): LogTreeReader {
  return new LogTreeReader(state, async ({ after, reverse, limit, ...key }) =>
    rows.range(key, (sort) => after === undefined || (reverse ? sort < after : sort > after), reverse, limit),
  );
}

const only = { projections: [logTree] };
/** A log of so many events, at positions with gaps. */
function longLog(size: number) {
  return logOf(Array.from({ length: size }, (_, n) => relayed('tris:alice', `financial_m${n}`, 'Low'))).map(
    (event) => ({
      ...event,
      position: event.position * 3,
    }),
  );
}
async function folded(events: ReturnType<typeof longLog>, batch: number): Promise<StoredRows> {
  const rows = new StoredRows();
  for (let at = 0; at < events.length; at += batch) {
    await rows.apply(events.slice(at, at + batch).map(decodeFolded), [logTree]);
  }
  return rows;
}

describe('the published vectors of RFC 6962 (the reference tests of Certificate Transparency)', () => {
  const leaves = LEAVES.map((leaf) => leaf.toString('base64url'));
  const read = async (_level: number, index: number) => leaves[index]!;
  const hex = (hash: string) => bytes(hash).toString('hex');

  test('roots', async () => {
    expect(hex(rootOfPeaks([]))).toBe(ROOTS[0]);
    const roots = [1, 2, 3, 4, 5, 6, 7, 8].map(async (size) => hex(await rootOf(size, read)));
    expect(await Promise.all(roots)).toEqual(ROOTS.slice(1));
  });

  test('paths', async () => {
    expect((await inclusionPath(0, 8, read)).map(hex)).toEqual([
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ]);
    expect((await consistencyPath(6, 8, read)).map(hex)).toEqual([
      '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ]);
  });
});

test('rows, roots and paths are those of the definition, for every size and in any batches', async () => {
  const log = longLog(1_100);
  const leaves = log.map((event) => bytes(leafOf(event)));
  const rows = await folded(log, 7);
  expect((await folded(log, 500)).bytes).toBe(rows.bytes);
  const reader = readerOf(rows);
  const size = fc.integer({ min: 1, max: log.length });
  await fc.assert(
    fc.asyncProperty(size, size, async (one, other) => {
      const [from, to] = one < other ? [one, other] : [other, one];
      expect(bytes(await rootOf(to, reader.hash))).toEqual(definedRoot(leaves.slice(0, to)));
      const index = from - 1;
      expect((await inclusionPath(index, to, reader.hash)).map(bytes)).toEqual(
        inclusionProof(index, leaves.slice(0, to)),
      );
      const proof = (await consistencyPath(from, to, reader.hash)).map(bytes);
      expect(proof).toEqual(consistencyProof(from, leaves.slice(0, to)));
    }),
    { numRuns: 200 },
  );
  const { size: all, peaks } = rows.get(LOG_TREE) as unknown as LogTreeState;
  expect(bytes(rootOfPeaks(peaks))).toEqual(definedRoot(leaves.slice(0, all)));
});

test('a position gives the number of leaves up to it', async () => {
  for (const length of [1, 15, 16, 255, 256, 257, 600]) {
    const reader = readerOf(await folded(longLog(length), 50));
    for (let position = 0; position < 3 * length + 4; position++) {
      expect(await reader.sizeAt(position)).toBe(Math.min(length, Math.floor(position / 3)));
    }
  }
});

test('a tree is read as of a state although its rows have grown', async () => {
  const log = longLog(700);
  const state = (size: number) => folded(log.slice(0, size), 100).then((rows) => rows.get(LOG_TREE));
  const rows = await folded(log, 100);
  for (const size of [1, 250, 256, 260, 513]) {
    const reader = readerOf(rows, (await state(size)) as unknown as LogTreeState);
    const leaves = log.slice(0, size).map((event) => bytes(leafOf(event)));
    expect(bytes(await rootOf(size, reader.hash))).toEqual(definedRoot(leaves));
    expect(await reader.sizeAt(5_000)).toBe(size);
  }
});

test('a full tile of the second level is one hash of 256 of the first', async () => {
  const rows = await folded(longLog(TILE_WIDTH * 2), 100);
  const [, second] = (await readerOf(rows).tile(1, 0)).hashes;
  expect(bytes(second!)).toEqual(definedRoot((await readerOf(rows).tile(0, 1)).hashes.map(bytes)));
  expect(rows.range(tileRows(1, 0))).toHaveLength(2);
});

test('every event of any log is a leaf, also one that cannot be decoded', async () => {
  await fc.assert(
    fc.asyncProperty(logs, async (log) => {
      const state = (await rowsAfter(log, only)).get(LOG_TREE) as unknown as LogTreeState | undefined;
      expect(state?.size ?? 0).toBe(log.length);
      expect(bytes(rootOfPeaks(state?.peaks ?? []))).toEqual(definedRoot(leavesOf(log)));
    }),
  );
});

test('the tree ends before a damaged event, and says where', async () => {
  const log = [1, 2, 3].map((n) => relayed('tris:alice', `financial_m${n}`, 'Low'));
  const damaged = { ...log[1]!, damage: { reason: 'it is cut', tris_id: null } };
  const state = (await rowsAfter([log[0]!, damaged, log[2]!], only)).get(LOG_TREE);
  expect(state).toMatchObject({ size: 1, incomplete: 2 });
});

test('any part of an event changes its leaf, also a member of the metadata that is new', () => {
  const [event] = logOf([relayed('tris:alice', 'social_vouch', 'High')]);
  const { metadata } = event!;
  const others = [
    { ...event!, revision: 1 },
    { ...event!, data: { ...event!.data, criticality: 'Low' } },
    { ...event!, metadata: { ...metadata, actor: 'key:"other"\u00fc' } },
    { ...event!, metadata: { ...metadata, tenant: 'a' } },
    { ...event!, metadata: { ...metadata, index_version: 2 } },
  ];
  expect(new Set([event!, ...others].map(leafOf)).size).toBe(6);
  expect(leafOf({ ...event!, position: 99 })).toBe(leafOf(event!));
});

test('two hashes that change places give another node', () => {
  const [a, b] = leavesOf([relayed('tris:a', 'm', 'Low'), relayed('tris:b', 'm', 'Low')]).map((leaf) =>
    leaf.toString('base64url'),
  );
  expect(nodeHash(a!, b!)).not.toBe(nodeHash(b!, a!));
});
