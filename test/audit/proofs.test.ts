import * as fc from 'fast-check';
import {
  AuditError,
  type Tree,
  treeOf,
  verifyCheckpoint,
  verifyConsistency,
  verifyInclusion,
  verifyProof,
} from '../../clients/typescript/src/audit.js';
import { SEED, limit, repeated } from '../faults/faults.js';
import {
  checkpointOf,
  consistencyProof,
  inclusionProof,
  proofFile,
  refusalOf,
  rootOf,
  sha256,
  signerOf,
} from './reference.js';

/** The verifier in TypeScript on trees of any size: what is sound is accepted, and nothing else. */

const ORIGIN = 'credence.example/log';
const signer = signerOf(ORIGIN);
const options = { keys: signer.key };
/** Leaves that differ with their number and with the tree. */
const leavesOf = (size: number, tree = 'a') => Array.from({ length: size }, (_, index) => sha256(`${tree} ${index}`));
const tree = (leaves: Buffer[]): Tree => ({ size: leaves.length, root: rootOf(leaves) });

test('the proofs of all leaves and between all sizes up to 40 are accepted, for the roots that they are of', () => {
  const all = leavesOf(40);
  for (let size = 1; size <= all.length; size++) {
    const leaves = all.slice(0, size);
    const newer = tree(leaves);
    expect(Buffer.from(treeOf(leaves).root)).toEqual(newer.root);
    for (let at = 0; at < size; at++) {
      verifyInclusion(leaves[at]!, at, newer, inclusionProof(at, leaves));
      const older = tree(leaves.slice(0, at + 1));
      const proof = consistencyProof(at + 1, leaves);
      verifyConsistency(older, newer, proof);
      const changed = { ...older, root: sha256('changed') };
      expect(() => verifyConsistency(changed, newer, proof)).toThrow(AuditError);
    }
  }
});

test('a tree of more leaves than 32 bits can count has proofs', () => {
  // All leaves are equal, so that a subtree has one root for its size.
  const leaf = sha256('leaf');
  const roots = new Map([[1, leaf]]);
  const split = (size: number) => 2 ** Math.floor(Math.log2(size - 1));
  const root = (size: number): Buffer => {
    if (!roots.has(size)) roots.set(size, sha256('\x01', root(split(size)), root(size - split(size))));
    return roots.get(size)!;
  };
  const path = (index: number, size: number): Buffer[] => {
    if (size === 1) return [];
    const k = split(size);
    return index < k ? [...path(index, k), root(size - k)] : [...path(index - k, size - k), root(k)];
  };
  const between = (from: number, size: number, isWhole = true): Buffer[] => {
    if (from === size) return isWhole ? [] : [root(size)];
    const k = split(size);
    return from <= k
      ? [...between(from, k, isWhole), root(size - k)]
      : [...between(from - k, size - k, false), root(k)];
  };
  const size = 2 ** 45 + 2 ** 33 + 5;
  for (const index of [0, 2 ** 31, 2 ** 32 + 1, 2 ** 45, size - 1]) {
    verifyInclusion(leaf, index, { size, root: root(size) }, path(index, size));
    verifyConsistency({ size: index + 1, root: root(index + 1) }, { size, root: root(size) }, between(index + 1, size));
  }
  const beyond = { size: 2 ** 53, root: root(2 ** 45) };
  expect(() => verifyInclusion(leaf, 0, beyond, path(0, 2 ** 45))).toThrow('has no leaf 0');
});

test.each<[string, number, number]>([
  ['behind the last', 5, 5],
  ['below the first', -1, 5],
  ['in an empty tree', 0, 0],
  ['between two', 1.5, 5],
  ['no number', Number.NaN, 5],
])('there is no leaf %s', async (_, index, size) => {
  const leaves = leavesOf(5);
  const verify = () => verifyInclusion(leaves[0]!, index, { ...tree(leaves), size }, inclusionProof(0, leaves));
  expect((await refusalOf(verify)).reason).toBe('range');
});

test.each([
  ['from a larger tree', 5, 4],
  ['from an empty tree', 0, 5],
  ['from half a leaf', 0.5, 5],
])('there is no proof %s', async (_, from, to) => {
  const older = { size: from, root: rootOf(leavesOf(Math.ceil(from))) };
  expect((await refusalOf(() => verifyConsistency(older, tree(leavesOf(to)), []))).reason).toBe('range');
});

