import type { DomainEvent } from '../src/events.js';
import type { Json } from '../src/json.js';
import type { RowKey } from '../src/read-models/read-models.js';

/** The rows a fold sees: those of its generation, with what the fold has already changed in this batch. */
export interface Rows {
  /** A row named by `reads`. The value may be changed in place, and takes effect with `put`. */
  get<T>(row: RowKey): T | undefined;
  put(row: RowKey, value: unknown): void;
  delete(row: RowKey): void;
}

/**
 * A read model as a pure fold of the log: no I/O, no clock. The view of each of its rows is its name, or
 * `<name>.<family>` where it keeps several kinds of rows.
 */
export interface Projection {
  name: string;
  /** Raised when the fold or the shape of its rows changes: the next boot builds a new generation. */
  version: number;
  /** Rows that `apply` will get for this event. */
  reads(event: DomainEvent): RowKey[];
  apply(event: DomainEvent, rows: Rows): void;
  /** Views of its rows: its name, and `<name>.<family>` of every further kind. */
  views: readonly string[];
  /**
   * How events and rows fall into shares that can be folded apart, which is how verification bounds its memory: the
   * rows of one share depend on the events of that share and on those of none, and an event of a share changes rows of
   * that share only. Without it everything is of no share, and folded at once: right for what stays small.
   */
  share?: {
    /** Undefined: of no share. Such an event changes rows of no share only. */
    ofEvent(event: DomainEvent): string | undefined;
    ofRow(row: RowKey, value: Json): string | undefined;
  };
}

/** A position as a sort key: byte order is numeric order. */
export function sortByPosition(position: number): string {
  return String(position).padStart(16, '0');
}

/** Everything a batch changed, and the rows it started from. */
export class RowOverlay implements Rows {
  private readonly loaded = new Map<string, Json | undefined>();
  private readonly changes = new Map<string, { row: RowKey; value: Json | undefined }>();

  /** Rows among these that were not loaded yet. */
  missing(rows: RowKey[]): RowKey[] {
    return rows.filter((row) => !this.loaded.has(address(row)));
  }

  load(row: RowKey, value: Json | undefined): void {
    this.loaded.set(address(row), value);
  }

  get<T>(row: RowKey): T | undefined {
    const key = address(row);
    if (!this.loaded.has(key)) throw new Error(`a fold read the row ${JSON.stringify(row)} without naming it in reads`);
    return this.loaded.get(key) as T | undefined;
  }

  put(row: RowKey, value: unknown): void {
    const key = address(row);
    this.loaded.set(key, value as Json);
    this.changes.set(key, { row, value: value as Json });
  }

  delete(row: RowKey): void {
    const key = address(row);
    this.loaded.set(key, undefined);
    this.changes.set(key, { row, value: undefined });
  }

  /** What the fold changed, each row once. */
  batch(): { puts: { row: RowKey; value: Json }[]; deletes: RowKey[] } {
    const puts: { row: RowKey; value: Json }[] = [];
    const deletes: RowKey[] = [];
    for (const { row, value } of this.changes.values()) {
      if (value === undefined) deletes.push(row);
      else puts.push({ row, value });
    }
    return { puts, deletes };
  }
}

function address({ view, key, sort }: RowKey): string {
  return sort === undefined ? `${view}\0${key}` : `${view}\0${key}\0${sort}`;
}
