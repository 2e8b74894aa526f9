import { Module } from '@nestjs/common';
import { Chains } from './chains.js';
import { WalletLinks } from './wallet-links.js';

/** The links of wallets, and the chains that contract wallets are on. */
@Module({ providers: [Chains, WalletLinks], exports: [Chains, WalletLinks] })
export class WalletLinksModule {}
