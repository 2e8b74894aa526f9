import { EncodedRows, isBefore } from '../stores/ports/encoded-rows.js';
import type { SortedRows } from './build-fold.js';

/** Sorted rows as blocks, each row after a header: the lengths of its address (16 bits) and of its content (32 bits). */
const ROW_HEADER = 6;

/** The rows in the order of their addresses, as blocks; undefined where other work can run. */
export function* blocksOf(rows: SortedRows, blockBytes: number): Generator<Buffer | undefined> {
  let block = Buffer.allocUnsafeSlow(blockBytes);
  let used = 0;
  const full: Buffer[] = [];
  const visits = rows.inOrder((chunk, start, middle, end) => {
    const size = ROW_HEADER + end - start + EncodedRows.ROOM;
    if (used + size > block.length) {
      if (used > 0) full.push(block.subarray(0, used));
      block = Buffer.allocUnsafeSlow(Math.max(blockBytes, size));
      used = 0;
    }
    block.writeUInt16LE(middle - start, used);
    block.writeUInt32LE(end - middle, used + 2);
    chunk.copy(block, used + ROW_HEADER, start, end);
    used += size;
  });
  for (const _ of visits) {
    yield undefined;
    while (full.length > 0) yield full.shift();
  }
  if (used > 0) full.push(block.subarray(0, used));
  yield* full;
}

/** The rows of one sorted series of blocks, one after the other: the address is block[start, middle), the content block[middle, end). */
class Run {
  block: Buffer = Buffer.alloc(0);
  start = 0;
  middle = 0;
  end = 0;
  private next = 0;

  constructor(readonly blocks: AsyncGenerator<Buffer>) {}

  /** Moves to the next row. False at the end of the block. */
  advance(): boolean {
    if (this.next >= this.block.length) return false;
    this.start = this.next + ROW_HEADER;
    this.middle = this.start + this.block.readUInt16LE(this.next);
    this.end = this.middle + this.block.readUInt32LE(this.next + 2);
    this.next = this.end + EncodedRows.ROOM;
    return true;
  }

  /** Moves to the first row of the next block. False at the end of the series. */
  async fill(): Promise<boolean> {
    const { value, done } = await this.blocks.next();
    if (done) return false;
    this.block = value;
    this.next = 0;
    return this.advance();
  }

  isBefore(other: Run): boolean {
    return isBefore(this.block, this.start, this.middle, other.block, other.start, other.middle);
  }
}

/** The rows of several sorted series in the order of their addresses. */
export class MergedRuns {
  /** In the order of their present rows. */
  private readonly runs: Run[] = [];

  async add(blocks: AsyncGenerator<Buffer>): Promise<void> {
    const run = new Run(blocks);
    if (await run.fill()) this.place(run, 0);
  }

  /** The series whose present row is the first of all. */
  get first(): Run | undefined {
    return this.runs[0];
  }

  /** Moves to the next row. False if `fill` is needed for that. */
  next(): boolean {
    const [run, second] = this.runs as [Run, Run?];
    if (!run.advance()) return false;
    if (second?.isBefore(run)) this.place(this.runs.shift()!, 1);
    return true;
  }

  async fill(): Promise<void> {
    const run = this.runs.shift()!;
    if (await run.fill()) this.place(run, 0);
  }

  async close(): Promise<void> {
    for (const { blocks } of this.runs) await blocks.return(undefined);
  }

  /** Puts a series where its present row belongs, beyond the first `from` others. */
  private place(run: Run, from: number): void {
    let [low, high] = [from, this.runs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (run.isBefore(this.runs[middle]!)) high = middle;
      else low = middle + 1;
    }
    this.runs.splice(low, 0, run);
  }
}
