import { Body, Controller, Get, Param, Post, Query } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiResponse } from '@nestjs/swagger';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { PageQuery, TrisIdParams } from '../../http/common.dto.js';
import { Keyed, Write } from '../../http/routes.js';
import {
  OrganizationDto,
  OrganizationsDto,
  PlatformDto,
  RegisterOrganizationDto,
  RegisterPlatformDto,
  VettingDto,
} from './organizations.dto.js';
import {
  GetOrganization,
  ListOrganizations,
  RegisterOrganization,
  RegisterPlatform,
  SetVetting,
} from './organizations.handlers.js';

const LENDCO = { tris_id: 'tris:lendco' };

@Controller('/v1')
export class OrganizationsController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post('/organizations')
  @Write({
    scope: 'ops',
    status: 201,
    example: { tris_org: 'tris:lendco', platform_ids: ['lendco-app'] },
    summary: 'Register an organization and the platforms it owns',
    description: 'For a registered organization it adds platforms, or returns 200 if there is nothing to add.',
    type: OrganizationDto,
    problems: ['platform_already_registered', 'write_conflict'],
  })
  @ApiResponse({ status: 200, description: 'Already registered with these platforms', type: OrganizationDto })
  async register(@Body() body: RegisterOrganizationDto, @Context() request: RequestContext) {
    const command = new RegisterOrganization({ ...body, context: request.of(body) });
    return Written.created(await this.commands.execute(command), ['v1', 'organizations', body.tris_org]);
  }

  @Get('/organizations')
  @Keyed({ scope: 'ops', summary: 'List registered organizations', type: OrganizationsDto })
  async list(@Query() { limit, cursor }: PageQuery) {
    return this.queries.execute(new ListOrganizations({ limit, cursor }));
  }

  @Get('/organizations/:tris_id')
  @Keyed({
    scope: 'ops',
    at: LENDCO,
    summary: 'Get an organization',
    type: OrganizationDto,
    problems: ['organization_not_found'],
  })
  async get(@Param() { tris_id }: TrisIdParams) {
    return this.queries.execute(new GetOrganization({ trisOrg: tris_id }));
  }

  @Post('/organizations/:tris_id/vet')
  @Write({
    scope: 'ops',
    at: LENDCO,
    summary: 'Vet an organization: it has a public rank from now on',
    type: VettingDto,
    problems: ['organization_not_found', 'write_conflict'],
  })
  async vet(@Param() { tris_id }: TrisIdParams, @Context() request: RequestContext) {
    return this.setVetting(tris_id, true, request);
  }

  @Post('/organizations/:tris_id/revoke')
  @Write({
    scope: 'ops',
    at: LENDCO,
    summary: 'Revoke an organization’s vetting',
    type: VettingDto,
    problems: ['organization_not_found', 'write_conflict'],
  })
  async revoke(@Param() { tris_id }: TrisIdParams, @Context() request: RequestContext) {
    return this.setVetting(tris_id, false, request);
  }

  @Post('/platforms')
  @Write({
    scope: 'ops',
    status: 201,
    example: { platform_id: 'lendco-web', tris_org: 'tris:lendco' },
    summary: 'Register a platform to an organization',
    type: PlatformDto,
    problems: ['organization_not_found', 'platform_already_registered'],
  })
  @ApiResponse({ status: 200, description: 'Already registered to this organization', type: PlatformDto })
  async registerPlatform(@Body() body: RegisterPlatformDto, @Context() request: RequestContext) {
    const command = new RegisterPlatform({ ...body, context: request.of(body) });
    return Written.created(await this.commands.execute(command), ['v1', 'organizations', body.tris_org]);
  }

  private async setVetting(tris_org: string, vetted: boolean, request: RequestContext) {
    const context = request.of({ tris_org, vetted });
    return Written.of(await this.commands.execute(new SetVetting({ tris_org, vetted, context })));
  }
}
