import { Module } from '@nestjs/common';
import { Platforms } from '../organizations/platforms.js';
import { RelayController } from './relay.controller.js';
import { ActionRecorder, RelayActionHandler } from './relay.handlers.js';

@Module({ controllers: [RelayController], providers: [RelayActionHandler, ActionRecorder, Platforms] })
export class RelayModule {}
