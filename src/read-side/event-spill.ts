import type { DomainEvent } from '../../projections/events.js';
import type { Blocks } from './build-files.js';

/** Decoded events in a temporary file of a build. Each block is a JSON array of them. */

export function packed({ position, id, type, stream, occurred_at, recorded_at, data }: DomainEvent): string {
  return JSON.stringify([position, id, type, stream, occurred_at, recorded_at, data]);
}

/** Texts of `packed` on their way to a file. */
export class EventSpill {
  private texts: string[] = [];
  private length = 0;

  constructor(
    readonly blocks: Blocks,
    private readonly blockBytes: number,
  ) {}

  add(text: string): void {
    this.texts.push(text);
    this.length += text.length;
  }

  get isDue(): boolean {
    return this.length >= this.blockBytes;
  }

  /** Writes all texts since the last call. */
  async flush(): Promise<void> {
    if (this.length === 0) return;
    const block = Buffer.from(`[${this.texts.join()}]`);
    this.texts = [];
    this.length = 0;
    await this.blocks.append(block);
  }
}

export function* eventsOf(block: Buffer): Generator<DomainEvent> {
  for (const fields of JSON.parse(block.toString()) as unknown[][]) {
    const [position, id, type, stream, occurred_at, recorded_at, data] = fields;
    yield { position, id, type, stream, occurred_at, recorded_at, data } as DomainEvent;
  }
}
