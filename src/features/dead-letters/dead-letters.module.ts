import { Module } from '@nestjs/common';
import { DeadLettersController } from './dead-letters.controller.js';
import { AcknowledgeDeadLetterHandler, ListDeadLettersHandler } from './dead-letters.handlers.js';

/** Always there: whatever is served, the log may hold what cannot be read. */
@Module({
  controllers: [DeadLettersController],
  providers: [AcknowledgeDeadLetterHandler, ListDeadLettersHandler],
})
export class DeadLettersModule {}
