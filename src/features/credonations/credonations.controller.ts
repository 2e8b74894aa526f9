import { Controller, Get, Param, Query } from '@nestjs/common';
import { QueryBus } from '@nestjs/cqrs';
import { Read } from '../../http/answers.js';
import { PageQuery, TrisIdParams } from '../../http/common.dto.js';
import { PublicRead } from '../../http/routes.js';
import { ValidationsDto } from './credonations.dto.js';
import { ListCredonations } from './credonations.handlers.js';

@Controller()
export class CredonationsController {
  constructor(private readonly queries: QueryBus) {}

  @Get('/api/tris-validations/:tris_id')
  @PublicRead({
    summary: 'List the credonations that an identity received, in log order',
    description: 'Credonations follow from relayed actions; they cannot be requested.',
    etag: true,
    type: ValidationsDto,
    problems: ['identity_not_found'],
  })
  async list(@Param() { tris_id }: TrisIdParams, @Query() { limit, cursor }: PageQuery) {
    return Read.of(await this.queries.execute(new ListCredonations({ trisId: tris_id, limit, cursor })));
  }
}
