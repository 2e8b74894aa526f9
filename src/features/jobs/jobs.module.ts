import { Global, Module } from '@nestjs/common';
import { JobKinds } from './job-kinds.js';
import { JobLines } from './job-lines.js';
import { JobsController } from './jobs.controller.js';
import { CancelJobHandler, GetJobHandler, GetJobLinesHandler, ListJobsHandler } from './jobs.handlers.js';

/** Always enabled: jobs of the features that are. */
@Global()
@Module({
  controllers: [JobsController],
  providers: [JobKinds, JobLines, GetJobHandler, GetJobLinesHandler, CancelJobHandler, ListJobsHandler],
  exports: [JobKinds, JobLines],
})
export class JobsModule {}
