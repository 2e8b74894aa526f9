import { Module } from '@nestjs/common';
import { Platforms } from './platforms.js';
import { Vetting } from './vetting.js';

@Module({ providers: [Platforms, Vetting], exports: [Platforms, Vetting] })
export class PlatformsModule {}
