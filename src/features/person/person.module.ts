import { Module } from '@nestjs/common';
import { SiweModule } from '../accounts/siwe.module.js';
import { PersonController } from './person.controller.js';
import { ExportPersonHandler, GetPersonHandler } from './person.handlers.js';

@Module({
  imports: [SiweModule],
  controllers: [PersonController],
  providers: [GetPersonHandler, ExportPersonHandler],
})
export class PersonModule {}
