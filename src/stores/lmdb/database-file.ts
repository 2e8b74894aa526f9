import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { yieldIfDue } from '../../kernel/turn.js';

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
/** Bytes of a node before its key, and of the value of one whose data is on separate pages. */
const [NODE, BIG_VALUE] = [8, 24];
/**
 * The description of a tree: flags at 4, depth at 6, then its numbers of pages and entries, and at the end its root.
 */
const DESCRIPTION = 48;
const ROOT_AT = 40;
const NO_ROOT = 0xffff_ffff_ffff_ffffn;
/** Flags of a tree whose keys are not in the order of their bytes: reversed, or integers. */
const OTHER_ORDER = 0x02 | 0x08;
/** The leaves of a larger file are read only if the file looks cut, since that delays the start. */
const READ_LEAVES_UP_TO = 256 * 2 ** 20;
/** The same limit for read models, where no other check would detect a missing row. */
const READ_ALL_UP_TO = 2 ** 30;

interface Meta {
  pageSize: number;
  lastPage: number;
  transaction: bigint;
  /** Those to be read. */
  trees: Tree[];
}

/** The numbers in the description of a tree, and the numbers found. */
interface Tree {
  /** Whether it is that of `ROWS`, and its entries are checked. */
  isOfRows?: boolean;
  root: bigint;
  isOrdered: boolean;
  described: Counts;
  found: Counts;
}
const COUNTS = ['depth', 'branches', 'leaves', 'overflows', 'entries'] as const;
type Counts = Record<(typeof COUNTS)[number], number>;

/** The name of the database of rows: in each, the CRC-32 of the key and the content follows them. */
export const ROWS = 'checked_rows';
/** The CRC-32 of any bytes that are followed by their own CRC-32, its lowest byte first, and of no others. */
export const RESIDUE = 0x2144df1c;

/** A page to read, and the keys between which its own must be. */
interface Visit {
  page: bigint;
  depth: number;
  tree: Tree;
  from?: Buffer | undefined;
  to?: Buffer | undefined;
}

/** An entry of a page: a key with the number of a page, in a branch, or with a value, in a leaf. */
interface Node {
  /** Its index in the page. */
  n: number;
  /** Where it begins, where its key ends and its value begins, and where it ends, in bytes of the page. */
  at: number;
  value: number;
  end: number;
  /** The low 32 bits of the page number, of which `flags` are the high ones; in a leaf, the size of the value. */
  low: number;
  flags: number;
}

/**
 * What is wrong with a file, as a clause; undefined: nothing, or it is empty or does not exist. Other work can run between two pages.
 * @param whole also check that nothing is missing or misplaced: each tree must have the described number of entries, in
 * order, so that a look-up that finds nothing can be trusted; and each row must have the right checksum
 * @throws the file system's errors
 */
export async function flawOf(path: string, whole = false): Promise<string | undefined> {
  if (!statSync(path, { throwIfNoEntry: false })) return undefined;
  const file = openSync(path, 'r+');
  try {
    const size = fstatSync(file).size;
    if (size === 0) return undefined;
    const meta = readMeta(file);
    if (!meta) return 'is not a database that this build can read';
    return await new PageCheck(file, size, meta, whole).run();
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
    const isSize = size >= 512 && size <= 65_536 && (size & (size - 1)) === 0;
    // The library takes the size of the later one, and maps that much.
    if (!isSize || (n === 1 && size !== pageSize)) return undefined;
    pageSize = size;
    found.push({
      pageSize,
      lastPage: Number(page.readBigUInt64LE(144)),
      transaction: page.readBigUInt64LE(152),
      trees: [treeOf(page, 48), treeOf(page, 96)],
    });
  }
  return found.sort((a, b) => Number(b.transaction - a.transaction))[0];
}

