import { Module } from '@nestjs/common';
import { JobKinds } from './job-kinds.js';
import { JobsController } from './jobs.controller.js';
import { CancelJobHandler, GetJobHandler, GetJobLinesHandler, ListJobsHandler } from './jobs.handlers.js';

/** Always enabled: jobs of the features that are. */
@Module({
  controllers: [JobsController],
  providers: [JobKinds, GetJobHandler, GetJobLinesHandler, CancelJobHandler, ListJobsHandler],
  exports: [JobKinds],
})
export class JobsModule {}
