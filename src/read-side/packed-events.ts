import type { DomainEvent } from '../../projections/events.js';

/** Decoded events on their way between the steps of a build: JSON arrays, each on a line. */

const LINE_END = 0x0a;
const FIRST_BYTES = 16_384;

export function packed({ position, id, type, stream, occurred_at, recorded_at, data }: DomainEvent): string {
  return JSON.stringify([position, id, type, stream, occurred_at, recorded_at, data]);
}

/** Texts of `packed`, as bytes from the start, since so many strings would burden the garbage collector. */
export class PackedEvents {
  private bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  /** In bytes. */
  length = 0;

  add(text: string): void {
    const end = this.length + text.length * 3 + 1;
    if (end > this.bytes.length) {
      const more = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.bytes.length));
      this.bytes.copy(more, 0, 0, this.length);
      this.bytes = more;
    }
    this.length += this.bytes.write(text, this.length);
    this.bytes[this.length++] = LINE_END;
  }

  /** All events since the last call. */
  take(): Buffer {
    const block = Buffer.allocUnsafeSlow(this.length);
    this.bytes.copy(block, 0, 0, this.length);
    this.length = 0;
    return block;
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
