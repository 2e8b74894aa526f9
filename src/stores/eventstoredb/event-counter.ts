import { type Position, type RecordedEvent, START } from '../../kernel/event.js';
import { Turns } from '../../kernel/turns.js';

/** Events between two marks. */
const STEP = 1_000;

/** Reads the events of the log after a position, in order. */
type Read = (after: Position) => AsyncIterable<RecordedEvent[]>;
/** The number of events up to and including this position, from the first mark on. */
interface Mark {
  position: Position;
  count: number;
}

/**
 * Counts events, which the server cannot do: reads each event after the least position that was asked for once, and keeps
 * a mark at every thousandth.
 */
export class EventCounter {
  private marks: Mark[] = [];
  /** Up to where the log was read, from the first mark on. */
  private end: Mark = { position: START, count: 0 };
  private readonly turns = new Turns(1, 1);

  constructor(private readonly read: Read) {}

  /** The number of events after a position. Runs one count at a time, so that no event is read twice. */
  countAfter(position: Position): Promise<number> {
    return this.turns.run('', () => this.countInTurn(position));
  }

  private async countInTurn(position: Position): Promise<number> {
    const [first] = this.marks;
    if (!first || position < first.position) await this.beginAt(position);
    this.end = await this.count(this.end, Infinity, this.marks);
    // The log may not reach the first mark yet: then what comes later may be before it.
    if (this.end.count === 0) this.marks = [];
    if (position >= this.end.position) return 0;
    const mark = this.marks.findLast((each) => each.position <= position)!;
    const { count } = await this.count(mark, position, []);
    return this.end.count - count;
  }

  /** Makes a position the first mark. */
  private async beginAt(position: Position): Promise<void> {
    const begin = { position, count: 0 };
    const marks = [begin];
    const [first] = this.marks;
    const { count: more } = first ? await this.count(begin, first.position, marks) : begin;
    const moved = (mark: Mark): Mark => ({ ...mark, count: mark.count + more });
    this.end = first ? moved(this.end) : begin;
    this.marks = [...marks, ...this.marks.map(moved)];
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
}
