import { Module } from '@nestjs/common';
import { WalletLinks } from './wallet-links.js';

@Module({ providers: [WalletLinks], exports: [WalletLinks] })
export class WalletLinksModule {}
