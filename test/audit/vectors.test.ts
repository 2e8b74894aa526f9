import { readFileSync } from 'node:fs';
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
import { refusalOf, sha256 } from './reference.js';

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
    ['the last line of an export', '{"end_of_export":{"events":1,"damaged":0,"sha256":"00"}}'],
    ['a line with white space', line.replace(':', ': ')],
    ['a line with a member twice', line.replace('{', '{"stream":"other",')],
    ['a number in another spelling', line.replace('"revision":0', '"revision":0.0')],
  ])('there is none of %s', async (_, text) => {
    expect((await refusalOf(() => leafOf(text))).reason).toBe('malformed');
  });
});

/**
 * Inputs, nodes and roots of the reference tree of Certificate Transparency, which its C++ and Go implementations test
 * with: https://github.com/transparency-dev/merkle, testonly/constants.go.
 */
const INPUTS = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f'];
const LEAVES = INPUTS.map((input) => sha256('\0', Buffer.from(input, 'hex')));
const ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];

test('trees of the reference leaves have the published roots', () => {
  expect(ROOTS.map((_, size) => hex(treeOf(LEAVES.slice(0, size)).root))).toEqual(ROOTS);
  expect(hex(nodeHash(LEAVES[0]!, LEAVES[1]!))).toBe(ROOTS[2]);
});

/**
 * Proofs, sound and broken, of https://github.com/transparency-dev/merkle, testdata/inclusion and testdata/consistency
 * (Apache-2.0), one a line with hashes in base64.
 */
const probes = readFileSync('test/audit/merkle-proofs.ndjson', 'utf8')
  .trimEnd()
  .split('\n')
  .map((text) => JSON.parse(text));
const bytes = (base64: string) => Buffer.from(base64, 'base64');

test.each(['inclusion', 'consistency'])('the published proofs of %s are accepted and refused as they say', (kind) => {
  const wrong: string[] = [];
  let refused = 0;
  for (const probe of probes.filter((one) => one.kind === kind)) {
    const proof = probe.proof.map(bytes);
    const verify = () =>
      kind === 'inclusion'
        ? verifyInclusion(
            bytes(probe.leafHash),
            probe.leafIdx,
            { size: probe.treeSize, root: bytes(probe.root) },
            proof,
          )
        : verifyConsistency(
            { size: probe.size1, root: bytes(probe.root1) },
            { size: probe.size2, root: bytes(probe.root2) },
            proof,
          );
    let isRefused = false;
    try {
      verify();
    } catch (error) {
      isRefused = error instanceof AuditError;
    }
    refused += Number(isRefused);
    // One of them has two equal texts of 12 bytes as roots: here a root has 32.
    const hasHashes = kind === 'inclusion' || bytes(probe.root1).length === 32;
    if (isRefused !== (probe.wantErr || !hasHashes)) wrong.push(JSON.stringify(probe));
  }
  expect(wrong).toEqual([]);
  expect(refused).toBeGreaterThan(80);
});

/** Of https://c2sp.org/signed-note and golang.org/x/mod/sumdb/note. */
const C2SP = {
  key: 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
  note: `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`,
};
const PETER = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const ENOCH = 'EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop';
const TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const PETERS =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';
const ENOCHS =
  '— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n';
const inserted = (text: string, place: number) => `${text.slice(0, place)}ABCD${text.slice(place)}`;

describe('signed notes', () => {
  test.each<[string, string, string | string[], string[]]>([
    ['the example of C2SP', C2SP.note, C2SP.key, ['example.com/foo']],
    ['one of two signatures known', `${TEXT}\n${PETERS}${ENOCHS}`, PETER, ['PeterNeumann']],
    ['both known', `${TEXT}\n${PETERS}${ENOCHS}`, [PETER, ENOCH], ['PeterNeumann', 'EnochRoot']],
    ['the same signature twice', `${TEXT}\n${PETERS}${PETERS}`, PETER, ['PeterNeumann']],
    ['a wrong signature of an unknown key', `${TEXT}\n${PETERS}${inserted(ENOCHS, 60)}`, PETER, ['PeterNeumann']],
  ])('%s: accepted', async (_, note, keys, signers) => {
    const opened = await verifyNote(note, keys);
    expect(opened).toEqual({ text: note.slice(0, note.lastIndexOf('\n\n') + 1), signers });
    expect(await verifyNote(Buffer.from(note), keys)).toEqual(opened);
  });

  test.each<[string, string | Uint8Array, string | string[], string]>([
    ['no known signature', `${TEXT}\n${PETERS}`, ENOCH, 'signature'],
    ['no key', `${TEXT}\n${PETERS}`, [], 'signature'],
    ['a changed text', `${TEXT.replace('answer', 'Answer')}\n${PETERS}`, PETER, 'signature'],
    ['a changed signature', `${TEXT}\n${inserted(PETERS, 60)}`, PETER, 'signature'],
    [
      'a wrong signature of one of two known keys',
      `${TEXT}\n${PETERS}${inserted(ENOCHS, 60)}`,
      [PETER, ENOCH],
      'signature',
    ],
    ['a sound and a wrong signature of the key', `${TEXT}\n${PETERS}${inserted(PETERS, 60)}`, PETER, 'signature'],
    ['a name of another key', `${TEXT}\n${PETERS.replace('PeterNeumann', 'CarmenSandiego')}`, PETER, 'signature'],
    ['another key id', `${TEXT}\n${PETERS.replace('x08g', 'xxxx')}`, PETER, 'signature'],
    ['no signature', TEXT, PETER, 'malformed'],
    ['no line of signatures', `${TEXT}\n`, PETER, 'malformed'],
    ['no line feed at the end', `${TEXT}\n${PETERS.slice(0, -1)}`, PETER, 'malformed'],
    ['a control character', `\x01${TEXT}\n${PETERS}`, PETER, 'malformed'],
    ['a carriage return', `${TEXT}\n${PETERS}`.replaceAll('\n', '\r\n'), PETER, 'malformed'],
    ['no UTF-8', Buffer.concat([Buffer.of(0xff), Buffer.from(`${TEXT}\n${PETERS}`)]), PETER, 'malformed'],
    ['half a surrogate pair', `\ud800${TEXT}\n${PETERS}`, PETER, 'malformed'],
    ['a name with a space', `${TEXT}\n${PETERS.replace('PeterNeumann', 'Bad Name')}`, PETER, 'malformed'],
    ['another line', `${TEXT}\n${PETERS}Unexpected line.\n`, PETER, 'malformed'],
    ['another encoding of the same signature', `${TEXT}\n${PETERS.replace('nAM=', 'nAN=')}`, PETER, 'malformed'],
    ['101 signatures', `${TEXT}\n${PETERS.repeat(101)}`, PETER, 'malformed'],
    [
      'a key of another length',
      `${TEXT}\n${PETERS}`,
      'PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==',
      'malformed',
    ],
    [
      'a key of another algorithm',
      `${TEXT}\n${PETERS}`,
      'PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
      'malformed',
    ],
  ])('%s: refused', async (_, note, keys, reason) => {
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
        expect((await refusalOf(() => verifyNote(`${TEXT}\n${PETERS}`, key))).reason).toBe('malformed');
      }
    }
  });

  test('a note that is no checkpoint is refused as one', async () => {
    expect((await refusalOf(() => verifyCheckpoint(C2SP.note, { keys: C2SP.key }))).reason).toBe('malformed');
  });
});
