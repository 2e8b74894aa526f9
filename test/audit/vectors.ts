import { readFileSync } from 'node:fs';
import { sha256 } from './reference.js';

/** What others have published, and what the verifiers have to say about it. */

/**
 * Inputs, nodes and roots of the reference tree of Certificate Transparency, which its C++ and Go implementations test
 * with: https://github.com/transparency-dev/merkle, testonly/constants.go.
 */
export const INPUTS = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
];
export const LEAVES = INPUTS.map((input) => sha256('\0', Buffer.from(input, 'hex')));
export const ROOTS = [
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

interface Inclusion {
  kind: 'inclusion';
  leafIdx: number;
  treeSize: number;
  root: string;
  leafHash: string;
}
interface Consistency {
  kind: 'consistency';
  size1: number;
  size2: number;
  root1: string;
  root2: string;
}
type Probe = (Inclusion | Consistency) & { proof: string[]; wantErr: boolean };

/**
 * Proofs, sound and broken, of https://github.com/transparency-dev/merkle, testdata/inclusion and testdata/consistency
 * (Apache-2.0), one a line with hashes in base64.
 */
export const PROBES: Probe[] = readFileSync('test/audit/merkle-proofs.ndjson', 'utf8')
  .trimEnd()
  .split('\n')
  .map((text) => JSON.parse(text));
/** One of them has two equal texts of 12 bytes as roots: here a root has 32. */
export const isSound = (probe: Probe): boolean =>
  !probe.wantErr && (probe.kind === 'inclusion' || Buffer.from(probe.root1, 'base64').length === 32);

/** Of https://c2sp.org/signed-note and golang.org/x/mod/sumdb/note. */
const C2SP = {
  key: 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k',
  note: `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`,
};
export const PETER = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const ENOCH = 'EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop';
const TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const PETERS =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';
const ENOCHS =
  '— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n';
const inserted = (text: string, place: number) => `${text.slice(0, place)}ABCD${text.slice(place)}`;

export const SIGNED = `${TEXT}\n${PETERS}`;

/** What the note is, the note, the keys, and who has signed. */
export const NOTES: [string, string, string | string[], string[]][] = [
  ['the example of C2SP', C2SP.note, C2SP.key, ['example.com/foo']],
  ['one of two signatures known', `${TEXT}\n${PETERS}${ENOCHS}`, PETER, ['PeterNeumann']],
  ['both known', `${TEXT}\n${PETERS}${ENOCHS}`, [PETER, ENOCH], ['PeterNeumann', 'EnochRoot']],
  ['the same signature twice', `${TEXT}\n${PETERS}${PETERS}`, PETER, ['PeterNeumann']],
  ['a wrong signature of an unknown key', `${TEXT}\n${PETERS}${inserted(ENOCHS, 60)}`, PETER, ['PeterNeumann']],
];

/** What is wrong with it, the note, the keys, and the reason of the refusal. */
export const WRONG_NOTES: [string, string | Uint8Array, string | string[], string][] = [
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
];
