import type { DomainEvent } from '../../projections/events.js';
import type { Blocks } from './build-files.js';

/** Decoded events in a temporary file of a build: JSON arrays, each on a line. */

const LINE_END = 0x0a;
const FIRST_BYTES = 16_384;

export function packed({ position, id, type, stream, occurred_at, recorded_at, data }: DomainEvent): string {
  return JSON.stringify([position, id, type, stream, occurred_at, recorded_at, data]);
}

/** Texts of `packed` on their way to a file, as bytes, since so many strings would burden the garbage collector. */
export class EventSpill {
  private bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  private used = 0;

  constructor(
    readonly blocks: Blocks,
    private readonly blockBytes: number,
  ) {}

  add(text: string): void {
    const end = this.used + text.length * 3 + 1;
    if (end > this.bytes.length) {
      const more = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.bytes.length));
      this.bytes.copy(more, 0, 0, this.used);
      this.bytes = more;
    }
    this.used += this.bytes.write(text, this.used);
    this.bytes[this.used++] = LINE_END;
  }

  get isDue(): boolean {
    return this.used >= this.blockBytes;
  }

  /** Writes all texts since the last call. */
  async flush(): Promise<void> {
    if (this.used === 0) return;
    const block = Buffer.allocUnsafeSlow(this.used);
    this.bytes.copy(block, 0, 0, this.used);
    this.used = 0;
    await this.blocks.append(block);
  }
}

export function* eventsOf(block: Buffer): Generator<DomainEvent> {
  for (let start = 0, end: number; start < block.length; start = end + 1) {
    end = block.indexOf(LINE_END, start);
    const fields = JSON.parse(block.toString('utf8', start, end)) as unknown[];
    const [position, id, type, stream, occurred_at, recorded_at, data] = fields;
    yield { position, id, type, stream, occurred_at, recorded_at, data } as DomainEvent;
  }
}
