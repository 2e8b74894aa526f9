import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/**
 * Checks the pages of a database file before it is mapped into memory. The library trusts their content, so a page
 * number or offset that is wrong, or beyond the end of the file, ends the process.
 *
 * The format is that of LMDB 1.0, little-endian: pages that begin with 24 bytes (number, transaction, flags at 18,
 * lower at 20, upper at 22), then 16-bit offsets of nodes. There are two meta pages; the one of the later transaction
 * counts.
 */

const HEADER = 24;
const MAGIC = 0xbeefc0de;
const [BRANCH, LEAF, OVERFLOW] = [1, 2, 4];
const [BIG_DATA, SUB_DATABASE] = [1, 2];
/** Offset of the root's page number in the description of a tree, and the number that means an empty tree. */
const ROOT_AT = 40;
const NO_ROOT = 0xffff_ffff_ffff_ffffn;
/** The leaves of a larger file are not read, since that would delay the start. */
const READ_LEAVES_UP_TO = 256 * 2 ** 20;
const ATTEMPTS = 5;

interface Meta {
  pageSize: number;
  lastPage: number;
  transaction: bigint;
  roots: bigint[];
}

/** What is wrong with a file, as a clause; undefined: nothing, or it is empty. @throws the file system's errors */
export function flawOf(path: string): string | undefined {
  const file = openSync(path, 'r+');
  try {
    for (let attempt = 1; ; attempt++) {
      const size = fstatSync(file).size;
      if (size === 0) return undefined;
      const meta = readMeta(file);
      if (!meta) return 'is not a database that this build can read';
      const flaw = flawIn(file, size, meta);
      // A running process may reuse pages of a state that it has superseded meanwhile: check once more.
      if (!flaw || readMeta(file)?.transaction === meta.transaction) return flaw;
      if (attempt === ATTEMPTS) return undefined;
    }
  } finally {
    closeSync(file);
  }
}

function readMeta(file: number): Meta | undefined {
  const found: Meta[] = [];
  let pageSize = 4_096;
  for (let n = 0; n < 2; n++) {
    const page = Buffer.alloc(HEADER + 144);
    if (readSync(file, page, 0, page.length, n * pageSize) < page.length) break;
    if (page.readUInt32LE(HEADER) !== MAGIC) {
      if (n === 0) return undefined;
      continue;
    }
    const size = page.readUInt32LE(48);
    if (n === 0 && size >= 512 && size <= 65_536 && (size & (size - 1)) === 0) pageSize = size;
    found.push({
      pageSize,
      lastPage: Number(page.readBigUInt64LE(144)),
      transaction: page.readBigUInt64LE(152),
      roots: [page.readBigUInt64LE(48 + ROOT_AT), page.readBigUInt64LE(96 + ROOT_AT)],
    });
  }
  return found.sort((a, b) => Number(b.transaction - a.transaction))[0];
}

function flawIn(file: number, size: number, { pageSize, lastPage, roots }: Meta): string | undefined {
  const pages = Math.floor(size / pageSize);
  const readsLeaves = size <= READ_LEAVES_UP_TO;
  const page = Buffer.alloc(pageSize);
  const open: { root: bigint; depth: number }[] = roots.map((root) => ({ root, depth: 0 }));
  let left = pages;
  while (open.length > 0) {
    const { root, depth } = open.pop()!;
    if (root === NO_ROOT) continue;
    if (root < 2n || root > BigInt(lastPage)) return `is damaged: it refers to a page ${root} that it does not have`;
    const number = Number(root);
    if (number >= pages) return `is cut: it has ${pages} pages and refers to page ${number}`;
    if (--left < 0 || depth > 64) return 'is damaged: its pages refer to each other in a cycle';
    readSync(file, page, 0, pageSize, number * pageSize);
    const flags = page.readUInt16LE(18) & (BRANCH | LEAF | OVERFLOW);
    const [lower, upper] = [page.readUInt16LE(20), page.readUInt16LE(22)];
    const flaw = `is damaged at page ${number}`;
    if (Number(page.readBigUInt64LE(0)) !== number || (flags !== BRANCH && flags !== LEAF)) return flaw;
    if (lower % 2 === 1 || lower > upper || upper > pageSize - HEADER) return flaw;
    for (let n = 0; n < lower / 2; n++) {
      const at = HEADER + page.readUInt16LE(HEADER + 2 * n);
      if (at < HEADER + upper || at + 8 > pageSize) return flaw;
      const low = page.readUInt32LE(at);
      const nodeFlags = page.readUInt16LE(at + 4);
      const data = at + 8 + page.readUInt16LE(at + 6);
      if (data > pageSize) return flaw;
      if (flags === BRANCH) {
        const child = BigInt(low) + (BigInt(nodeFlags) << 32n);
        // For the leaves of a large file, only their presence is checked. Their parent does not say which pages are
        // leaves.
        if (readsLeaves || depth < 2) open.push({ root: child, depth: depth + 1 });
        else if (child >= BigInt(pages)) return `is cut: it has ${pages} pages and refers to page ${child}`;
      } else if (nodeFlags & BIG_DATA) {
        if (data + 8 > pageSize) return flaw;
        const last = Number(page.readBigUInt64LE(data)) + Math.ceil((HEADER + low) / pageSize) - 1;
        if (last >= pages) return `is cut or damaged: it has ${pages} pages and refers to page ${last}`;
      } else if (data + low > pageSize) {
        return flaw;
      } else if (nodeFlags & SUB_DATABASE && low >= ROOT_AT + 8) {
        open.push({ root: page.readBigUInt64LE(data + ROOT_AT), depth: 0 });
      }
    }
  }
  return undefined;
}
