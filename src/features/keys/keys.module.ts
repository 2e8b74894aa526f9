import { Module } from '@nestjs/common';
import { KeysController } from './keys.controller.js';
import { CreateKeyHandler, DeleteKeyHandler, ListKeysHandler } from './keys.handlers.js';

/** Always enabled, in a service. */
@Module({
  controllers: [KeysController],
  providers: [ListKeysHandler, CreateKeyHandler, DeleteKeyHandler],
})
export class KeysModule {}
