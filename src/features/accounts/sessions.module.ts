import { Module } from '@nestjs/common';
import { SessionsController } from './sessions.controller.js';
import { EndOwnSessionsHandler, RefreshSessionHandler, SignInHandler } from './sessions.handlers.js';
import { SiweModule } from './siwe.module.js';

@Module({
  imports: [SiweModule],
  controllers: [SessionsController],
  providers: [SignInHandler, RefreshSessionHandler, EndOwnSessionsHandler],
})
export class SessionsModule {}
