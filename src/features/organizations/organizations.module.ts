import { Module } from '@nestjs/common';
import { OrganizationsController } from './organizations.controller.js';
import {
  GetOrganizationHandler,
  ListOrganizationsHandler,
  RegisterOrganizationHandler,
  RegisterPlatformHandler,
  SetVettingHandler,
} from './organizations.handlers.js';

@Module({
  controllers: [OrganizationsController],
  providers: [
    RegisterOrganizationHandler,
    RegisterPlatformHandler,
    SetVettingHandler,
    GetOrganizationHandler,
    ListOrganizationsHandler,
  ],
})
export class OrganizationsModule {}
