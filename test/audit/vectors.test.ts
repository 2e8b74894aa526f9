import {
  AuditError,
  leafOf,
  nodeHash,
  treeOf,
  verifyCheckpoint,
  verifyConsistency,
  verifyInclusion,
  verifyNote,
} from '../../clients/typescript/src/audit.js';
import { blocks, read, section } from '../docs/markdown.js';
import { refusalOf } from './reference.js';
import { LEAVES, NOTES, PETER, PROBES, ROOTS, SIGNED, WRONG_NOTES, isSound } from './vectors.js';

/** The verifier in TypeScript against what others have published. */

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

describe('the leaf of decision 0034', () => {
  const [line, results] = blocks(section(read('docs/decisions/0034-leaf-of-the-log.md'), 'Example')).map(({ text }) =>
    text.trimEnd(),
  ) as [string, string];

  test('is that of its example, with a salt and without', () => {
    expect(results).toContain(`leaf     ${hex(leafOf(line))}`);
    expect(results).toContain(`without a salt, the leaf is ${hex(leafOf(line.replace(/,"salt":"\w+"/, '')))}`);
  });

  test('differs with whatever an event says, and has the metadata without a name of their own in order of names', () => {
    const event = JSON.parse(line);
    const changed = (metadata: object) =>
      hex(leafOf(JSON.stringify({ ...event, metadata: { ...event.metadata, ...metadata } })));
    const leaves = [
      ...['id', 'stream', 'type'].map((name) => hex(leafOf(JSON.stringify({ ...event, [name]: 'x' })))),
      hex(leafOf(JSON.stringify({ ...event, revision: 1 }))),
      hex(leafOf(JSON.stringify({ ...event, data: { ...event.data, tris_id: 'tris:eve' } }))),
      ...Object.keys(event.metadata).map((name) => changed({ [name]: 'x' })),
      ...['idempotency', 'traceparent', 'index_version', 'causation_id'].map((name) => changed({ [name]: 'x' })),
      hex(leafOf(line)),
    ];
    expect(new Set(leaves).size).toBe(leaves.length);
    expect(changed({ a: 1, b: 2 })).toBe(changed({ b: 2, a: 1 }));
    // Where it stands in a log is no part of it.
    expect(hex(leafOf(JSON.stringify({ ...event, position: 99 })))).toBe(hex(leafOf(line)));
  });

  test.each([
    ['no JSON', 'x'],
    ['no object', '[1]'],
    ['more levels than can be read', `{"data":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
    ['the last line of an export', '{"end_of_export":{"events":1,"damaged":0,"sha256":"00"}}'],
    ['a line with white space', line.replace(':', ': ')],
    ['a line with a member twice', line.replace('{', '{"stream":"other",')],
    ['a number in another spelling', line.replace('"revision":0', '"revision":0.0')],
  ])('there is none of %s', async (_, text) => {
    expect((await refusalOf(() => leafOf(text))).reason).toBe('malformed');
  });
});

test('trees of the reference leaves have the published roots', () => {
  expect(ROOTS.map((_, size) => hex(treeOf(LEAVES.slice(0, size)).root))).toEqual(ROOTS);
  expect(hex(nodeHash(LEAVES[0]!, LEAVES[1]!))).toBe(ROOTS[2]);
});

const bytes = (base64: string) => Buffer.from(base64, 'base64');

test('the published proofs are accepted and refused as they say', () => {
  const wrong = PROBES.filter((probe) => {
    const proof = probe.proof.map(bytes);
    try {
      if (probe.kind === 'inclusion') {
        verifyInclusion(bytes(probe.leafHash), probe.leafIdx, { size: probe.treeSize, root: bytes(probe.root) }, proof);
      } else {
        const [older, newer] = [probe.root1, probe.root2].map(bytes) as [Buffer, Buffer];
        verifyConsistency({ size: probe.size1, root: older }, { size: probe.size2, root: newer }, proof);
      }
      return !isSound(probe);
    } catch (error) {
      return isSound(probe) || !(error instanceof AuditError);
    }
  });
  expect(wrong).toEqual([]);
  expect([PROBES.length, PROBES.filter(isSound).length]).toEqual([194, 11]);
});

describe('signed notes', () => {
  test.each(NOTES)('%s: accepted', async (_, note, keys, signers) => {
    const opened = await verifyNote(note, keys);
    expect(opened).toEqual({ text: note.slice(0, note.lastIndexOf('\n\n') + 1), signers });
    expect(await verifyNote(Buffer.from(note), keys)).toEqual(opened);
  });

  test.each(WRONG_NOTES)('%s: refused', async (_, note, keys, reason) => {
    expect((await refusalOf(() => verifyNote(note, keys))).reason).toBe(reason);
  });

  test('a key that was cut, or with one changed character, is refused', async () => {
    for (let place = 0; place < PETER.length; place++) {
      const next = String.fromCharCode(PETER.charCodeAt(place) + 1);
      for (const key of [
        PETER.slice(0, place),
        PETER.slice(place + 1),
        PETER.slice(0, place) + next + PETER.slice(place + 1),
      ]) {
        expect((await refusalOf(() => verifyNote(SIGNED, key))).reason).toBe('malformed');
      }
    }
  });

  test('a note that is no checkpoint is refused as one', async () => {
    expect((await refusalOf(() => verifyCheckpoint(SIGNED, { keys: PETER }))).reason).toBe('malformed');
  });
});
