/**
 * Verifies what a log of Credence says about itself, without calling the service: leaves (record 0034 of its decisions),
 * proofs of RFC 9162, and checkpoints and proofs of C2SP (signed-note, tlog-checkpoint, tlog-proof), by SHA-256 of
 * `@noble/hashes` and Ed25519 of WebCrypto.
 */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex as hex } from '@noble/hashes/utils.js';

/** `mismatch`: the hashes do not fit together. `range`: no such index or sizes. The others: what is wrong with the text. */
export type AuditRefusal = 'malformed' | 'range' | 'mismatch' | 'origin' | 'signature';

/** The proof proves nothing; the message says what is wrong with it. */
export class AuditError extends Error {
  override readonly name = 'AuditError';

  constructor(
    readonly reason: AuditRefusal,
    message: string,
  ) {
    super(message);
  }
}

/** 32 bytes. */
export type Hash = Uint8Array;

/** The tree over the first `size` events of a log. */
export interface Tree {
  size: number;
  root: Hash;
}

export interface Checkpoint extends Tree {
  /** Names the log. */
  origin: string;
  /** Lines after the root, whose meaning is the log's. */
  extensions: string[];
}

export interface CheckpointOptions {
  /** Verifier keys, `<name>+<8 hexadecimal digits>+<base64>`, of which one must have signed: several while a key is replaced. */
  keys: string | readonly string[];
  /** The only origin to accept. Default: the name of the key that has signed. */
  origin?: string;
}

const encoder = new TextEncoder();
const HASH_BYTES = 32;
const NO_SALT = '0'.repeat(32);

/**
 * The leaf of an event, format 1.
 * @param line of `credence export`, without its line feed
 * @throws AuditError `malformed` if the line is none of an event, byte for byte as it was exported
 */
export function leafOf(line: string): Hash {
  const event = objectOf(line);
  const { id, stream, revision, type, data } = event;
  const metadata = event['metadata'];
  if (typeof id !== 'string' || !isObject(data) || !isObject(metadata)) {
    throw new AuditError('malformed', 'The line is not an event of `credence export`: it lacks id, data or metadata.');
  }
  const { schema, occurred_at, recorded_at, salt = NO_SALT, index_version = 1, body_hash, ...rest } = metadata;
  const { correlation_id, actor, idempotency = null, traceparent = null, index, size, ...more } = rest;
  const salts = hex(sha256(encoder.encode(`credence leaf 1 ${salt}`)));
  const others = Object.keys(more)
    .sort()
    .map((name) => [name, more[name]]);
  const first = [salts.slice(0, 32), stream, revision, correlation_id, actor, idempotency, traceparent, index, size];
  const envelope = hashOf([...first, ...others]);
  const content = hashOf([salts.slice(32), id, body_hash, schema, occurred_at, data]);
  return sha256(encoder.encode(`\0${JSON.stringify([index_version, type, recorded_at, envelope, content])}`));
}

/** The hash of an inner node (RFC 9162, section 2.1.1). */
export function nodeHash(left: Hash, right: Hash): Hash {
  const bytes = new Uint8Array(1 + 2 * HASH_BYTES);
  bytes[0] = 1;
  bytes.set(left, 1);
  bytes.set(right, 1 + HASH_BYTES);
  return sha256(bytes);
}

/** The tree over leaves in the order of the log (RFC 9162, section 2.1.1). Keeps one hash for each bit of the size. */
export function treeOf(leaves: Iterable<Hash>): Tree {
  // Roots of full subtrees from left to right, each smaller than the one before.
  const roots: Hash[] = [];
  let size = 0;
  for (const leaf of leaves) {
    let node = leaf;
    for (let rest = size; rest % 2 === 1; rest = half(rest)) node = nodeHash(roots.pop()!, node);
    roots.push(node);
    size++;
  }
  const root = roots.reduceRight<Hash | undefined>((right, left) => (right ? nodeHash(left, right) : left), undefined);
  return { size, root: root ?? sha256(new Uint8Array()) };
}

