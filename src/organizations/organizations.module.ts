import { Module } from '@nestjs/common';
import { OrganizationsController } from './organizations.controller.js';
import {
  GetOrganizationHandler,
  ListOrganizationsHandler,
  Platforms,
  RegisterOrganizationHandler,
  RegisterPlatformHandler,
  SetVettingHandler,
} from './organizations.handlers.js';
import { PlatformOwners } from './platforms.js';

@Module({
  controllers: [OrganizationsController],
  providers: [
    PlatformOwners,
    Platforms,
    RegisterOrganizationHandler,
    RegisterPlatformHandler,
    SetVettingHandler,
    GetOrganizationHandler,
    ListOrganizationsHandler,
  ],
})
export class OrganizationsModule {}
