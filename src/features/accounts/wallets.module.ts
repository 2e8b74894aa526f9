import { Module } from '@nestjs/common';
import { SiweModule } from './siwe.module.js';
import { WalletsController } from './wallets.controller.js';
import { LinkAccountHandler, LinkWalletHandler, ListWalletsHandler, UnlinkWalletHandler } from './wallets.handlers.js';

@Module({
  imports: [SiweModule],
  controllers: [WalletsController],
  providers: [LinkWalletHandler, LinkAccountHandler, UnlinkWalletHandler, ListWalletsHandler],
})
export class WalletsModule {}