/**
 * That a leaf is in a tree (RFC 9162, section 2.1.3.2). Size and root together must be of a checkpoint that you trust:
 * a proof can hold for the root with another size.
 * @param index of the leaf, from 0
 * @param proof hashes from the leaf's sibling to the root's child
 * @throws AuditError
 */
export function verifyInclusion(leaf: Hash, index: number, { size, root }: Tree, proof: readonly Hash[]): void {
  checkHashes([leaf, root, ...proof]);
  if (!isCount(index) || !isCount(size) || index >= size) {
    throw new AuditError('range', `A tree of ${size} leaves has no leaf ${index}: indexes begin with 0.`);
  }
  let [node, last, hash] = [index, size - 1, leaf];
  for (const sibling of proof) {
    if (last === 0) throw wrongLength(proof, index, size);
    if (node % 2 === 1 || node === last) {
      hash = nodeHash(sibling, hash);
      [node, last] = withoutZeros(node, last);
    } else {
      hash = nodeHash(hash, sibling);
    }
    [node, last] = [half(node), half(last)];
  }
  if (last !== 0) throw wrongLength(proof, index, size);
  if (!isEqual(hash, root)) {
    throw new AuditError('mismatch', `The leaf is not number ${index} of this tree: the proof leads to another root.`);
  }
}

/**
 * That a tree begins with the leaves of an older one: nothing of it was changed, moved or removed (RFC 9162, section
 * 2.1.4.2). Both trees must be of checkpoints that you trust.
 * @throws AuditError
 */
export function verifyConsistency(older: Tree, newer: Tree, proof: readonly Hash[]): void {
  checkHashes([older.root, newer.root, ...proof]);
  if (!isCount(older.size) || !isCount(newer.size) || older.size === 0 || older.size > newer.size) {
    const sizes = `from ${older.size} to ${newer.size}`;
    throw new AuditError(
      'range',
      `There is no proof ${sizes}: the older tree has a leaf or more, and no more than the newer.`,
    );
  }
  let [node, last] = older.size === newer.size ? [0, 0] : withoutOnes(older.size - 1, newer.size - 1);
  // An older tree that is a subtree of the newer one, or all of it, is where the proof begins.
  const [first, ...path] = node === 0 ? [older.root, ...proof] : proof;
  if (first === undefined) throw wrongLength(proof, older.size, newer.size);
  let [old, now] = [first, first];
  for (const hash of path) {
    if (last === 0) throw wrongLength(proof, older.size, newer.size);
    if (node % 2 === 1 || node === last) {
      [old, now] = [nodeHash(hash, old), nodeHash(hash, now)];
      [node, last] = withoutZeros(node, last);
    } else {
      now = nodeHash(now, hash);
    }
    [node, last] = [half(node), half(last)];
  }
  if (last !== 0) throw wrongLength(proof, older.size, newer.size);
  if (!isEqual(old, older.root)) {
    throw new AuditError('mismatch', `The proof does not lead to the root of the older tree, of size ${older.size}.`);
  }
  if (!isEqual(now, newer.root)) {
    throw new AuditError('mismatch', `The tree of size ${newer.size} does not begin with that of size ${older.size}.`);
  }
}

/**
 * The text of a signed note (c2sp.org/signed-note), if one of the keys has signed it. Signatures by other keys are
 * ignored.
 * @returns the text, with its last line feed, and the names of the keys that have signed
 * @throws AuditError; NotSupportedError where WebCrypto has no Ed25519
 */
