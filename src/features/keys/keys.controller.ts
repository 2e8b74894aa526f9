import { Body, Controller, Delete, Get, Param, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import type { Actor } from '../../commands/context.js';
import { ApiKeys, type ListedApiKey } from '../../credentials/api-keys.js';
import { Written } from '../../http/answers.js';
import { RequestActor } from '../../http/command-context.js';
import { Keyed, Write } from '../../http/routes.js';
import { Problem } from '../../kernel/problems.js';
import { CreatedKeyDto, CreateKeyDto, DeletedKeyDto, KeyDto, KeyParams, KeysDto } from './keys.dto.js';
import { CreateKey, DeleteKey } from './keys.handlers.js';

@Controller('/v1/ops/keys')
export class KeysController {
  constructor(
    private readonly commands: CommandBus,
    private readonly keys: ApiKeys,
  ) {}

  @Get()
  @Keyed({ scope: 'ops', summary: 'List the API keys, without their secrets', type: KeysDto })
  async list(): Promise<KeysDto> {
    return { keys: this.keys.list().map(dtoOf), read_only: this.keys.readOnly() };
  }

  @Get('/:key_id')
  @Keyed({ scope: 'ops', summary: 'Get an API key, without its secret', type: KeyDto, problems: ['key_not_found'] })
  async get(@Param() { key_id }: KeyParams) {
    const found = this.keys.list().find(({ id }) => id === key_id);
    if (!found) throw new Problem('key_not_found', `There is no key ${key_id}.`);
    return dtoOf(found);
  }

  @Post()
  @Write({
    scope: 'ops',
    status: 201,
    example: { key_id: 'lendco-relay', scopes: ['relay:write'], organization: 'tris:lendco' },
    summary: 'Create an API key',
    description:
      'The answer contains the key, which is stored nowhere: a repeated request is refused. Except for `reads`, it cannot ' +
      'have scopes that the key of this request lacks. Not in the cluster profile, where all processes share the file of the keys.',
    type: CreatedKeyDto,
    ignoresIdempotencyKey: true,
    problems: ['key_conflict', 'keys_read_only'],
  })
  async create(@Body() body: CreateKeyDto, @RequestActor() actor: Actor) {
    const created = await this.commands.execute(new CreateKey({ ...body, actor }));
    return new Written<CreatedKeyDto>(created, null, 201, ['v1', 'ops', 'keys', body.key_id]);
  }

  @Delete('/:key_id')
  @Write({
    scope: 'ops',
    summary: 'Delete an API key: this process refuses it from now on, others within a second',
    type: DeletedKeyDto,
    ignoresIdempotencyKey: true,
    problems: ['key_not_found', 'key_in_use', 'keys_read_only'],
  })
  async delete(@Param() { key_id }: KeyParams, @RequestActor() actor: Actor) {
    await this.commands.execute(new DeleteKey({ key_id, actor }));
    return new Written<DeletedKeyDto>({ key_id }, null);
  }
}

function dtoOf({ id, scopes, organization, isDevelopment }: ListedApiKey): KeyDto {
  return { key_id: id, scopes: [...scopes], organization: organization ?? null, is_development: isDevelopment };
}
