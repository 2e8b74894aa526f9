import { Module } from '@nestjs/common';
import { Platforms } from './platforms.js';

@Module({ providers: [Platforms], exports: [Platforms] })
export class PlatformsModule {}