export async function verifyNote(
  note: string | Uint8Array,
  keys: string | readonly string[],
): Promise<{ text: string; signers: string[] }> {
  const whole = textOf(note);
  const split = whole.lastIndexOf('\n\n');
  const lines = whole.slice(split + 2).split('\n');
  if (split < 0 || lines.length < 2 || lines.pop() !== '' || lines.length > MOST_SIGNATURES) {
    const form = `an empty line, and 1 to ${MOST_SIGNATURES} lines with signatures`;
    throw new AuditError('malformed', `A signed note is a text, ${form}, each with a line feed at its end.`);
  }
  const text = whole.slice(0, split + 1);
  const signatures = lines.map(signatureOf);
  const known = await Promise.all([keys].flat().map(keyOf));
  const signers: string[] = [];
  for (const { name, id, key } of known) {
    for (const { signature } of signatures.filter((signed) => signed.name === name && signed.id === id)) {
      if (!(await crypto.subtle.verify('Ed25519', key, signature, encoder.encode(text)))) {
        throw new AuditError(
          'signature',
          `The note is not what ${name} has signed: it was changed, or its signature was.`,
        );
      }
      if (!signers.includes(name)) signers.push(name);
    }
  }
  if (signers.length === 0) {
    const given = known.map(({ name, id }) => `${name}+${id}`).join(', ');
    const found = signatures.map(({ name, id }) => `${name}+${id}`).join(', ');
    throw new AuditError(
      'signature',
      `The note has no signature by ${given || 'any key: none was given'}, but by ${found}.`,
    );
  }
  return { text, signers };
}

/**
 * A checkpoint (c2sp.org/tlog-checkpoint) that one of the keys has signed.
 * @throws AuditError; NotSupportedError where WebCrypto has no Ed25519
 */
export async function verifyCheckpoint(
  note: string | Uint8Array,
  { keys, origin }: CheckpointOptions,
): Promise<Checkpoint> {
  const { text, signers } = await verifyNote(note, keys);
  const [name, size, root, ...extensions] = text.slice(0, -1).split('\n') as [string, string, string, ...string[]];
  const hash = bytesOf(root ?? '');
  if (name === '' || !isDecimal(size) || hash?.length !== HASH_BYTES || extensions.includes('')) {
    throw new AuditError(
      'malformed',
      'The note is not a checkpoint: lines with an origin, a size and a root in base64.',
    );
  }
  if (origin === undefined ? !signers.includes(name) : name !== origin) {
    throw new AuditError('origin', `The checkpoint is of the log ${name}, not of ${origin ?? signers.join(' or ')}.`);
  }
  if (size === '0' && !isEqual(hash, treeOf([]).root)) {
    throw new AuditError('mismatch', 'The checkpoint is of an empty tree, and its root is that of another one.');
  }
  return { origin: name, size: Number(size), root: hash, extensions };
}

/**
 * That a leaf is in the log, from a file of c2sp.org/tlog-proof.
 * @returns where it is, and the checkpoint; `extra` is not signed
 * @throws AuditError; NotSupportedError where WebCrypto has no Ed25519
 */
export async function verifyProof(
  file: string | Uint8Array,
  leaf: Hash,
  options: CheckpointOptions,
): Promise<{ index: number; checkpoint: Checkpoint; extra?: Uint8Array }> {
  const text = textOf(file);
  const split = text.indexOf('\n\n');
  const [first, ...lines] = text.slice(0, Math.max(split, 0)).split('\n');
  const hasExtra = lines[0]?.startsWith('extra ') === true;
  const extra = hasExtra ? bytesOf(lines.shift()!.slice('extra '.length)) : undefined;
  const [, index] = /^index (\d+)$/.exec(lines.shift() ?? '') ?? [];
  const proof = lines.map(bytesOf);
  const isExtraSound = !hasExtra || extra !== undefined;
  if (first !== PROOF_FORM || !isExtraSound || !isDecimal(index) || !proof.every((hash) => hash !== undefined)) {
    const form = `"${PROOF_FORM}", perhaps "extra <base64>", "index <number>", a hash in base64 a line, an empty line`;
    throw new AuditError('malformed', `The file is not a tlog-proof: ${form} and a checkpoint.`);
  }
  const checkpoint = await verifyCheckpoint(text.slice(split + 2), options);
  verifyInclusion(leaf, Number(index), checkpoint, proof);
  return { index: Number(index), checkpoint, ...(extra && { extra }) };
}

const PROOF_FORM = 'c2sp.org/tlog-proof@v1';
const MOST_SIGNATURES = 100;
/** The signature type of Ed25519. */
const ED25519 = 1;
const KEY_NAME = String.raw`[^\s\u0085+]+`;
const VERIFIER_KEY = new RegExp(String.raw`^(${KEY_NAME})\+([0-9a-f]{8})\+(.+)$`);
const SIGNATURE = new RegExp(String.raw`^— (${KEY_NAME}) (.+)$`);

