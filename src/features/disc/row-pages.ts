import type { IdentityEvent } from '../../../projections/identity-events.js';
import { timelineOf, unpack } from '../../../projections/timeline.js';
import type { Position } from '../../kernel/event.js';
import { positionOf, sortByPosition } from '../../kernel/positions.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import type { Views } from '../../read-side/views.js';
import type { RangeRow, RowQuery } from '../../stores/ports/read-models.js';

/** Rows of one range in one read: about a millisecond's work. */
export const PAGE = 256;
/** For so many ms a read counts as short. */
const FIRST_MS = 2;

/** A part of a list. */
interface Part {
  /** It begins after this sort key. */
  after?: string;
  /** Whether a row is in it. After one that is not, all others are not in it either. */
  isIn?: (row: RangeRow) => boolean;
  /** Rows in one read. */
  page?: number;
}

/** Reads rows of one identity, at or after a position, in pages of bounded size. Other work can run between two pages. */
export class RowPages {
  private readonly began = performance.now();

  constructor(
    private readonly views: Pick<Views, 'readSince'>,
    readonly position: Position,
  ) {}

  /** Whether to yield. A read that has just begun yields later than others, so that a short one waits for no long one. */
  isDue(): boolean {
    return isDue(performance.now() - this.began < FIRST_MS);
  }

  /** Yields before, not after: requests that arrive together begin in one turn of the event loop. */
  async read(queries: readonly RowQuery[]): Promise<unknown[]> {
    return (await this.readAt(queries)).results;
  }

  /** Reads rows, and returns the position that they reflect as well. */
  async readAt(queries: readonly RowQuery[]): Promise<{ results: unknown[]; position: Position }> {
    if (this.isDue()) await yieldIfDue();
    return this.views.readSince(this.position, queries);
  }

  /** The rows of a list. */
  async *of(list: { view: string; key: string }, { after, page = PAGE, isIn = () => true }: Part = {}) {
    for (;;) {
      const rows = (await this.read([{ range: { ...list, after, limit: page } }]))[0] as RangeRow[];
      const part = rows.filter(isIn);
      yield part;
      if (part.length < page) return;
      after = rows.at(-1)!.sort;
    }
  }

  /** An identity's events after a position and up to another, in log order. */
  async *events(trisId: string, last: Position, after: Position = 0): AsyncIterable<IdentityEvent[]> {
    const isIn = ({ sort }: RangeRow) => positionOf(sort) <= last;
    for await (const rows of this.of(timelineOf(trisId), { after: sortByPosition(after), isIn })) {
      yield rows.map(({ sort, value }) => unpack(trisId, positionOf(sort), value));
    }
  }
}
