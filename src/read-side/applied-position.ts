import { setTimeout as sleep } from 'node:timers/promises';
import type { Position } from '../kernel/event.js';
import { Problem } from '../kernel/problems.js';
import { inTime } from '../kernel/turn.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { Manifest, ReadModels, ReadResult } from '../stores/ports/read-models.js';

/** Those who wait look again after this part of the time that they have waited, at least and at most so many ms later. */
const PART = 1 / 8;
const LEAST_MS = 3;
const MOST_MS = 100;
const LOG_MS = 1_000;

/** How far the serving generations have applied the log, and the wait until they have reached a position. */
export class AppliedPosition {
  /**
   * By generation that was being built: the position that it must reach before it is read, since reads have waited only
   * for the others up to there.
   */
  private readonly notWaitedFor = new Map<string, Position>();
  private nextPoll: Promise<Position> | undefined;
  readonly logId: string;

  constructor(
    protected readonly store: EventStore,
    protected readonly readModels: ReadModels,
  ) {
    this.logId = store.logId;
  }

  /** The position that a generation must have applied before it is read. */
  protected required(generation: string): Position {
    return this.notWaitedFor.get(generation) ?? 0;
  }

  /** Reads continue while the log gives no answer: a position that the read models have reached was in it. */
  async has(position: Position): Promise<boolean> {
    if (position === 0) return true;
    const found = this.store.readAt(position).then((event) => event !== undefined);
    try {
      return await inTime(found, LOG_MS);
    } catch {
      return (await this.applied()) >= position || found;
    }
  }

  async waitForPosition(position: Position, timeoutMs: number): Promise<boolean> {
    const started = performance.now();
    let applied = await this.applied();
    while (applied < position) {
      const waited = performance.now() - started;
      if (waited >= timeoutMs) return false;
      applied = await this.nextLook(Math.min(MOST_MS, Math.max(LEAST_MS, waited * PART), timeoutMs - waited));
    }
    return true;
  }

  /** The applied position at the next poll. All waiting callers share one poll. */
  private nextLook(ms: number): Promise<Position> {
    this.nextPoll ??= sleep(ms)
      .then(() => this.applied())
      .finally(() => (this.nextPoll = undefined));
    return this.nextPoll;
  }

  /**
   * The least applied position among the serving generations. A generation that is being built does not count if there
   * are others: reads of it are refused until it has caught up.
   */
  async applied(): Promise<Position> {
    if (this.store.refusal) throw this.store.refusal;
    const manifest = await this.readModels.manifest();
    if (manifest) refuseForeign(manifest, this.logId);
    const ids = [...new Set(Object.values(manifest?.views ?? {}))];
    const reads = await Promise.all(ids.map(async (id) => ({ id, read: await this.readModels.read(id, []) })));
    const building = reads.filter(({ read }) => read && (read.status !== 'ready' || !isOwn(read, this.logId)));
    const others = building.length < reads.length ? reads.filter((each) => !building.includes(each)) : reads;
    const least = Math.min(
      ...others.map(({ read }) => (read && isOwn(read, this.logId) ? read.checkpoint.position : 0)),
    );
    if (others === reads) return least;
    for (const { id } of building) this.notWaitedFor.set(id, Math.max(least, this.notWaitedFor.get(id) ?? 0));
    return least;
  }
}

/** Whether it was folded from this log. */
export function isOwn({ checkpoint }: ReadResult, logId: string): boolean {
  return checkpoint.log === logId;
}

/** @throws Problem read_models_foreign */
export function refuseForeign({ log }: Manifest, logId: string): void {
  if (log !== undefined && log !== logId) throw foreign(log);
}

export function foreign(log: string): Problem {
  return new Problem('read_models_foreign', `The read models were folded from another log, ${log}.`, {
    headers: { 'retry-after': '5' },
  });
}
