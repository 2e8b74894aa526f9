import { Module } from '@nestjs/common';
import { PlatformOwners } from '../organizations/platforms.js';
import { RelayController } from './relay.controller.js';
import { RelayActionHandler } from './relay.handlers.js';

@Module({ controllers: [RelayController], providers: [RelayActionHandler, PlatformOwners] })
export class RelayModule {}
