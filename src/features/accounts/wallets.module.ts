import { Module } from '@nestjs/common';
import { SiweModule } from './siwe.module.js';
import { WalletsController } from './wallets.controller.js';
import {
  EndSessionsHandler,
  LinkAccountHandler,
  LinkWalletHandler,
  ListWalletsHandler,
  UnlinkWalletHandler,
} from './wallets.handlers.js';

@Module({
  imports: [SiweModule],
  controllers: [WalletsController],
  providers: [EndSessionsHandler, LinkWalletHandler, LinkAccountHandler, UnlinkWalletHandler, ListWalletsHandler],
})
export class WalletsModule {}
