import { Module } from '@nestjs/common';
import { ActionRecorder } from './relay.handlers.js';

@Module({ providers: [ActionRecorder], exports: [ActionRecorder] })
export class ActionRecorderModule {}
