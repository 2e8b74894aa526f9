import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { type CommandEffect, Writer } from '../../commands/writer.js';
import type { Position, RecordedEvent } from '../../kernel/event.js';
import type { Fact } from '../../kernel/event-definition.js';
import { hashOf } from '../../kernel/hash.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import {
  type NameOwnership,
  decideAssignName,
  decideUseName,
  nameOwnershipOf,
  policyNameOf,
  policyNameStream,
} from './domain/policy-name.js';

/** Versions of a name that are looked for in logs without recorded ownership: V1 to V64. */
const OLDER_VERSIONS = 64;

/** A kind of policy: how it names its streams, and who owns the policy in one. */
interface Kind {
  streamOf(policyId: string): string;
  /** undefined: there is no policy in the stream. */
  ownerIn(history: readonly RecordedEvent[]): string | null | undefined;
}

/** Gives the name of policies to an organization, even if another one owns it. */
export class AssignPolicyName extends CommandWith<
  { name: string; tris_org: string; context: CommandContext },
  { position: Position }
> {}

/** The names of policies, each with its own stream, so that two organizations cannot both create the first version. */
@CommandHandler(AssignPolicyName)
export class PolicyNames implements ICommandHandler<AssignPolicyName> {
  constructor(
    private readonly writer: Writer,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** @throws Problem idempotency_key_reused, write_conflict */
  async execute({ input: { name, tris_org, context } }: AssignPolicyName): Promise<{ position: Position }> {
    return this.writer.execute(policyNameStream(name), context, (history) =>
      decideAssignName(nameOwnershipOf(history), name, tris_org),
    );
  }

  /**
   * Creates a policy, and takes its name if nobody has. The name comes first: a crash in between leaves a name of the
   * same owner, with which a retry continues.
   * @param owner of the policy @param decide creates it
   * @throws Problem policy_name_not_owned, what `decide` throws, idempotency_key_reused
   */
  async create(
    policyId: string,
    owner: string | null,
    kind: Kind,
    context: CommandContext,
    decide: (history: readonly RecordedEvent[]) => Fact[],
  ): Promise<Pick<CommandEffect, 'position' | 'own'>> {
    const stream = kind.streamOf(policyId);
    // A policy that exists is a repetition or a conflict, no matter who owns the name.
    if ((await this.store.readStream(stream, { limit: 1 })).length === 0) {
      const name = policyNameOf(policyId);
      const names = policyNameStream(name);
      const use = { name, owner, organization: context.actor.organization };
      const recorded = nameOwnershipOf(await this.store.readStream(names));
      const older = recorded ? undefined : await this.oldestVersion(name, kind);
      decideUseName(recorded, older, use);
      await this.writer.idempotency.claim(stream, context, decide);
      // The owner is part of the event's id: two organizations may send the same policy.
      const body_hash = hashOf('policy_name', name, JSON.stringify(owner));
      await this.writer.update(names, { ...context, idempotency: null, body_hash }, (history) =>
        decideUseName(nameOwnershipOf(history), older, use),
      );
    }
    return this.writer.execute(stream, context, decide);
  }

  /** The owner of the oldest version of a name, by its position in the log. */
  private async oldestVersion(name: string, { streamOf, ownerIn }: Kind): Promise<NameOwnership> {
    const versions = Array.from({ length: OLDER_VERSIONS }, (_, i) => streamOf(`${name}_V${i + 1}`));
    const firsts = await Promise.all(versions.map((stream) => this.store.readStream(stream, { limit: 1 })));
    const [oldest] = firsts.flat().sort((a, b) => a.position - b.position);
    const owner = oldest && ownerIn([oldest]);
    return owner === undefined ? undefined : { owner };
  }
}
