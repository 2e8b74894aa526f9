import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Projection } from '../../projections/projection.js';
import type { Clock } from '../clock.js';
import { NewerSchema } from '../event-store/codec.js';
import type { EventStore, Position, RecordedEvent } from '../event-store/event-store.js';
import { type DomainEvent, decodeEvent } from '../events.js';
import type { Json } from '../json.js';
import type { Checkpoint, Generation, ReadModels } from '../read-models/read-models.js';
import type { Log } from '../ops/log.js';
import { PROJECTIONS } from './all-projections.js';
import { fold } from './fold.js';
import { ensureManifest } from './manifest.js';

const LEASE_MS = 5_000;
const STANDBY_MS = 200;
const BACKOFF_MS = 1_000;
/** Events per batch: large enough to share a commit, small enough to keep the event loop's pauses short. */
const SLICE = 1_000;

/** How far one generation is. */
export interface GenerationProgress extends Generation {
  /** Views the manifest serves from it. */
  serves: string[];
  lag: { events: number; seconds: number };
}

/**
 * Keeps the read models up with the log: one ordered pull loop per generation in service. The position it has applied is
 * stored in the same atomic step as the rows, so a crash at any point neither loses nor repeats an event. Any number of
 * processes may run one; the holder of a generation's lease applies, the others stand by.
 */
export class Projector {
  private readonly holder = randomUUID();
  private readonly stopping = new AbortController();
  private loops: Promise<void>[] = [];
  /** Set when a loop met an event it must not skip: serving goes on, with lag. */
  halted: string | null = null;

  constructor(
    /** What this process serves; their generations are kept up. */
    private readonly projections: readonly Projection[],
    private readonly store: EventStore,
    private readonly readModels: ReadModels,
    private readonly log: Log,
  ) {}

  /** Names every projection's generation in the manifest, then starts to apply in the background. */
  async start(): Promise<void> {
    const manifest = await ensureManifest(this.projections, this.store, this.readModels);
    const generations = new Set(this.projections.map(({ name }) => manifest.views[name]!));
    this.loops = [...generations].map((id) => this.run(id, this.stopping.signal));
  }

  /** Finishes the batch at hand and gives the leases up. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await Promise.all(this.loops);
  }

  private async run(id: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.halted === null) {
      try {
        if (await this.readModels.acquireLease(id, this.holder, LEASE_MS)) await this.follow(id, signal);
        else await pause(STANDBY_MS, signal);
      } catch (error) {
        if (error instanceof NewerSchema) {
          this.halted = error.message;
          this.log.error(`projector halted: ${error.message}`);
        } else {
          this.log.error(`projector of ${id} retries in ${BACKOFF_MS} ms: ${(error as Error).stack}`);
          await pause(BACKOFF_MS, signal);
        }
      }
    }
    await this.readModels.releaseLease(id, this.holder).catch(() => undefined);
  }

  /** Applies the log from the stored checkpoint on while the lease is ours. */
  private async follow(id: string, signal: AbortSignal): Promise<void> {
    const generation = (await this.readModels.generations()).find((candidate) => candidate.id === id);
    if (!generation || generation.status === 'dropped') throw new Error(`generation ${id} is gone`);
    // All that the generation holds, not only what this process serves: they share the checkpoint.
    const projections = PROJECTIONS.filter(({ name, version }) => generation.views[name] === version);
    let { checkpoint } = generation;
    let building = generation.status === 'building';
    const lost = new AbortController();
    const renewal = setInterval(() => {
      this.readModels.acquireLease(id, this.holder, LEASE_MS).then(
        (held) => !held && lost.abort(),
        () => lost.abort(),
      );
    }, LEASE_MS / 3);
    try {
      if (building) building = !(await this.readyAtHead(id, checkpoint.position));
      const until = AbortSignal.any([signal, lost.signal]);
      for await (const slice of this.store.subscribe(checkpoint.position, { sliceSize: SLICE, signal: until })) {
        const next = await this.applySlice(id, projections, checkpoint, slice);
        if (!next) {
          this.log.warn(`projector of ${id} lost its lease at position ${checkpoint.position}`);
          return;
        }
        checkpoint = next;
        if (building) building = !(await this.readyAtHead(id, checkpoint.position));
      }
    } finally {
      clearInterval(renewal);
    }
  }

  /** Answers the new checkpoint, or undefined if another projector has taken over. @throws NewerSchema */
  private async applySlice(
    id: string,
    projections: readonly Projection[],
    base: Checkpoint,
    slice: readonly RecordedEvent[],
  ): Promise<Checkpoint | undefined> {
    const { events, stop } = decodeSlice(slice);
    const last = events.at(-1);
    if (!last) throw stop!;
    const overlay = await fold(projections, events, async (rows) => {
      const read = await this.readModels.read(
        id,
        rows.map((row) => ({ get: row })),
      );
      if (!read) throw new Error(`generation ${id} is gone`);
      return read.results as (Json | undefined)[];
    });
    const next = { log: this.store.logId, position: last.position, event_id: last.id };
    const changes = [...overlay.changes.values()];
    const outcome = await this.readModels.apply(id, {
      id: randomUUID(),
      base,
      holder: this.holder,
      next,
      puts: changes.filter(({ value }) => value !== undefined).map(({ row, value }) => ({ row, value: value! })),
      deletes: changes.filter(({ value }) => value === undefined).map(({ row }) => row),
    });
    if (outcome === 'refused') return undefined;
    if (stop) throw stop;
    return next;
  }

  private async readyAtHead(id: string, position: Position): Promise<boolean> {
    if (position < (await this.store.head())) return false;
    await this.readModels.setStatus(id, 'ready');
    return true;
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

/** Every generation with what it serves and its lag behind the log. */
export async function generationProgress(
  store: EventStore,
  readModels: ReadModels,
  clock: Clock,
): Promise<GenerationProgress[]> {
  const manifest = await readModels.manifest();
  const generations = await readModels.generations();
  return Promise.all(
    generations.map(async (generation) => ({
      ...generation,
      serves: Object.keys(generation.views).filter((view) => manifest?.views[view] === generation.id),
      lag: await lagOf(store, generation.checkpoint.position, clock),
    })),
  );
}

/** Events not applied yet, and the age of the oldest of them. */
async function lagOf(
  store: EventStore,
  position: Position,
  clock: Clock,
): Promise<{ events: number; seconds: number }> {
  for await (const [oldest] of store.readAll(position, { sliceSize: 1 })) {
    const seconds = Math.max(0, (clock() - Date.parse(oldest!.metadata.recorded_at)) / 1000);
    return { events: await store.countAfter(position), seconds };
  }
  return { events: 0, seconds: 0 };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
