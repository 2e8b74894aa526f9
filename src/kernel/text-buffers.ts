const FIRST_BYTES = 16_384;
const MAX_BYTES = 1_048_576;
/** Buffers that `reset` keeps. */
const KEPT = 8;

/**
 * Large reusable buffers for texts and entries that are written together. One small buffer for each would make most of
 * the garbage of a large write.
 */
export class TextBuffers {
  private readonly chunks: Buffer[] = [];
  /** Index of the buffer being filled. */
  private current = -1;
  /** Bytes used in that buffer. */
  used = 0;

  /** The buffer for the next `most` bytes, from `used` on. */
  withRoomForBytes(most: number): Buffer {
    let chunk = this.chunks[this.current];
    while (!chunk || this.used + most > chunk.length) {
      this.current++;
      this.used = 0;
      const size = Math.min(FIRST_BYTES * 4 ** this.current, MAX_BYTES);
      chunk = this.chunks[this.current] ??= Buffer.allocUnsafeSlow(Math.max(size, most));
    }
    return chunk;
  }

  /** Writes a text that fits. Returns where it ends. */
  write(text: string): number {
    return (this.used += this.chunks[this.current]!.write(text, this.used));
  }

  /** Starts again with the same buffers and overwrites their content. */
  reset(): void {
    this.chunks.length = Math.min(this.chunks.length, KEPT);
    this.current = -1;
    this.used = 0;
  }
}
