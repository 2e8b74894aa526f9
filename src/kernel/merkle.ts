import { hash } from 'node:crypto';
import type { RecordedEvent } from './event.js';
import { PLAIN, sha256Hex } from './hash.js';

/**
 * The Merkle tree of the log: RFC 9162, section 2.1, over the leaves of docs/decisions/0034. Here it is made; who checks
 * it has other code. A hash is text: its 32 bytes as base64url, 43 characters.
 */

/** Levels of the tree between two levels of tiles, and the number of hashes in a full tile (C2SP tlog-tiles). */
const TILE_HEIGHT = 8;
export const TILE_WIDTH = 2 ** TILE_HEIGHT;
export const HASH_LENGTH = 43;

const NO_SALT = '0'.repeat(32);
/** The members of the metadata that have their own places in a leaf. */
const PLACED = new Set(
  'schema occurred_at recorded_at correlation_id actor body_hash idempotency traceparent index size salt index_version'.split(
    ' ',
  ),
);

/** The leaf, format 1, of an event as it was recorded, which is not damaged. */
export function leafOf(event: RecordedEvent): string {
  return hash('sha256', `\0${entryOf(event)}`, 'base64url');
}

/** What the leaf of an event is the hash of. */
export function entryOf({ stream, revision, id, type, data, metadata }: RecordedEvent): string {
  const salts = sha256Hex(`credence leaf 1 ${metadata.salt ?? NO_SALT}`);
  const named = metadata as unknown as Record<string, unknown>;
  const more = Object.keys(named).filter((name) => !PLACED.has(name) && named[name] !== undefined);
  const { correlation_id, actor, idempotency, traceparent, index, size } = metadata;
  const who = [salts.slice(0, 32), stream, revision, correlation_id, actor, idempotency, traceparent, index, size];
  const envelope = sha256Hex(listText([...who, ...more.sort().map((name) => [name, named[name]])]));
  const { body_hash, schema, occurred_at, recorded_at } = metadata;
  const content = sha256Hex(listText([salts.slice(32), id, body_hash, schema, occurred_at, data]));
  return listText([named['index_version'] ?? 1, type, recorded_at, envelope, content]);
}

/** As `JSON.stringify`, which takes twice as long for short texts. */
function listText(values: readonly unknown[]): string {
  let text = '';
  for (const value of values) {
    const isPlain = typeof value === 'string' && PLAIN.test(value);
    text += `${text === '' ? '[' : ','}${isPlain ? `"${value}"` : (JSON.stringify(value) ?? 'null')}`;
  }
  return `${text}]`;
}

const node = Buffer.alloc(65, 1);

export function nodeHash(left: string, right: string): string {
  node.write(left, 1, 'base64url');
  node.write(right, 33, 'base64url');
  return hash('sha256', node, 'base64url');
}

/**
 * Adds a leaf to the peaks of a tree of `size` leaves: the roots of its complete subtrees, from the largest on.
 * @param onNode called with each subtree that is completed: the number of its leaves, and its root
 */
export function addLeaf(peaks: string[], size: number, leaf: string, onNode?: (width: number, root: string) => void) {
  let root = leaf;
  for (let width = 2; (size + 1) % width === 0; width *= 2) {
    root = nodeHash(peaks.pop()!, root);
    onNode?.(width, root);
  }
  peaks.push(root);
}

/** The form that is written down: in checkpoints and proofs. */
export function base64Of(hash: string): string {
  return Buffer.from(hash, 'base64url').toString('base64');
}

export function rootOfPeaks(peaks: readonly string[]): string {
  return peaks.length === 0
    ? hash('sha256', '', 'base64url')
    : peaks.reduceRight((right, left) => nodeHash(left, right));
}

/** Reads one hash of a tile: of a level of tiles, by its index in that level. It must exist. */
export type HashReader = (level: number, index: number) => Promise<string>;

/** The root of the tree of the first `size` leaves. */
export function rootOf(size: number, read: HashReader): Promise<string> {
  return size === 0 ? Promise.resolve(rootOfPeaks([])) : range(0, size, read);
}

/** The audit path (RFC 9162, section 2.1.3.1) of the leaf with this index in the tree of the first `size` leaves. */
export async function inclusionPath(index: number, size: number, read: HashReader): Promise<string[]> {
  return (await descent(index + 1, size, (start, end) => end - start === 1, read)).path;
}

/** The consistency proof (RFC 9162, section 2.1.4.1) of the first `from` leaves, at least 1, and the first `to`. */
export async function consistencyPath(from: number, to: number, read: HashReader): Promise<string[]> {
  const { path, start } = await descent(from, to, (_start, end) => end <= from, read);
  // The old tree, unless it is a part that the verifier knows.
  if (start > 0) path.unshift(await range(start, from, read));
  return path;
}

/** Goes down to the last of the first `from` leaves. @returns the hashes beside its way, and where its last part starts */
async function descent(
  from: number,
  size: number,
  isLast: (start: number, end: number) => boolean,
  read: HashReader,
): Promise<{ path: string[]; start: number }> {
  const path: string[] = [];
  let [start, end] = [0, size];
  while (!isLast(start, end)) {
    const middle = start + split(end - start);
    const isLeft = from <= middle;
    path.unshift(await (isLeft ? range(middle, end, read) : range(start, middle, read)));
    if (isLeft) end = middle;
    else start = middle;
  }
  return { path, start };
}

/** The largest power of two below a number of leaves, at least 2. */
function split(leaves: number): number {
  return 2 ** Math.ceil(Math.log2(leaves) - 1);
}

/** The hash over the leaves from `start` to before `end`, a part that the definition of the tree divides it into. */
async function range(start: number, end: number, read: HashReader): Promise<string> {
  const height = Math.log2(end - start);
  if (height % TILE_HEIGHT === 0) return read(height / TILE_HEIGHT, start / (end - start));
  const middle = start + split(end - start);
  return nodeHash(await range(start, middle, read), await range(middle, end, read));
}