const MUTATIONS = repeated(3_000, 25_000);
const A_TREE = 20;
const sizes = fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 300 }));
const part = fc.nat(65_535).map((number) => number / 65_536);
const byte = fc.integer({ min: 1, max: 255 });
/** A place in something of this length. */
const at = (share: number, length: number) => Math.floor(share * length);
const flipped = (bytes: Uint8Array, place: number, by: number) =>
  Buffer.from(bytes.map((value, index) => (index === place ? value ^ by : value)));
const swapped = <T>(items: readonly T[], one: number, other: number) => {
  const result = [...items];
  [result[one], result[other]] = [result[other]!, result[one]!];
  return result;
};

test(
  'a changed, shorter, longer or foreign tlog-proof is refused with a reason',
  async () => {
    const foreign = signerOf(ORIGIN);
    const other = signerOf('credence.example/other');
    const refusals = new Map<string, number>();
    const property = async (size: number, share: number, more: number, changes: [number, number, number][]) => {
      const leaves = leavesOf(size);
      const index = at(share, size);
      const proof = inclusionProof(index, leaves);
      const leaf = leaves[index]!;
      const note = checkpointOf(ORIGIN, leaves, signer);
      const file = Buffer.from(proofFile(index, proof, note));
      const accepted = await verifyProof(file, leaf, options);
      expect(accepted).toMatchObject({ index, checkpoint: { origin: ORIGIN, size, extensions: [] } });
      // Without the signature: signed-note says nothing against one that stands there twice.
      const lines = file.toString().split('\n');
      const ending = lines.splice(-2);
      const joined = (changed: string[]) => [...changed, ...ending].join('\n');
      const changed = leavesOf(size).with(at(more, size), sha256('changed'));
      const larger = leavesOf(size + 1 + at(more, 50));
      const kinds: ((place: number, a: number, b: number) => [file: Uint8Array | string, leaf?: Uint8Array])[] = [
        (place, a) => [flipped(file, place, a)],
        (place) => [file.subarray(0, place)],
        (place) => [Buffer.concat([file.subarray(0, place), file.subarray(place + 1)])],
        (place, a) => [Buffer.concat([file.subarray(0, place), Buffer.of(a), file.subarray(place)])],
        (_, a, b) => [joined(swapped(lines, a % lines.length, b % lines.length))],
        (_, a) => [joined(lines.toSpliced(a % lines.length, 1))],
        (_, a) => [joined(lines.toSpliced(a % lines.length, 0, lines[a % lines.length]!))],
        (_, a, b) => [file, flipped(leaf, b % 32, a)],
        (_, a) => [proofFile(a % 2 === 0 ? index + a : (index + a) % size, proof, note)],
        () => [proofFile(index, proof, checkpointOf(ORIGIN, larger, signer))],
        () => [proofFile(index, inclusionProof(index, larger), note)],
        () => [proofFile(index, proof, checkpointOf(ORIGIN, changed, signer)), leaf],
        () => [proofFile(index, proof, checkpointOf(ORIGIN, leaves, foreign))],
        () => [proofFile(index, proof, checkpointOf('credence.example/other', leaves, signer))],
        () => [proofFile(index, proof, checkpointOf('credence.example/other', leaves, other))],
      ];
      for (const [kind, a, b] of changes) {
        const [mutated, claimed = leaf] = kinds[kind % kinds.length]!(at(a / 65_536, file.length), 1 + (a % 255), b);
        const isSame = Buffer.from(mutated).equals(file) && claimed === leaf;
        if (isSame) continue;
        const { reason } = await refusalOf(() => verifyProof(mutated, claimed, options));
        refusals.set(reason, (refusals.get(reason) ?? 0) + 1);
      }
    };
    const word = fc.nat(65_535);
    const changes = fc.array(fc.tuple(word, word, word), { minLength: A_TREE, maxLength: A_TREE });
    await fc.assert(fc.asyncProperty(sizes, part, part, changes, property), {
      numRuns: Math.ceil(MUTATIONS / A_TREE),
      seed: SEED,
    });
    // Every reason was met, so the changes are of every kind.
    expect([...refusals.keys()].sort()).toEqual(['malformed', 'mismatch', 'origin', 'range', 'signature']);
    expect([...refusals.values()].reduce((sum, count) => sum + count)).toBeGreaterThan(MUTATIONS * 0.9);
  },
  limit(600_000),
);

