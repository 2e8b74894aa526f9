import { Module } from '@nestjs/common';
import { ClaimLimit } from './claim-limit.js';
import { SessionsController } from './sessions.controller.js';
import {
  EndOwnSessionsHandler,
  RefreshSessionHandler,
  RevokeSessionHandler,
  SignInHandler,
  StartSignInHandler,
} from './sessions.handlers.js';
import { SiweModule } from './siwe.module.js';

@Module({
  imports: [SiweModule],
  controllers: [SessionsController],
  providers: [
    ClaimLimit,
    StartSignInHandler,
    SignInHandler,
    RefreshSessionHandler,
    RevokeSessionHandler,
    EndOwnSessionsHandler,
  ],
})
export class SessionsModule {}
