import { Body, Controller, Post } from '@nestjs/common';
import { CommandBus } from '@nestjs/cqrs';
import { Written } from '../../http/answers.js';
import { Context, RequestContext } from '../../http/command-context.js';
import { Write } from '../../http/routes.js';
import { AssignPolicyNameDto, PolicyNameDto } from './policy-names.dto.js';
import { AssignPolicyName } from './policy-names.js';

@Controller('/v1/policies/names')
export class PolicyNamesController {
  constructor(private readonly commands: CommandBus) {}

  @Post()
  @Write({
    scope: 'ops',
    example: { name: 'VP_SAVINGS', tris_org: 'tris:lendco' },
    summary: 'Give the name of policies to an organization',
    description:
      'The name is the id of a policy without its version. Whoever creates the first version owns it; an operator can ' +
      'reserve it before, or take it back from somebody who should not have it. Existing policies keep their owner.',
    type: PolicyNameDto,
    problems: ['write_conflict'],
  })
  async assign(@Body() { name, tris_org }: AssignPolicyNameDto, @Context() request: RequestContext) {
    const context = request.of({ name, tris_org });
    const { position } = await this.commands.execute(new AssignPolicyName({ name, tris_org, context }));
    return new Written<PolicyNameDto>({ name, tris_org }, position);
  }
}