/** @param at where its description begins */
function treeOf(page: Buffer, at: number): Tree {
  const count = (offset: number) => Number(page.readBigUInt64LE(at + offset));
  return {
    root: page.readBigUInt64LE(at + ROOT_AT),
    isOrdered: (page.readUInt16LE(at + 4) & OTHER_ORDER) === 0,
    described: {
      depth: page.readUInt16LE(at + 6),
      branches: count(8),
      leaves: count(16),
      overflows: count(24),
      entries: count(32),
    },
    found: { depth: 0, branches: 0, leaves: 0, overflows: 0, entries: 0 },
  };
}

class PageCheck {
  private readonly pages: number;
  private readonly readsLeaves: boolean;
  /** The page that is checked now, and its number. */
  private readonly page: Buffer;
  private number = 0;
  private open: Visit[] = [];
  private left: number;

  constructor(
    private readonly file: number,
    size: number,
    private readonly meta: Meta,
    private readonly whole: boolean,
  ) {
    this.pages = Math.floor(size / meta.pageSize);
    this.left = this.pages;
    // A file that is shorter than its pages may have lost some, or never have had the last ones, which are free.
    const isShort = this.pages <= meta.lastPage;
    this.readsLeaves = isShort || size <= (whole ? READ_ALL_UP_TO : READ_LEAVES_UP_TO);
    this.page = Buffer.alloc(meta.pageSize);
  }

  async run(): Promise<string | undefined> {
    const { trees } = this.meta;
    for (let tree = trees.shift(); tree; tree = trees.shift()) {
      if (tree.root !== NO_ROOT) this.open = [{ page: tree.root, depth: 1, tree }];
      for (let visit = this.open.pop(); visit; visit = this.open.pop()) {
        const flaw = this.flawOfPage(visit);
        if (flaw) return flaw;
        await yieldIfDue();
      }
      if (!this.whole || !this.readsLeaves) continue;
      const { described, found } = tree;
      for (const name of COUNTS) {
        if (described[name] !== found[name])
          return `is damaged: it has ${found[name]} ${name} where ${described[name]} were written`;
      }
    }
    return undefined;
  }

  private flawOfPage(visit: Visit): string | undefined {
    const unreadable = this.flawOfReference(visit);
    if (unreadable) return unreadable;
    const number = (this.number = Number(visit.page));
    const page = this.page;
    const { pageSize } = this.meta;
    readSync(this.file, page, 0, pageSize, number * pageSize);
    const flags = page.readUInt16LE(18) & (BRANCH | LEAF | OVERFLOW);
    const [lower, upper] = [page.readUInt16LE(20), page.readUInt16LE(22)];
    if (Number(page.readBigUInt64LE(0)) !== number || (flags !== BRANCH && flags !== LEAF)) return this.damage;
    if (lower % 2 === 1 || lower > upper || upper > pageSize - HEADER) return this.damage;

    const isBranch = flags === BRANCH;
    const entries = lower / 2;
    const { found } = visit.tree;
    found.depth = Math.max(found.depth, visit.depth);
    found[isBranch ? 'branches' : 'leaves']++;
    if (!isBranch) found.entries += entries;
    /** Bytes of the page that its nodes take. */
    let taken = 0;
    let before: Node | undefined;
    for (let n = 0; n < entries; n++) {
      const node = this.node(n, isBranch);
      if (node.at < HEADER + upper || node.end > pageSize) return this.damage;
      const flaw = isBranch ? this.flawOfChild(node, visit) : this.flawOfValue(node, visit.tree);
      if (flaw) return flaw;
      const size = node.end - node.at;
      taken += size + (size % 2);
      // The first node of a branch has no key.
      if (!this.whole || !visit.tree.isOrdered || (isBranch && n === 0)) continue;
      if (!this.isInOrder(node, before, visit)) return this.damage;
      before = node;
    }
    // Nodes fill the end of a page without a gap.
    if (this.whole && taken !== pageSize - HEADER - upper) return this.damage;
    return undefined;
  }

  private get damage(): string {
    return `is damaged at page ${this.number}`;
  }

