import { Body, Controller, Get, Param, Post } from '@nestjs/common';
import { CommandBus, QueryBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestActor, RequestContext } from '../../http/command-context.js';
import { JobStartedDto } from '../../http/common.dto.js';
import type { Actor } from '../../commands/context.js';
import { Keyed, Write } from '../../http/routes.js';
import { IngestionDto, IngestionParams, IngestWalletDto } from './ingestion.dto.js';
import { GetIngestion, IngestWallet } from './ingestion.js';

@Controller('/v1/wallets/ingest')
export class IngestionController {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
  ) {}

  @Post()
  @Write({
    scope: 'identity:write',
    session: true,
    status: 202,
    summary: 'Read a linked wallet’s history on a chain, in the background',
    description:
      'Its events in listed contracts become actions of its TRIS, each counted once. The wallet must have signed its ' +
      'link. Takes a session of the TRIS or a key.',
    type: JobStartedDto,
    problems: ['chain_not_configured', 'wallet_not_linked', 'ingestion_open'],
  })
  async ingest(@Body() { wallet, chain_id, from_block }: IngestWalletDto, @Context() request: RequestContext) {
    const asked = { wallet, chain_id, from_block: from_block ?? null };
    const started = await this.commands.execute(new IngestWallet({ asked, context: request.of(asked) }));
    return new Written<JobStartedDto>(started, null);
  }

  @Get('/:job_id')
  @Keyed({
    scope: 'identity:write',
    session: true,
    summary: 'Get the progress and the result of reading a wallet’s history',
    description: 'A session sees those of its own TRIS, a key of an organization those that its organization started.',
    type: IngestionDto,
    problems: ['ingestion_not_found'],
  })
  async get(@Param() { job_id }: IngestionParams, @RequestActor() actor: Actor) {
    return this.queries.execute(new GetIngestion({ id: job_id, actor }));
  }
}
