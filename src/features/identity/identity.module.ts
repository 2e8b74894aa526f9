import { Module } from '@nestjs/common';
import { IdentityController } from './identity.controller.js';
import { StateAboutIdentityHandler } from './identity.handlers.js';

@Module({ controllers: [IdentityController], providers: [StateAboutIdentityHandler] })
export class IdentityModule {}
