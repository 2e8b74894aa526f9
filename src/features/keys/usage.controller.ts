import { Controller, Get } from '@nestjs/common';
import { type Actor, ownerOfTurns } from '../../commands/context.js';
import { Quotas } from '../../commands/quotas.js';
import { RequestActor } from '../../http/command-context.js';
import { Keyed } from '../../http/routes.js';
import { UsageDto } from './usage.dto.js';

@Controller('/v1/usage')
export class UsageController {
  constructor(private readonly quotas: Quotas) {}

  @Get()
  @Keyed({
    scope: 'any',
    summary: 'Get what the organization of the key of this request, or the key without one, has used of its bounds',
    description: 'What other processes have counted in the last second may be missing.',
    type: UsageDto,
  })
  async get(@RequestActor() actor: Actor): Promise<UsageDto> {
    const owner = ownerOfTurns(actor);
    return { owner, bounds: await this.quotas.usageOf(owner) };
  }
}
