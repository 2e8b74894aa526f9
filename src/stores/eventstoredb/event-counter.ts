import type { Position, RecordedEvent } from '../../kernel/event.js';
import { Turns } from '../../kernel/turns.js';

/** Events between two marks. */
const STEP = 1_000;

/** Reads the events of the log after a position, in order. */
type Read = (after: Position) => AsyncIterable<RecordedEvent[]>;
/** The number of events from the first mark up to and including this position. */
interface Mark {
  position: Position;
  count: number;
}

/**
 * Counts events between positions, which the server cannot do: reads each event once and keeps a mark at every
 * thousandth, from the earliest requested position to the head.
 */
export class EventCounter {
  private marks: Mark[] = [];
  private end: Mark | undefined;
  private readonly turns = new Turns(1, 1);

  constructor(private readonly read: Read) {}

  /** The number of events after a position. Runs one count at a time, so that no event is read twice. */
  countAfter(position: Position): Promise<number> {
    return this.turns.run('', () => this.countInTurn(position));
  }

  private async countInTurn(position: Position): Promise<number> {
    if (this.marks.length === 0) this.marks = [{ position, count: 0 }];
    this.end = await this.count(this.end ?? this.marks[0]!, Infinity, this.marks);
    const [first] = this.marks as [Mark];
    if (position < first.position) {
      const earlier = [{ position, count: 0 }];
      const { count } = await this.count(earlier[0]!, first.position, earlier);
      for (const mark of this.marks) mark.count += count;
      this.end = { position: this.end.position, count: this.end.count + count };
      this.marks = [...earlier, ...this.marks];
    }
    const before = await this.count(this.lastMarkUpTo(position), position, []);
    return this.end.count - before.count;
  }

  /** Reads from one mark to a position or the head, adding marks on the way. Returns where it ended. */
  private async count({ position, count }: Mark, end: Position, marks: Mark[]): Promise<Mark> {
    if (position >= end) return { position, count };
    for await (const slice of this.read(position)) {
      for (const event of slice) {
        if (event.position > end) return { position, count };
        ({ position } = event);
        if (++count % STEP === 0) marks.push({ position, count });
      }
      if (position >= end) break;
    }
    return { position, count };
  }

  private lastMarkUpTo(position: Position): Mark {
    if (position >= this.end!.position) return this.end!;
    let [low, high] = [0, this.marks.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.marks[middle]!.position <= position) low = middle;
      else high = middle - 1;
    }
    return this.marks[low]!;
  }
}
