import { Injectable } from '@nestjs/common';
import { fact, hashedStream } from '../../kernel/event-definition.js';
import type { CommandContext } from '../../commands/context.js';
import type { Position } from '../../kernel/event.js';
import { type CommandEffect, Writer } from '../../commands/writer.js';
import { Problem, fieldProblem } from '../../kernel/problems.js';
import { SharedLookUps } from '../../kernel/turn.js';
import { platformRegistered } from './domain/organizations.events.js';

export const platformStream = (platformId: string): string => hashedStream('platform', platformId);

/** Platforms and their owners, read from each platform's own stream, so always current. An owner never changes. */
@Injectable()
export class Platforms {
  private readonly owners = new Map<string, string>();
  /** Relays of a platform that nobody has registered would each read its stream. */
  private readonly lookUps = new SharedLookUps<string | null>();

  constructor(private readonly writer: Writer) {}

  /** TRIS of the owning organization, or null. */
  async ownerOf(platformId: string): Promise<string | null> {
    return this.owners.get(platformId) ?? this.lookUps.of(platformId, () => this.lookUp(platformId));
  }

  private async lookUp(platformId: string): Promise<string | null> {
    const registered = await this.writer.firstOf(platformStream(platformId));
    if (!registered) return null;
    const owner = registered.data['tris_org'] as string;
    this.owners.set(platformId, owner);
    return owner;
  }

  /** TRIS of the organization that owned it at a position of the log, or null. */
  async ownerAt(platformId: string, position: Position): Promise<string | null> {
    const registered = await this.writer.firstOf(platformStream(platformId));
    return registered && registered.position < position ? (registered.data['tris_org'] as string) : null;
  }

  /** @throws Problem platform_already_registered at `pointer` if another organization owns the platform */
  async refuseIfTaken(platformId: string, trisOrg: string, pointer: string): Promise<void> {
    const owner = await this.ownerOf(platformId);
    if (owner !== null && owner !== trisOrg) throw taken(platformId, pointer);
  }

  /** @throws Problem platform_already_registered if another organization was faster */
  async register(
    platformId: string,
    trisOrg: string,
    context: CommandContext,
    pointer: string,
  ): Promise<CommandEffect> {
    const registration = fact(platformRegistered, { platform_id: platformId, tris_org: trisOrg });
    const outcome = await this.writer.update(platformStream(platformId), context, (history) =>
      history.length === 0 ? [registration] : [],
    );
    if (outcome.history[0]!.data['tris_org'] !== trisOrg) throw taken(platformId, pointer);
    return outcome;
  }
}

/** @throws Problem platform_not_owned unless the caller is an operator (null) or the platform's owner */
export function refuseUnlessOwned(platformId: string, organization: string | null, owner: string | null): void {
  if (organization === null || organization === owner) return;
  const why = owner === null ? 'is not registered' : 'belongs to another organization';
  throw new Problem(
    'platform_not_owned',
    `This key can only relay for platforms of ${organization}; ${platformId} ${why}.`,
  );
}

function taken(platformId: string, pointer: string): Problem {
  const message = `${platformId} is registered to another organization`;
  const detail = `${message}. The owner of a platform cannot change.`;
  return fieldProblem(pointer, 'platform_already_registered', message, detail);
}
