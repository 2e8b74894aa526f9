import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { ORGANIZATIONS, type OrganizationRow, platformsOf } from '../../../projections/organizations.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext, Created } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { TRIS_ID } from '../../kernel/identifiers.js';
import { hintOf, Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { decideRegister, decideVetting, organizationOf, organizationStream } from './domain/organization.js';
import type {
  OrganizationDto,
  OrganizationsDto,
  PlatformDto,
  RegisterOrganizationDto,
  RegisterPlatformDto,
  VettingDto,
} from './organizations.dto.js';
import { Platforms, platformStream } from './platforms.js';

/** Registers an organization and its platforms. Each platform has its own stream; a retry adds those still missing. */
export class RegisterOrganization extends CommandWith<
  RegisterOrganizationDto & { context: CommandContext },
  Created<OrganizationDto>
> {}

@CommandHandler(RegisterOrganization)
export class RegisterOrganizationHandler implements ICommandHandler<RegisterOrganization> {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
  ) {}

  /** @throws Problem platform_already_registered; nothing is written then, unless two requests race for a platform */
  async execute({ input: { tris_org, platform_ids, context } }: RegisterOrganization) {
    for (const [i, platformId] of platform_ids.entries()) {
      await this.platforms.refuseIfTaken(platformId, tris_org, `/platform_ids/${i}`);
    }
    const stream = organizationStream(tris_org);
    await this.writer.idempotency.claim(stream, context);
    // The organization is written last, so that a reader who waits for its position also finds its platforms.
    let own = false;
    let position = 0;
    for (const [i, platformId] of platform_ids.entries()) {
      const outcome = await this.platforms.register(platformId, tris_org, context, `/platform_ids/${i}`);
      own ||= outcome.own;
      position = Math.max(position, outcome.position);
    }
    const outcome = await this.writer.update(stream, context, (history) =>
      decideRegister(organizationOf(history), tris_org),
    );
    const { vetted } = organizationOf(outcome.history);
    const registered_at = outcome.history[0]!.metadata.recorded_at;
    return {
      body: { tris_org, vetted, registered_at, platform_ids },
      position: Math.max(position, outcome.position),
      own: own || outcome.own,
    };
  }
}

/** Makes an organization the permanent owner of a platform. */
export class RegisterPlatform extends CommandWith<
  RegisterPlatformDto & { context: CommandContext },
  Created<PlatformDto>
> {}

@CommandHandler(RegisterPlatform)
export class RegisterPlatformHandler implements ICommandHandler<RegisterPlatform> {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** @throws Problem organization_not_found, platform_already_registered */
  async execute({ input: { platform_id, tris_org, context } }: RegisterPlatform) {
    requireRegistered(await this.store.readStream(organizationStream(tris_org)), tris_org);
    await this.platforms.refuseIfTaken(platform_id, tris_org, '/platform_id');
    await this.writer.idempotency.claim(platformStream(platform_id), context);
    const { position, own } = await this.platforms.register(platform_id, tris_org, context, '/platform_id');
    return { body: { platform_id, tris_org }, position, own };
  }
}

/** Vets an organization, or revokes its vetting. */
export class SetVetting extends CommandWith<VettingDto & { context: CommandContext }, Created<VettingDto>> {}

@CommandHandler(SetVetting)
export class SetVettingHandler implements ICommandHandler<SetVetting> {
  constructor(private readonly writer: Writer) {}

  /** @throws Problem organization_not_found */
  async execute({ input: { tris_org, vetted, context } }: SetVetting) {
    const { position, own } = await this.writer.execute(organizationStream(tris_org), context, (history) =>
      decideVetting(requireRegistered(history, tris_org), tris_org, vetted),
    );
    return { body: { tris_org, vetted }, position, own };
  }
}

/** One organization: registration and vetting from its stream (always current), platforms from the read model. */
export class GetOrganization extends QueryWith<{ trisOrg: string }, OrganizationDto> {}

@QueryHandler(GetOrganization)
export class GetOrganizationHandler implements IQueryHandler<GetOrganization> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    private readonly views: Views,
  ) {}

  /** @throws Problem organization_not_found, projection_behind */
  async execute({ input: { trisOrg } }: GetOrganization): Promise<OrganizationDto> {
    const history = await this.store.readStream(organizationStream(trisOrg));
    const { registered_at, vetted } = requireRegistered(history, trisOrg);
    await this.views.requirePosition(
      history[0]!.position,
      'The list of platforms is not up to date yet. Try again shortly.',
    );
    const platform_ids = (await this.views.rows(platformsOf(trisOrg))).map(({ sort }) => sort);
    return { tris_org: trisOrg, vetted, registered_at: new Date(registered_at).toISOString(), platform_ids };
  }
}

/** Registered organizations by TRIS id. */
export class ListOrganizations extends QueryWith<{ limit: number; cursor: string | undefined }, OrganizationsDto> {}

@QueryHandler(ListOrganizations)
export class ListOrganizationsHandler implements IQueryHandler<ListOrganizations> {
  constructor(private readonly views: Views) {}

  async execute({ input: { limit, cursor } }: ListOrganizations) {
    const { page, next_cursor } = await this.views.page<OrganizationRow>(ORGANIZATIONS, { cursor, limit }, TRIS_ID);
    return {
      organizations: page.map(({ tris_org, vetted, registered_at }) => ({
        tris_org,
        vetted,
        registered_at: new Date(registered_at).toISOString(),
      })),
      next_cursor,
    };
  }
}

/** @throws Problem organization_not_found */
function requireRegistered(history: readonly RecordedEvent[], trisOrg: string) {
  const { registered_at, vetted } = organizationOf(history);
  if (registered_at !== null) return { registered_at, vetted };
  throw new Problem('organization_not_found', `No organization ${trisOrg} is registered.${hintOf(trisOrg)}`);
}
