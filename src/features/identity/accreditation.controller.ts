import { Body, Controller, Delete, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { PageQuery } from '../../http/common.dto.js';
import { Keyed, Write } from '../../http/routes.js';
import {
  AccreditedIssuerDto,
  AccreditedIssuerParams,
  AccreditedIssuersDto,
  AccreditIssuerDto,
  WithdrawQuery,
} from './accreditation.dto.js';
import { ListAccreditedIssuers, SetAccreditation } from './accreditation.handlers.js';

/** Issuers whose grants count in every policy. The issuers of trove records are at /v1/trove-issuers. */
@Controller('/v1/issuers')
export class AccreditationController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: 'ops',
    example: { issuer: 'tris:lendco', statuses: ['zk-KYH'] },
    summary: 'Accredit an issuer of verifications: its grants of these statuses count in every policy',
    type: AccreditedIssuerDto,
    problems: ['write_conflict'],
  })
  async accredit(@Body() { issuer, statuses }: AccreditIssuerDto, @Context() request: RequestContext) {
    const context = request.of({ issuer, statuses });
    const command = new SetAccreditation({ issuer, change: { accredit: statuses }, context });
    return Written.of(await this.commands.execute(command));
  }

  @Get()
  @Keyed({ scope: 'any', summary: 'List accredited issuers', type: AccreditedIssuersDto })
  async list(@Query() { limit, cursor }: PageQuery) {
    return this.queries.execute(new ListAccreditedIssuers({ limit, cursor }));
  }

  @Delete('/:issuer')
  @Write({
    scope: 'ops',
    at: { issuer: 'tris:lendco' },
    summary: 'Withdraw an accreditation: the issuer’s grants then count only in policies that name it',
    type: AccreditedIssuerDto,
    problems: ['write_conflict'],
  })
  async withdraw(
    @Param() { issuer }: AccreditedIssuerParams,
    @Query() { statuses }: WithdrawQuery,
    @Context() request: RequestContext,
  ) {
    const context = request.of({ issuer, withdrawn: statuses ?? null });
    const command = new SetAccreditation({ issuer, change: { withdraw: statuses ?? null }, context });
    return Written.of(await this.commands.execute(command));
  }
}
