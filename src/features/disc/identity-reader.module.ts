import { Module } from '@nestjs/common';
import { LensesModule } from '../lenses/lenses.module.js';
import { IdentityReader } from './identity-reader.js';

@Module({ imports: [LensesModule], providers: [IdentityReader], exports: [IdentityReader] })
export class IdentityReaderModule {}
