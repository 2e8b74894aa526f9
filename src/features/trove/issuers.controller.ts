import { Body, Controller, Get, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { ApiResponse } from '@nestjs/swagger';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { Keyed, Write } from '../../http/routes.js';
import { ChangeIssuer, GetIssuer } from './issuers.js';
import { IssuerDto, IssuerParams, RegisterIssuerDto, toIssuer } from './trove.dto.js';

const LAB = { issuer_id: 'lab' };

@Controller('/v1/trove-issuers')
export class IssuersController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: 'ops',
    status: 201,
    example: {
      issuer_id: 'lab',
      platform_id: 'university.example',
      ed25519: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
    },
    summary: 'Register an issuer: records with its proof are approved from now on',
    description: 'An issuer cannot be changed. Registering the same content again returns 200.',
    type: IssuerDto,
    problems: ['issuer_conflict', 'write_conflict'],
  })
  @ApiResponse({ status: 200, description: 'Already registered with this content', type: IssuerDto })
  async register(@Body() body: RegisterIssuerDto, @Context() request: RequestContext) {
    const content = toIssuer(body);
    const { issuer_id } = content;
    const command = new ChangeIssuer({ issuer_id, change: { register: content }, context: request.of(content) });
    return Written.created(await this.commands.execute(command), ['v1', 'trove-issuers', issuer_id]);
  }

  @Get('/:issuer_id')
  @Keyed({ scope: 'any', at: LAB, summary: 'Get an issuer', type: IssuerDto, problems: ['issuer_not_found'] })
  async get(@Param() { issuer_id }: IssuerParams) {
    return this.queries.execute(new GetIssuer({ issuer_id }));
  }

  @Post('/:issuer_id/retire')
  @Write({
    scope: 'ops',
    at: LAB,
    summary: 'Retire an issuer: its proofs are no longer trusted',
    type: IssuerDto,
    problems: ['issuer_not_found', 'write_conflict'],
  })
  async retire(@Param() { issuer_id }: IssuerParams, @Context() request: RequestContext) {
    const context = request.of({ issuer_id, retired: true });
    return Written.of(await this.commands.execute(new ChangeIssuer({ issuer_id, change: 'retire', context })));
  }
}
