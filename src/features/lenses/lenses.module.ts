import { Module } from '@nestjs/common';
import { Lenses } from './lenses.js';

@Module({ providers: [Lenses], exports: [Lenses] })
export class LensesModule {}
