import { Module } from '@nestjs/common';
import { ConsumersModule } from '../../read-side/consumers.module.js';
import { WalletLinksModule } from './wallet-links.module.js';
import { Challenges } from './challenges.js';
import { RefreshFamilies } from './refresh-families.js';
import { SessionEnds } from './session-ends.js';
import { Signatures } from './signatures.js';

/** Sign-in messages, signatures, sessions and wallet links for other features. No routes. */
@Module({
  imports: [WalletLinksModule, ConsumersModule],
  providers: [Challenges, Signatures, RefreshFamilies, SessionEnds],
  exports: [Challenges, Signatures, RefreshFamilies, WalletLinksModule, SessionEnds],
})
export class SiweModule {}
