import { randomUUID } from 'node:crypto';
import type { Projection, RowOverlay } from '../../projections/projection.js';
import { NewerSchema } from '../event-store/codec.js';
import type { EventStore, RecordedEvent } from '../event-store/event-store.js';
import { type DomainEvent, decodeEvent } from '../events.js';
import type { Json } from '../json.js';
import { PLATFORM_LENS_STREAM } from '../policies/vp/promotion.js';
import type { Checkpoint, Generation, ReadModels } from '../read-models/read-models.js';
import { PROJECTIONS } from './all-projections.js';
import { fold } from './fold.js';
import { reflectPlatformLens } from './manifest.js';

/** Renewed at a third of it; so long the read models stand still after the process that kept them up was killed. */
const LEASE_MS = 2_000;
/** Events per batch while following: enough to share a commit, few enough to keep the event loop's pauses short. */
const LIVE_SLICE = 1_000;
/** Events per batch while catching up in a process of its own: rows that change often are written once per batch. */
const BULK_SLICE = 20_000;

/** Why following ended. */
export type Ended = 'at_head' | 'aborted' | 'lease_taken' | 'gone';

export interface FollowOptions {
  signal: AbortSignal;
  /** End at the head instead of waiting there for further events, and apply in large batches. */
  toHead?: boolean;
  onApplied?: (checkpoint: Checkpoint, events: number) => void;
}

/** A batch whose rows are being written. */
interface Applying {
  overlay: RowOverlay;
  next: Checkpoint;
  events: number;
  outcome: ReturnType<ReadModels['apply']>;
}

/**
 * Applies the log to one generation, in order, from its stored checkpoint on. The checkpoint is stored in the same
 * atomic step as the rows, so a crash at any point neither loses nor repeats an event; only the holder of the
 * generation's lease can apply, and a lease is given up only between batches.
 */
export class Follower {
  private readonly holder = randomUUID();

  constructor(
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
  ) {}

  /** @throws NewerSchema once everything before the event that this build cannot read is applied */
  async follow(id: string, options: FollowOptions): Promise<Ended> {
    if (!(await this.readModels.acquireLease(id, this.holder, LEASE_MS))) {
      return (await this.generation(id)) ? 'lease_taken' : 'gone';
    }
    const lost = new AbortController();
    const renew = () => this.readModels.acquireLease(id, this.holder, LEASE_MS);
    const renewal = setInterval(
      () =>
        renew().then(
          (held) => !held && lost.abort(),
          () => lost.abort(),
        ),
      LEASE_MS / 3,
    );
    try {
      const generation = await this.generation(id);
      if (!generation) return 'gone';
      const ended = await this.apply(generation, options, AbortSignal.any([options.signal, lost.signal]));
      return lost.signal.aborted && ended === 'aborted' ? 'lease_taken' : ended;
    } finally {
      clearInterval(renewal);
      await this.readModels.releaseLease(id, this.holder);
    }
  }

  private async apply(generation: Generation, options: FollowOptions, signal: AbortSignal): Promise<Ended> {
    const { id } = generation;
    // All that the generation holds, whatever this process serves of it: its views share the checkpoint.
    const projections = PROJECTIONS.filter(({ name }) => name in generation.views);
    const under = { checkpoint: generation.checkpoint, applying: undefined as Applying | undefined };
    let building = generation.status === 'building';
    const readyAtHead = async () => {
      if (!building || under.checkpoint.position < (await this.store.head())) return;
      await this.readModels.setStatus(id, 'ready');
      building = false;
    };
    /** Waits for the batch under way. False: it was refused, another projector has taken over. */
    const settled = async (): Promise<boolean> => {
      if (!under.applying) return true;
      const { outcome, next, events } = under.applying;
      under.applying = undefined;
      if ((await outcome) === 'refused') return false;
      under.checkpoint = next;
      options.onApplied?.(next, events);
      await readyAtHead();
      return true;
    };
    const taken = async (): Promise<Ended> => ((await this.generation(id)) ? 'lease_taken' : 'gone');

    await readyAtHead();
    const { position } = under.checkpoint;
    const slices = options.toHead
      ? this.store.readAll(position, { sliceSize: BULK_SLICE, signal })
      : this.store.subscribe(position, { sliceSize: LIVE_SLICE, signal });
    for await (const slice of slices) {
      const { events, stop } = decodeSlice(slice);
      if (events.length > 0) {
        if (events.some(({ stream }) => stream === PLATFORM_LENS_STREAM)) {
          await reflectPlatformLens(this.store, this.readModels);
        }
        // Folded while the batch before is still being written: what that one knows is read from it.
        const overlay = await this.fold(id, projections, events, under.applying?.overlay);
        if (!(await settled())) return taken();
        under.applying = this.startToApply(id, under.checkpoint, events, overlay);
      }
      if (stop || signal.aborted || !options.toHead) {
        if (!(await settled())) return taken();
      }
      if (stop) throw stop;
      if (signal.aborted) return 'aborted';
    }
    if (!(await settled())) return taken();
    return signal.aborted ? 'aborted' : 'at_head';
  }

  private fold(
    id: string,
    projections: readonly Projection[],
    events: readonly DomainEvent[],
    before: RowOverlay | undefined,
  ): Promise<RowOverlay> {
    return fold(projections, events, async (rows) => {
      const stored = before ? rows.filter((row) => !before.knows(row)) : rows;
      const read = await this.readModels.read(
        id,
        stored.map((row) => ({ get: row })),
      );
      const values = (read?.results ?? []) as (Json | undefined)[];
      if (!before) return values;
      let i = 0;
      return rows.map((row) => (before.knows(row) ? before.get(row) : values[i++]));
    });
  }

  private startToApply(id: string, base: Checkpoint, events: readonly DomainEvent[], overlay: RowOverlay): Applying {
    const last = events.at(-1)!;
    const next = { log: this.store.logId, position: last.position, event_id: last.id };
    const batch = { id: randomUUID(), base, holder: this.holder, next, ...overlay.changes() };
    const outcome = this.readModels.apply(id, batch);
    outcome.catch(() => undefined); // thrown where it is awaited
    return { overlay, next, events: events.length, outcome };
  }

  private async generation(id: string): Promise<Generation | undefined> {
    const generation = (await this.readModels.generations()).find((candidate) => candidate.id === id);
    return generation?.status === 'dropped' ? undefined : generation;
  }
}

/** Decodes up to the first event of a newer schema, and then only whole appends before it. */
function decodeSlice(slice: readonly RecordedEvent[]): { events: DomainEvent[]; stop?: NewerSchema } {
  const events: DomainEvent[] = [];
  for (const event of slice) {
    try {
      events.push(decodeEvent(event));
    } catch (error) {
      if (!(error instanceof NewerSchema)) throw error;
      return { events: events.slice(0, events.length - event.metadata.index), stop: error };
    }
  }
  return { events };
}
