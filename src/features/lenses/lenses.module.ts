import { Module } from '@nestjs/common';
import { PolicyNames } from './policy-names.js';
import { Lenses } from './lenses.js';

@Module({ providers: [Lenses, PolicyNames], exports: [Lenses, PolicyNames] })
export class LensesModule {}
