import { Module } from '@nestjs/common';
import {
  DropGenerationHandler,
  RebuildViewsHandler,
  ServeGenerationsHandler,
  VerifyReadModelsHandler,
} from './generations.handlers.js';
import { OperationsController } from './operations.controller.js';
import { Operations } from './operations.js';
import { GetStatusHandler } from './status.handlers.js';

/** The handlers, for HTTP and for the command line. */
@Module({
  providers: [
    RebuildViewsHandler,
    ServeGenerationsHandler,
    DropGenerationHandler,
    VerifyReadModelsHandler,
    GetStatusHandler,
  ],
})
export class OperationsModule {}

/** The endpoints under `/v1/ops`. Always enabled. */
@Module({ imports: [OperationsModule], controllers: [OperationsController], providers: [Operations] })
export class OperationsHttpModule {}
