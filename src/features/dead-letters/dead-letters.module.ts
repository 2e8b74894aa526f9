import { Module } from '@nestjs/common';
import { DeadLettersController } from './dead-letters.controller.js';
import { AcknowledgeDeadLetterHandler, ListDeadLettersHandler } from './dead-letters.handlers.js';

/** Always enabled: whichever features are enabled, the log may contain events that cannot be decoded. */
@Module({
  controllers: [DeadLettersController],
  providers: [AcknowledgeDeadLetterHandler, ListDeadLettersHandler],
})
export class DeadLettersModule {}