type VerifyingKey = Parameters<typeof crypto.subtle.verify>[1];

/** @throws AuditError */
async function keyOf(text: string): Promise<{ name: string; id: string; key: VerifyingKey }> {
  const [, name = '', id, encoded = ''] = VERIFIER_KEY.exec(text) ?? [];
  const bytes = bytesOf(encoded);
  if (bytes?.length !== 1 + HASH_BYTES || bytes[0] !== ED25519) {
    throw new AuditError('malformed', `${text} is no verifier key of Ed25519: <name>+<8 hexadecimal digits>+<base64>.`);
  }
  const named = encoder.encode(`${name}\n`);
  const hashed = new Uint8Array([...named, ...bytes]);
  if (hex(sha256(hashed)).slice(0, 8) !== id) {
    throw new AuditError(
      'malformed',
      `The digits of ${text} are not those of its name and key: one of them was changed.`,
    );
  }
  return { name, id, key: await crypto.subtle.importKey('raw', bytes.slice(1), 'Ed25519', false, ['verify']) };
}

function signatureOf(line: string): { name: string; id: string; signature: Uint8Array<ArrayBuffer> } {
  const [, name, encoded = ''] = SIGNATURE.exec(line) ?? [];
  const bytes = bytesOf(encoded);
  if (name === undefined || bytes === undefined || bytes.length <= 4) {
    throw new AuditError('malformed', `A signature is "— <key name> <base64>", not ${JSON.stringify(line)}.`);
  }
  return { name, id: hex(bytes.slice(0, 4)), signature: bytes.slice(4) };
}

/** @throws AuditError unless it is well-formed, with no control characters but line feeds */
function textOf(given: string | Uint8Array): string {
  const bytes = typeof given === 'string' ? encoder.encode(given) : given;
  let text: string | undefined;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // Told below.
  }
  // A string with a half of a surrogate pair is encoded as another one.
  if (text === undefined || (typeof given === 'string' && given !== text) || /(?!\n)[^ -\uffff]/.test(text)) {
    throw new AuditError('malformed', 'The text is not UTF-8, or has control characters other than line feeds.');
  }
  return text;
}

/** @throws AuditError */
function objectOf(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line);
    // With a name twice, white space or another spelling of a number, readers could see different events in it.
    if (isObject(value) && JSON.stringify(value) === line) return value;
  } catch {
    // Told below, also of more levels than can be written.
  }
  throw new AuditError('malformed', 'The line is not as `credence export` wrote it: an object of JSON, not edited.');
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const hashOf = (values: unknown[]): string => hex(sha256(encoder.encode(JSON.stringify(values))));
const isEqual = (one: Hash, other: Hash): boolean => one.every((byte, place) => byte === other[place]);
const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
const isDecimal = (text: string | undefined): text is string => String(Number(text)) === text && isCount(Number(text));
/** Operators of bits would cut numbers to 32. */
const half = (value: number): number => Math.floor(value / 2);

/** Both shifted right until the first is odd or 0. */
function withoutZeros(node: number, last: number): [number, number] {
  return node === 0 || node % 2 === 1 ? [node, last] : withoutZeros(half(node), half(last));
}

/** Both shifted right until the first is even. */
function withoutOnes(node: number, last: number): [number, number] {
  return node % 2 === 0 ? [node, last] : withoutOnes(half(node), half(last));
}

function checkHashes(hashes: readonly Hash[]): void {
  if (hashes.every(({ length }) => length === HASH_BYTES)) return;
  throw new AuditError('malformed', `A leaf, a root and each hash of a proof have ${HASH_BYTES} bytes.`);
}

const wrongLength = ({ length }: readonly Hash[], ...numbers: number[]): AuditError =>
  new AuditError('mismatch', `A proof for ${numbers.join(' and ')} does not have ${length} hashes.`);

/** Strict base64: every byte string has exactly one encoding. */
function bytesOf(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const binary = atob(text);
    return btoa(binary) === text ? Uint8Array.from(binary, (character) => character.charCodeAt(0)) : undefined;
  } catch {
    return undefined;
  }
}
