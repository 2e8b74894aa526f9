import { hashOf } from '../kernel/hash.js';

const BITS_PER_ENTRY = 20;
const PROBES = 3;

/**
 * Gives equal lines of a file distinct ids: the hash of (content, number among equal lines), the same in every run
 * over the file. The first pass finds candidates for duplicates with a Bloom filter, so that only those are counted
 * and the memory is a few bits per line.
 */
export class RepeatedLines {
  private readonly seen: Uint8Array;
  private readonly mask: number;
  /** Contents that occur more than once, and some false positives. */
  private readonly counts = new Map<string, number>();

  /** @param expected the approximate number of lines */
  constructor(expected: number) {
    const bits = 2 ** Math.ceil(Math.log2(Math.max(1, expected) * BITS_PER_ENTRY));
    this.mask = Math.min(bits, 2 ** 32) - 1;
    this.seen = new Uint8Array(Math.ceil((this.mask + 1) / 8));
  }

  /** First pass. @param contentHash SHA-256 in hex */
  note(contentHash: string): void {
    let isNew = false;
    for (let probe = 0; probe < PROBES; probe++) {
      const bit = (parseInt(contentHash.slice(probe * 8, probe * 8 + 8), 16) & this.mask) >>> 0;
      const byte = this.seen[bit >>> 3]!;
      if ((byte & (1 << (bit & 7))) === 0) {
        isNew = true;
        this.seen[bit >>> 3] = byte | (1 << (bit & 7));
      }
    }
    if (!isNew) this.counts.set(contentHash, 0);
  }

  /** Second pass, in the same order. */
  identityOf(contentHash: string): string {
    const counted = this.counts.get(contentHash);
    const ordinal = counted === undefined ? 1 : counted + 1;
    if (counted !== undefined) this.counts.set(contentHash, ordinal);
    return hashOf('import', contentHash, String(ordinal));
  }
}
