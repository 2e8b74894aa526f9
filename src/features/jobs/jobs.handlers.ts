import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import type { Json } from '../../kernel/json.js';
import { Problem, problemMembers } from '../../kernel/problems.js';
import { JOBS, type Job, type Jobs } from '../../stores/ports/jobs.js';
import { JobKinds } from './job-kinds.js';
import type { JobDto, JobSummaryDto, JobsDto } from './jobs.dto.js';

/** A list first reads this many times its limit, and then more: the newest jobs may be of kinds that it leaves out. */
const READ_FOR_LIST = 5;

/** The status, progress and result of a job of any kind. */
export class GetJob extends QueryWith<{ job_id: string; actor: Actor }, JobDto> {}

@QueryHandler(GetJob)
export class GetJobHandler implements IQueryHandler<GetJob> {
  constructor(private readonly kinds: JobKinds) {}

  /** @throws Problem job_not_found, also for a job that the actor may not read */
  async execute({ input: { job_id, actor } }: GetJob): Promise<JobDto> {
    return jobOf((await this.kinds.find(job_id, actor)).job);
  }
}

/** The result of a completed job as lines of JSON. */
export class GetJobLines extends QueryWith<{ job_id: string; actor: Actor }, AsyncIterable<string>> {}

@QueryHandler(GetJobLines)
export class GetJobLinesHandler implements IQueryHandler<GetJobLines> {
  constructor(private readonly kinds: JobKinds) {}

  /** @throws Problem job_not_found, also for a job that the actor may not read; job_not_completed, job_result_expired */
  async execute({ input: { job_id, actor } }: GetJobLines): Promise<AsyncIterable<string>> {
    const { kind, job } = await this.kinds.find(job_id, actor);
    if (job.status !== 'completed') throw new Problem('job_not_completed', `The job ${job_id} is ${job.status}.`);
    return kind.lines?.(job) ?? oneLine(job.result);
  }
}

async function* oneLine(result: Json): AsyncIterable<string> {
  yield `${JSON.stringify(result)}\n`;
}

/** Cancels a queued or running job; does nothing to a finished one. */
export class CancelJob extends CommandWith<{ job_id: string; actor: Actor }, JobDto> {}

@CommandHandler(CancelJob)
export class CancelJobHandler implements ICommandHandler<CancelJob> {
  constructor(private readonly kinds: JobKinds) {}

  /** @throws Problem job_not_found, also for a job that the actor may not read; forbidden */
  async execute({ input: { job_id, actor } }: CancelJob): Promise<JobDto> {
    return jobOf(await this.kinds.cancel(job_id, actor));
  }
}

/** The newest jobs of all callers. */
export class ListJobs extends QueryWith<{ limit: number }, JobsDto> {}

@QueryHandler(ListJobs)
export class ListJobsHandler implements IQueryHandler<ListJobs> {
  constructor(
    private readonly kinds: JobKinds,
    @Inject(JOBS) private readonly jobs: Jobs,
  ) {}

  async execute({ input: { limit } }: ListJobs): Promise<JobsDto> {
    const kinds = new Set(this.kinds.all.map(({ kind }) => kind));
    for (let read = limit * READ_FOR_LIST; ; read *= READ_FOR_LIST) {
      const newest = await this.jobs.list({ limit: read });
      const shown = newest.filter(({ kind }) => kinds.has(kind));
      if (shown.length >= limit || newest.length < read) return { jobs: shown.slice(0, limit).map(summaryOf) };
    }
  }
}

function summaryOf({ id, kind, status, progress, error, enqueued_at, finished_at }: Job): JobSummaryDto {
  const failed = status === 'failed' ? new Problem('job_failed', error ?? 'The job failed.') : null;
  return {
    job_id: id,
    kind,
    status,
    progress,
    problem: failed && problemMembers(failed),
    started_at: enqueued_at,
    finished_at,
  };
}

function jobOf(job: Job): JobDto {
  if (typeof job.result !== 'object' || job.result === null) return { ...summaryOf(job), result: job.result as null };
  // Where its lines are stored is for `JobKind.lines`, not for clients.
  const { stored: _stored, stored_decisions: _decisions, ...result } = job.result as Record<string, Json>;
  return { ...summaryOf(job), result };
}
