import { setTimeout as sleep } from 'node:timers/promises';
import type { Projection, Rows } from '../../projections/projection.js';
import { backoff } from '../kernel/backoff.js';
import type { Position, RecordedEvent } from '../kernel/event.js';
import type { EventStore } from '../stores/ports/event-store.js';
import { type DomainEvent, decodeEvent } from '../../projections/events.js';
import type { Json } from '../kernel/json.js';
import { isDue, yieldIfDue } from '../kernel/turn.js';
import type { RowKey } from '../stores/ports/read-models.js';
import { addressOf } from '../stores/ports/row-key.js';

/** Few enough to keep the pauses of the event loop short, since it may be that of a serving process. */
const SLICE = 1_000;
const ATTEMPTS = 5;
/** The maximum number of rows kept as objects. */
const MAX_TOUCHED = 20_000;

export interface FreshFoldOptions {
  projections: readonly Projection[];
  /** Selects the events to fold in a projection. */
  takes(projection: Projection, event: DomainEvent): boolean;
  /** Selects those of them whose changes are reported; default: all. */
  reports?(projection: Projection, event: DomainEvent): boolean;
  /**
   * Called for a changed row with its new content as JSON, undefined if it was deleted: once for many changes, and at
   * the end of `advance`.
   */
  onChange(row: RowKey, address: string, content: string | undefined): void;
  /** Called for an event that cannot be read. */
  onDamage?(event: RecordedEvent): void;
}

/** Folds the log from its start in memory, up to any position and then further, independently of the stored rows. */
export class FreshFold implements Rows {
  position: Position = 0;
  /** Rows that folds may read again, as JSON: as objects they would take several times the memory. */
  private readonly values = new Map<string, string>();
  /**
   * Rows that were read or changed recently, as objects, so that they are parsed and encoded once for many events.
   * Otherwise a row that grows with every event would cost the square of their number.
   */
  private readonly touched = new Map<string, TouchedRow>();
  /** Whether the changes of the event that is being folded are reported. */
  private isReported = true;

  constructor(
    private readonly store: EventStore,
    private readonly options: FreshFoldOptions,
  ) {}

  /**
   * @param to position of an event
   * @throws NewerSchema for an event that this build cannot read; Error if the log does not reach that position
   */
  async advance(to: Position, onProgress: (position: Position) => void = () => undefined): Promise<void> {
    // The log is read to its end more than once if a checkpoint is newer than the end that was seen.
    for (let attempt = 1; this.position < to && attempt <= ATTEMPTS; attempt++) {
      const sliceSize = Math.min(SLICE, to - this.position);
      for await (const slice of this.store.readAll(this.position, { sliceSize })) {
        for (const recorded of slice) {
          if (recorded.position > to) break;
          if (recorded.damage) this.options.onDamage?.(recorded);
          this.apply(decodeEvent(recorded));
          if (isDue()) await yieldIfDue();
        }
        onProgress(this.position);
        if (this.position >= to) return this.flush();
        if (this.touched.size >= MAX_TOUCHED) await this.flush();
      }
      await sleep(backoff(attempt));
    }
    if (this.position < to) throw new Error(`The log ends at position ${this.position}, before ${to}.`);
  }

  private apply(event: DomainEvent): void {
    const { projections, takes, reports } = this.options;
    for (const projection of projections) {
      if (!takes(projection, event)) continue;
      this.isReported = reports?.(projection, event) ?? true;
      projection.apply(event, this);
    }
    this.position = event.position;
  }

  get<T>(row: RowKey): T | undefined {
    const address = addressOf(row);
    const touched = this.touched.get(address);
    if (touched) return touched.value as T | undefined;
    const content = this.values.get(address);
    const value = content === undefined ? undefined : (JSON.parse(content) as T);
    this.touched.set(address, { row, value, changed: false, isReported: false });
    return value;
  }

  find<T>(row: RowKey): T | undefined {
    return this.get<T>(row);
  }

  put(row: RowKey, value: unknown): void {
    this.touched.set(addressOf(row), { row, value, changed: true, isReported: this.isReported });
  }

  /** No fold reads the row again. */
  insert(row: RowKey, value: unknown): void {
    if (this.isReported) this.options.onChange(row, addressOf(row), JSON.stringify(value as Json));
  }

  delete(row: RowKey): void {
    this.put(row, undefined);
  }

  private async flush(): Promise<void> {
    for (const [address, { row, value, changed, isReported }] of this.touched) {
      if (!changed) continue;
      const content = value === undefined ? undefined : JSON.stringify(value as Json);
      if (content === undefined) this.values.delete(address);
      else this.values.set(address, content);
      if (isReported) this.options.onChange(row, address, content);
      if (isDue()) await yieldIfDue();
    }
    this.touched.clear();
  }
}

interface TouchedRow {
  row: RowKey;
  value: unknown;
  changed: boolean;
  isReported: boolean;
}