test(
  'a changed, shorter, longer or foreign proof of consistency is refused with a reason',
  async () => {
    const property = async (size: number, share: number, a: number, by: number, b: number) => {
      const leaves = leavesOf(size);
      const older = tree(leaves.slice(0, 1 + at(share, size)));
      const newer = tree(leaves);
      const proof = consistencyProof(older.size, leaves);
      verifyConsistency(older, newer, proof);
      const place = at(a, 32);
      const [one, two] = [at(a, proof.length), at(b, proof.length)];
      const fork = leavesOf(size, 'b');
      const larger = leavesOf(size + 1 + at(b, 50));
      const mutations: [Tree, Tree, Uint8Array[]][] = [
        [{ ...older, root: flipped(older.root, place, by) }, newer, proof],
        [older, { ...newer, root: flipped(newer.root, place, by) }, proof],
        [older, newer, [...proof.slice(0, one), sha256('more'), ...proof.slice(one)]],
        [older, newer, [...proof, older.root]],
        [older, newer, [older.root, ...proof]],
        [older, tree(fork), consistencyProof(older.size, fork)],
        [tree(fork.slice(0, older.size)), newer, proof],
        [older, tree(larger), proof],
      ];
      if (proof.length > 0) {
        mutations.push(
          [older, newer, proof.with(one, flipped(proof[one]!, place, by))],
          [older, newer, proof.toSpliced(one, 1)],
          [older, newer, proof.with(one, proof[one]!.subarray(0, 31))],
        );
        if (one !== two) mutations.push([older, newer, swapped(proof, one, two)]);
      }
      if (older.size > 1) mutations.push([tree(leaves.slice(0, older.size - 1)), newer, proof]);
      for (const mutation of mutations) await refusalOf(() => verifyConsistency(...mutation));
    };
    await fc.assert(fc.asyncProperty(sizes, part, part, byte, part, property), {
      numRuns: Math.ceil(MUTATIONS / 12),
      seed: SEED,
    });
  },
  limit(600_000),
);

describe('a checkpoint', () => {
  const root = rootOf([]).toString('base64');
  const note = (text: string) => `${text}\n${signer.line(text)}`;

  test('of an empty tree, and one with more lines, are accepted', async () => {
    const empty = await verifyCheckpoint(note(`${ORIGIN}\n0\n${root}\n`), options);
    expect(empty).toEqual({ origin: ORIGIN, size: 0, root: new Uint8Array(rootOf([])), extensions: [] });
    const more = await verifyCheckpoint(note(`${ORIGIN}\n7\n${root}\nmore\n`), { ...options, origin: ORIGIN });
    expect(more).toMatchObject({ size: 7, extensions: ['more'] });
  });

  test('of another origin is accepted if that one is asked for', async () => {
    const elsewhere = note(`elsewhere\n7\n${root}\n`);
    expect(await verifyCheckpoint(elsewhere, { ...options, origin: 'elsewhere' })).toMatchObject({ size: 7 });
    expect((await refusalOf(() => verifyCheckpoint(elsewhere, options))).reason).toBe('origin');
    const asked = () => verifyCheckpoint(note(`${ORIGIN}\n7\n${root}\n`), { ...options, origin: 'elsewhere' });
    expect((await refusalOf(asked)).reason).toBe('origin');
  });

  test.each([
    ['a leading zero', `07\n${root}`],
    ['a sign', `+7\n${root}`],
    ['an exponent', `1e3\n${root}`],
    ['a size that a double rounds', `9007199254740993\n${root}`],
    ['infinity', `Infinity\n${root}`],
    ['no root', '7'],
    ['a short root', `7\n${root.slice(4)}`],
    ['an empty line', `7\n${root}\n\nmore`],
  ])('with %s is refused', async (_, rest) => {
    expect((await refusalOf(() => verifyCheckpoint(note(`${ORIGIN}\n${rest}\n`), options))).reason).toBe('malformed');
  });

  test('of an empty tree with leaves is refused', async () => {
    const text = `${ORIGIN}\n0\n${sha256('x').toString('base64')}\n`;
    expect((await refusalOf(() => verifyCheckpoint(note(text), options))).reason).toBe('mismatch');
  });
});

test('what is added to a tlog-proof as extra is returned, and has to be base64', async () => {
  const leaves = leavesOf(3);
  const file = proofFile(1, inclusionProof(1, leaves), checkpointOf(ORIGIN, leaves, signer));
  const withExtra = (extra: string) => file.replace('\n', `\nextra ${extra}\n`);
  expect((await verifyProof(withExtra('AAEC'), leaves[1]!, options)).extra).toEqual(new Uint8Array([0, 1, 2]));
  expect((await verifyProof(file, leaves[1]!, options)).extra).toBeUndefined();
  expect((await refusalOf(() => verifyProof(withExtra('AAE'), leaves[1]!, options))).reason).toBe('malformed');
});
