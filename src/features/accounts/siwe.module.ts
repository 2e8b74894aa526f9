import { Module } from '@nestjs/common';
import { ChainsModule } from './chains.module.js';
import { WalletLinks } from './wallet-links.js';
import { Challenges } from './challenges.js';
import { RefreshFamilies } from './families.js';
import { SessionStanding } from './session-standing.js';
import { Signatures } from './signatures.js';

/** What features need to let a wallet sign, and to know what its session stands for. No routes. */
@Module({
  imports: [ChainsModule],
  providers: [Challenges, Signatures, RefreshFamilies, WalletLinks, SessionStanding],
  exports: [Challenges, Signatures, RefreshFamilies, WalletLinks, SessionStanding],
})
export class SiweModule {}
