import { Module } from '@nestjs/common';
import { AccreditationController } from './accreditation.controller.js';
import { ListAccreditedIssuersHandler, SetAccreditationHandler } from './accreditation.handlers.js';
import { IdentityController } from './identity.controller.js';
import { StateAboutIdentityHandler } from './identity.handlers.js';
import { IdentitySearch } from './search.js';

@Module({
  controllers: [AccreditationController, IdentityController],
  providers: [IdentitySearch, StateAboutIdentityHandler, SetAccreditationHandler, ListAccreditedIssuersHandler],
})
export class IdentityModule {}
