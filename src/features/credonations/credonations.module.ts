import { Module } from '@nestjs/common';
import { CredonationsController } from './credonations.controller.js';
import { ListCredonationsHandler } from './credonations.handlers.js';

@Module({ controllers: [CredonationsController], providers: [ListCredonationsHandler] })
export class CredonationsModule {}
