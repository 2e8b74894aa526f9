import { digest64 } from '../kernel/hash.js';

/** Tables that the rows are divided among. One that grows is copied, which must not take long. */
const TABLES = 256;

/**
 * The expected content of rows, as one 64-bit digest per row in flat arrays: about 30 bytes per row, so that millions
 * fit where the rows themselves would not. Not cryptographic: it guards against accidental errors, of which it misses
 * one in 2^64.
 */
export class RowDigests {
  private readonly tables = Array.from({ length: TABLES }, () => new Table());

  get size(): number {
    return this.tables.reduce((sum, { present }) => sum + present, 0);
  }

  /** Rows that were neither passed to `matches` nor set as `seen`. */
  get unseenRows(): number {
    return this.tables.reduce((sum, { unseen }) => sum + unseen, 0);
  }

  /** @param seen whether the row needs no further check, since the caller checks it separately */
  set(address: string, content: string, seen: boolean): void {
    const place = digest64(address);
    this.tableOf(place).set(place, digest64(content), seen);
  }

  delete(address: string): void {
    const place = digest64(address);
    this.tableOf(place).delete(place);
  }

  /** Whether this is the row's expected content (undefined: the row should not exist). Marks the row as seen. */
  matches(address: string, content: string | undefined): boolean {
    const place = digest64(address);
    return this.tableOf(place).matches(place, content);
  }

  isUnseen(address: string): boolean {
    const place = digest64(address);
    return this.tableOf(place).isUnseen(place);
  }

  private tableOf([high]: Digest): Table {
    return this.tables[high % TABLES]!;
  }
}

type Digest = readonly [high: number, low: number];

/** Digests of contents by digests of addresses, with open addressing. */
class Table {
  present = 0;
  unseen = 0;
  private capacity = 1 << 6;
  /** Four words a slot: the address's digest, and the content's. */
  private words = new Uint32Array(4 * this.capacity);
  private states = new Uint8Array(this.capacity);
  /** Slots that are not free, including deleted ones, since probing must pass them. */
  private used = 0;

  set(place: Digest, content: Digest, seen: boolean): void {
    if (this.used >= this.capacity * 0.7) this.resize();
    let slot = this.find(place);
    if (slot < 0) {
      slot = ~slot;
      this.words.set(place, 4 * slot);
      this.used++;
    }
    this.words.set(content, 4 * slot + 2);
    this.mark(slot, seen || this.states[slot] === SEEN ? SEEN : UNSEEN);
  }

  delete(place: Digest): void {
    const slot = this.find(place);
    if (slot >= 0) this.mark(slot, DELETED);
  }

  matches(place: Digest, content: string | undefined): boolean {
    const slot = this.find(place);
    const exists = slot >= 0 && this.states[slot] !== DELETED;
    if (!exists) return content === undefined;
    this.mark(slot, SEEN);
    if (content === undefined) return false;
    const digest = digest64(content);
    return this.words[4 * slot + 2] === digest[0] && this.words[4 * slot + 3] === digest[1];
  }

  isUnseen(place: Digest): boolean {
    const slot = this.find(place);
    return slot >= 0 && this.states[slot] === UNSEEN;
  }

  private mark(slot: number, state: number): void {
    const before = this.states[slot]!;
    this.states[slot] = state;
    this.present += Number(isPresent(state)) - Number(isPresent(before));
    this.unseen += Number(state === UNSEEN) - Number(before === UNSEEN);
  }

  /** The slot of an address, or ~slot of its insertion place if it is absent. */
  private find([high, low]: Digest): number {
    const mask = this.capacity - 1;
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      if (this.states[slot] === FREE) return ~slot;
      if (this.words[4 * slot] === high && this.words[4 * slot + 1] === low) return slot;
    }
  }

  private resize(): void {
    const { words, states, capacity } = this;
    if (this.present > capacity * 0.35) this.capacity *= 2;
    this.words = new Uint32Array(4 * this.capacity);
    this.states = new Uint8Array(this.capacity);
    for (let from = 0; from < capacity; from++) {
      if (!isPresent(states[from]!)) continue;
      const slot = ~this.find([words[4 * from]!, words[4 * from + 1]!]);
      this.words.set(words.subarray(4 * from, 4 * from + 4), 4 * slot);
      this.states[slot] = states[from]!;
    }
    this.used = this.present;
  }
}

const FREE = 0;
const UNSEEN = 1;
const SEEN = 2;
const DELETED = 3;

function isPresent(state: number): boolean {
  return state === UNSEEN || state === SEEN;
}

/** The part, of n, that a text belongs to. */
export function partOf(text: string, parts: number): number {
  return digest64(text)[0] % parts;
}
