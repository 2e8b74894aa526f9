import { randomUUID } from 'node:crypto';
import { type Projection, RowOverlay } from '../../projections/projection.js';
import { PLATFORM_LENS_STREAM } from '../features/lenses/domain/lens-stream.js';
import type { NewerSchema } from '../kernel/event-definition.js';
import type { RecordedEvent } from '../kernel/event.js';
import type { Json } from '../kernel/json.js';
import { yieldFoldIfDue } from '../kernel/turn.js';
import { EncodedRows } from '../stores/ports/encoded-rows.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import type { Checkpoint, Generation, ReadModels, RowKey } from '../stores/ports/read-models.js';
import { decodeSlice, foldInBatches, loadRows } from './fold.js';
import { reflectPlatformLens } from './manifest.js';
import { projectionsOf } from './own-views.js';

/** Rows that are read before other work may run, where reading keeps the event loop. */
const ROWS_PER_TURN = 100;
/** The number of small batches in flight. Each is applied on top of the one before it, or refused. */
const BATCHES_IN_FLIGHT = 8;

/** A batch was not applied: the lease is lost, or the generation was dropped. */
export class BatchRefused extends Error {}

/** Folds events on top of the rows of one generation, and writes the changed rows in batches. */
export class Applier {
  /** Everything up to here is applied. */
  checkpoint: Checkpoint;
  /** All of the generation, whatever this process serves: they share the checkpoint. */
  readonly projections: readonly Projection[];
  /** That of the last batch in flight. */
  private last: Checkpoint;
  private readonly inFlight: { next: Checkpoint; events: number; outcome: ReturnType<ReadModels['apply']> }[] = [];
  /** Rows that batches in flight have written are read from here. */
  private before: RowOverlay<EncodedRows> | undefined;

  /** @param holder of the lease of the generation */
  constructor(
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly generation: Pick<Generation, 'id' | 'views' | 'checkpoint'>,
    private readonly holder: string,
    /** Told the number of events of each batch. */
    private readonly onApplied: (events: number) => void,
  ) {
    const { views, checkpoint } = generation;
    this.checkpoint = this.last = checkpoint;
    this.projections = projectionsOf(views);
  }

  /**
   * Applies a run of events (see `runsOf`). Its batches may still be in flight afterwards.
   * @returns why only the events before one of them were applied, if this build cannot read it
   * @throws BatchRefused
   */
  async apply(run: readonly RecordedEvent[]): Promise<NewerSchema | undefined> {
    const { events, endsAppend, stop } = await decodeSlice(run, yieldFoldIfDue);
    if (events.length === 0) return stop;
    if (events.some(({ stream }) => stream === PLATFORM_LENS_STREAM)) {
      await reflectPlatformLens(this.store, this.readModels);
    }
    const overlay = new RowOverlay(() => new EncodedRows());
    await loadRows(this.projections, events, (rows) => this.readInParts(rows), overlay, this.before);
    const { rowsPerBatch } = this.readModels;
    let batches = 0;
    for await (const folded of foldInBatches(this.projections, events, endsAppend, overlay, rowsPerBatch)) {
      await this.settle(rowsPerBatch === undefined ? 0 : BATCHES_IN_FLIGHT - 1);
      const next = { log: this.store.logId, position: folded.last.position, event_id: folded.last.id };
      const batch = { id: randomUUID(), base: this.last, holder: this.holder, next, ...folded.changes };
      const outcome = this.readModels.apply(this.generation.id, batch);
      outcome.catch(() => undefined); // thrown where it is awaited
      this.inFlight.push({ next, events: folded.events, outcome });
      this.last = next;
      batches++;
    }
    // No batch of an earlier run stays in flight: the next run reads what those have written.
    await this.settle(batches);
    this.before = overlay;
    return stop;
  }

  /** Waits until every batch is applied. @throws BatchRefused */
  async finish(): Promise<void> {
    await this.settle(0);
    this.before = undefined;
  }

  /** Waits until at most this many batches are in flight. @throws BatchRefused */
  private async settle(left: number): Promise<void> {
    while (this.inFlight.length > left) {
      const { outcome, next, events } = this.inFlight.shift()!;
      if ((await outcome) === 'refused') throw new BatchRefused();
      this.checkpoint = next;
      this.onApplied(events);
    }
  }

  /** No other process writes, so one snapshot is not needed. */
  private async readInParts(rows: readonly RowKey[]): Promise<(Json | undefined)[]> {
    const { rowsPerBatch } = this.readModels;
    const size = rowsPerBatch ?? ROWS_PER_TURN;
    const parts = Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => rows.slice(i * size, (i + 1) * size));
    if (rowsPerBatch !== undefined) return (await Promise.all(parts.map((part) => this.read(part)))).flat();
    const values: (Json | undefined)[] = [];
    for (const part of parts) {
      values.push(...(await this.read(part)));
      await yieldFoldIfDue();
    }
    return values;
  }

  private async read(rows: readonly RowKey[]): Promise<(Json | undefined)[]> {
    const { id } = this.generation;
    const queries = rows.map((row) => ({ get: row }));
    const read = await this.readModels.read(id, queries);
    if (read?.status === 'damaged') throw new StoreUnavailable(`${id} is damaged`, { code: 'read_models_damaged' });
    // The generation was dropped: the batch folded without these rows will be refused.
    return read ? (read.results as (Json | undefined)[]) : rows.map(() => undefined);
  }
}
