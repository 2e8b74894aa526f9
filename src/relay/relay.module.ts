import { Module } from '@nestjs/common';
import { Platforms } from '../organizations/platforms.js';
import { RelayController } from './relay.controller.js';
import { RelayActionHandler } from './relay.handlers.js';

@Module({ controllers: [RelayController], providers: [RelayActionHandler, Platforms] })
export class RelayModule {}
