const FIRST_BYTES = 16_384;
const MAX_BYTES = 1_048_576;
/** Chunks that `reset` keeps. */
const KEPT = 8;

/**
 * Large buffers that texts are written into one behind the other: a buffer of its own for each would be most of a large
 * write's garbage.
 */
export class TextBuffers {
  readonly #chunks: Buffer[] = [];
  /** The chunk that is being filled. */
  current = -1;
  /** Bytes of it that are taken. */
  used = 0;

  at(place: number): Buffer {
    return this.#chunks[place]!;
  }

  /** The chunk that the next texts, of so many UTF-16 code units together, are written into, from `used` on. */
  withRoomFor(length: number): Buffer {
    const most = length * 3;
    let chunk = this.#chunks[this.current];
    while (!chunk || this.used + most > chunk.length) {
      this.current++;
      this.used = 0;
      const size = Math.min(FIRST_BYTES * 4 ** this.current, MAX_BYTES);
      chunk = this.#chunks[this.current] ??= Buffer.allocUnsafeSlow(Math.max(size, most));
    }
    return chunk;
  }

  /** Writes a text that there is room for. Answers where it ends. */
  write(text: string): number {
    return (this.used += this.#chunks[this.current]!.write(text, this.used));
  }

  /** Begins anew, in the same chunks: what was written is overwritten. */
  reset(): void {
    this.#chunks.length = Math.min(this.#chunks.length, KEPT);
    this.current = -1;
    this.used = 0;
  }
}