  private flawOfReference({ page, depth }: Visit): string | undefined {
    if (page < 2n || page > BigInt(this.meta.lastPage)) {
      return `is damaged: it refers to a page ${page} that it does not have`;
    }
    if (page >= BigInt(this.pages)) return this.cutAt(page);
    if (--this.left < 0 || depth > 64) return 'is damaged: its pages refer to each other in a cycle';
    return undefined;
  }

  private cutAt(page: bigint): string {
    return `is cut: it has ${this.pages} pages and refers to page ${page}`;
  }

  /** Its places may be outside the page, which is for the caller to check. */
  private node(n: number, isBranch: boolean): Node {
    const page = this.page;
    const at = HEADER + page.readUInt16LE(HEADER + 2 * n);
    if (at + NODE > page.length) return { n, at, low: 0, flags: 0, value: at + NODE, end: at + NODE };
    const low = page.readUInt32LE(at);
    const flags = page.readUInt16LE(at + 4);
    const value = at + NODE + page.readUInt16LE(at + 6);
    const valueSize = isBranch ? 0 : flags & BIG_DATA ? BIG_VALUE : low;
    return { n, at, low, flags, value, end: value + valueSize };
  }

  /** Adds the page that a node of a branch leads to, to those that will be read. */
  private flawOfChild({ n, at, low, flags, value }: Node, { depth, tree, from, to }: Visit): string | undefined {
    const page = BigInt(low) + (BigInt(flags) << 32n);
    // For the leaves of a large file, only their presence is checked. Their parent does not say which pages are leaves.
    if (!this.readsLeaves && depth >= 3) return page >= BigInt(this.pages) ? this.cutAt(page) : undefined;
    const child: Visit = { page, depth: depth + 1, tree };
    if (this.whole) {
      // The first node leads to everything before the second.
      child.from = n === 0 ? from : Buffer.from(this.page.subarray(at + NODE, value));
      child.to = to;
      if (n > 0) this.open.at(-1)!.to = child.from;
    }
    this.open.push(child);
    return undefined;
  }

  /** Adds the tree that a value describes, if any, to those that will be read. */
  private flawOfValue({ at, low: size, flags, value, end }: Node, tree: Tree): string | undefined {
    const page = this.page;
    if (!(flags & BIG_DATA)) {
      if (flags & SUB_DATABASE && size >= DESCRIPTION) {
        // The library ends the name of a database with a NUL.
        const name = page.toString('utf8', at + NODE, value).replace(/\0$/, '');
        this.meta.trees.push({ ...treeOf(page, value), isOfRows: this.whole && name === ROWS });
      } else if (tree.isOfRows && crc32(page.subarray(at + NODE, end)) !== RESIDUE) return this.damage;
      return undefined;
    }
    const first = Number(page.readBigUInt64LE(value));
    // It may have more pages than its data needs, if the data was longer before.
    const count = Number(page.readBigUInt64LE(value + 16));
    if (count < Math.ceil((HEADER + size) / page.length)) return this.damage;
    const last = first + count - 1;
    if (last >= this.pages) return `is cut or damaged: it has ${this.pages} pages and refers to page ${last}`;
    tree.found.overflows += count;
    if (!tree.isOfRows) return undefined;
    const entry = Buffer.alloc(value - at - NODE + size);
    page.copy(entry, 0, at + NODE, value);
    readSync(this.file, entry, value - at - NODE, size, first * page.length + HEADER);
    return crc32(entry) === RESIDUE ? undefined : this.damage;
  }

  private isInOrder({ at, value }: Node, before: Node | undefined, { from, to }: Visit): boolean {
    const page = this.page;
    const start = at + NODE;
    if (from && from.compare(page, start, value) > 0) return false;
    if (to && to.compare(page, start, value) <= 0) return false;
    return !before || page.compare(page, start, value, before.at + NODE, before.value) < 0;
  }
}
