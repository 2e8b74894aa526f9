import { Controller, Delete, Get, Param, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { Lines, Written } from '../../http/answers.js';
import { RequestActor } from '../../http/command-context.js';
import { Keyed, Write } from '../../http/routes.js';
import { JobDto, JobParams, JobsDto, JobsQuery } from './jobs.dto.js';
import { CancelJob, GetJob, GetJobLines, ListJobs } from './jobs.handlers.js';

const WHOSE =
  'A key needs `ops` or the scope that starts such a job. A key of an organization sees only the jobs that its ' +
  'organization started.';

@Controller('/v1/jobs')
export class JobsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Get()
  @Keyed({ scope: 'ops', summary: 'List the newest jobs of all callers', type: JobsDto })
  async list(@Query() { limit }: JobsQuery) {
    return this.queries.execute(new ListJobs({ limit }));
  }

  @Get('/:job_id')
  @Keyed({
    scope: 'any',
    summary: 'Get the progress and the result of a job',
    description: WHOSE,
    type: JobDto,
    problems: ['job_not_found'],
  })
  async get(@Param() { job_id }: JobParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetJob({ job_id, actor }));
  }

  @Get('/:job_id/result')
  @Keyed({
    scope: 'any',
    summary: 'Download the result of a job as lines of JSON (NDJSON)',
    description:
      `${WHOSE} Of a job about all identities, one line for each; else the \`result\` as one line. If it breaks off, the ` +
      'connection is closed before the end of the answer: read it again.',
    lines: true,
    problems: ['job_not_found', 'job_not_completed', 'job_result_expired'],
  })
  async result(@Param() { job_id }: JobParams, @RequestActor() actor: Actor) {
    return new Lines(await this.queries.execute(new GetJobLines({ job_id, actor })));
  }

  @Delete('/:job_id')
  @Write({
    scope: 'any',
    summary: 'Cancel a job; has no effect on a finished one',
    description: WHOSE,
    type: JobDto,
    ignoresIdempotencyKey: true,
    problems: ['job_not_found'],
  })
  async cancel(@Param() { job_id }: JobParams, @RequestActor() actor: Actor) {
    return new Written(await this.commands.execute(new CancelJob({ job_id, actor })), null);
  }
}
