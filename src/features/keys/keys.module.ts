import { Module } from '@nestjs/common';
import { KeysController } from './keys.controller.js';
import { CreateKeyHandler, DeleteKeyHandler, ListKeysHandler } from './keys.handlers.js';
import { UsageController } from './usage.controller.js';

/** Always enabled, in a service. */
@Module({
  controllers: [KeysController, UsageController],
  providers: [ListKeysHandler, CreateKeyHandler, DeleteKeyHandler],
})
export class KeysModule {}
