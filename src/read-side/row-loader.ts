import { PlacedRows } from '../stores/ports/encoded-rows.js';
import type { BulkLoad } from '../stores/ports/read-models.js';

/**
 * Writes rows that arrive in the order of their addresses to an empty generation. One batch is written while the next
 * is collected.
 */
export class RowLoader {
  private batch = new PlacedRows();
  private appending: Promise<boolean> | undefined;

  constructor(
    private readonly load: Pick<BulkLoad, 'append'>,
    /** Rows of a batch. */
    private readonly size: number,
  ) {}

  /** See `PlacedRows.add`. */
  add(chunk: Buffer, start: number, middle: number, end: number): void {
    this.batch.add(chunk, start, middle, end);
  }

  /** Whether it is time to `flush`. */
  get isFull(): boolean {
    return this.batch.size >= this.size;
  }

  /** The bytes of the rows that were not flushed. */
  get bytes(): number {
    return this.batch.bytes;
  }

  /** Starts to write what was added. @returns false if the lease is lost or the generation is gone */
  async flush(): Promise<boolean> {
    if (!(await this.written())) return false;
    this.appending = this.load.append(this.batch);
    this.appending.catch(() => undefined); // thrown where it is awaited
    this.batch = new PlacedRows();
    return true;
  }

  /** Waits until what was flushed is written. @returns as `flush` */
  async written(): Promise<boolean> {
    return (await this.appending) ?? true;
  }
}
