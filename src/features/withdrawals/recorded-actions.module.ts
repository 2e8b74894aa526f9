import { Module } from '@nestjs/common';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { RecordedActions } from './recorded-actions.js';

/** Recorded actions for other features. No routes. */
@Module({ imports: [PlatformsModule], providers: [RecordedActions], exports: [RecordedActions] })
export class RecordedActionsModule {}
