import { Module } from '@nestjs/common';
import { KeyLog } from './key-log.js';
import { KeysController } from './keys.controller.js';
import { CreateKeyHandler, DeleteKeyHandler } from './keys.handlers.js';
import { UsageController } from './usage.controller.js';

/** Always enabled, in a service. */
@Module({
  controllers: [KeysController, UsageController],
  providers: [KeyLog, CreateKeyHandler, DeleteKeyHandler],
})
export class KeysModule {}
