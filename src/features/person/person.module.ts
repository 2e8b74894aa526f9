import { Module } from '@nestjs/common';
import { AccessPolicyLookUpModule } from '../access/access-policies.module.js';
import { SiweModule } from '../accounts/siwe.module.js';
import { IdentityReaderModule } from '../disc/identity-reader.module.js';
import { PlatformsModule } from '../organizations/platforms.module.js';
import { PersonController } from './person.controller.js';
import { ExportPersonHandler, GetPersonHandler } from './person.handlers.js';

@Module({
  imports: [SiweModule, IdentityReaderModule, AccessPolicyLookUpModule, PlatformsModule],
  controllers: [PersonController],
  providers: [GetPersonHandler, ExportPersonHandler],
})
export class PersonModule {}
