import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { ACKNOWLEDGED_DEAD_LETTERS, type DeadLetterRow, OPEN_DEAD_LETTERS } from '../../../projections/dead-letters.js';
import { QueryWith } from '../../commands/messages.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { formatPosition } from '../../kernel/positions.js';
import { generationProgress } from '../../read-side/generations.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JOBS, type Jobs } from '../../stores/ports/jobs.js';
import { type RangeRow, READ_MODELS, type ReadModels } from '../../stores/ports/read-models.js';
import type { StatusDto } from './operations.dto.js';

/** The maximum number of dead letters and failed jobs listed. */
const LISTED = 20;
const PAGE = 1_000;
/** Failed jobs are counted among this many, for an answer that may be asked for every second. */
const NEWEST_JOBS = 50;

/**
 * The log, the generations of read models with their lag, dead letters and failed jobs; with `complete`, all of the last
 * two are counted, however long that takes.
 */
export class GetStatus extends QueryWith<{ complete: boolean }, StatusDto> {}

@QueryHandler(GetStatus)
export class GetStatusHandler implements IQueryHandler<GetStatus> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
    @Inject(JOBS) private readonly jobs: Jobs,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  async execute({ input: { complete } }: GetStatus): Promise<StatusDto> {
    const { store, readModels } = this;
    const { events, generations } = await generationProgress(store, readModels, this.clock);
    const manifest = await readModels.manifest();
    return {
      log_id: store.logId,
      head: formatPosition(store.logId, await store.head()),
      events,
      generations: generations.map((generation) => {
        const { id, status, serves, views, checkpoint, isOwn, applied, lag, behind, lease } = generation;
        return {
          id,
          status,
          of_this_log: isOwn,
          serves,
          views: { ...views },
          position: formatPosition(checkpoint.log, checkpoint.position),
          applied_events: isOwn ? applied : null,
          lag_events: lag,
          lag_seconds: behind ?? 0,
          lease: lease && { holder: lease.holder, expires_at: new Date(lease.expires_at).toISOString() },
        };
      }),
      previous_views: manifest?.previous_views ?? null,
      dead_letters: await this.deadLetters(manifest?.views['dead_letters'], complete ? Infinity : 1),
      failed_jobs: await this.failedJobs(complete),
    };
  }

  private async failedJobs(complete: boolean): Promise<StatusDto['failed_jobs']> {
    const failed = complete
      ? await this.jobs.list({ status: 'failed', limit: Number.MAX_SAFE_INTEGER })
      : (await this.jobs.list({ limit: NEWEST_JOBS })).filter(({ status }) => status === 'failed');
    const newest = failed.slice(0, LISTED).map(({ kind, id, attempts, error, finished_at }) => {
      return { kind, id, attempts, error, finished_at };
    });
    return { count: failed.length, newest };
  }

  private async deadLetters(id: string | undefined, most: number): Promise<StatusDto['dead_letters']> {
    const found: StatusDto['dead_letters'] = { open: 0, acknowledged: 0, oldest_open: [] };
    if (id === undefined) return found;
    for await (const rows of this.pages(id, OPEN_DEAD_LETTERS, most)) {
      found.open += rows.length;
      const missing = rows.slice(0, LISTED - found.oldest_open.length);
      found.oldest_open.push(
        ...missing.map(({ value }) => {
          const { event_id, event_type, position, tris_id, reason } = value as DeadLetterRow;
          return { event_id, event_type, position: formatPosition(this.store.logId, position), tris_id, reason };
        }),
      );
    }
    for await (const rows of this.pages(id, ACKNOWLEDGED_DEAD_LETTERS, most)) found.acknowledged += rows.length;
    return found;
  }

  private async *pages(id: string, list: { view: string; key: string }, most: number): AsyncGenerator<RangeRow[]> {
    let after: string | undefined;
    for (let page = 0; page < most; page++) {
      const read = await this.readModels.read(id, [{ range: { ...list, after, limit: PAGE } }]);
      const rows = (read?.results[0] ?? []) as RangeRow[];
      yield rows;
      if (rows.length < PAGE) return;
      after = rows.at(-1)!.sort;
    }
  }
}
