import { Module } from '@nestjs/common';
import { Consumers } from './consumers.js';

@Module({ providers: [Consumers], exports: [Consumers] })
export class ConsumersModule {}
