import { Module } from '@nestjs/common';
import { Chains } from './chains.js';

@Module({ providers: [Chains], exports: [Chains] })
export class ChainsModule {}
