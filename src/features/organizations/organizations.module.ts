import { Module } from '@nestjs/common';
import { OrganizationsController } from './organizations.controller.js';
import {
  GetOrganizationHandler,
  ListOrganizationsHandler,
  RegisterOrganizationHandler,
  RegisterPlatformHandler,
  SetVettingHandler,
} from './organizations.handlers.js';
import { PlatformsModule } from './platforms.module.js';

@Module({
  imports: [PlatformsModule],
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
