import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { CommandContext, Created } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { Problem } from '../../kernel/problems.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import {
  type Issuer,
  type IssuerContent,
  decideRegister,
  decideRetire,
  issuerOf,
  issuerStream,
} from './domain/issuer.js';

export class GetIssuer extends QueryWith<{ issuer_id: string }, Issuer> {}

/** Issuers whose proofs are trusted, each read from its own stream, so always current. */
@QueryHandler(GetIssuer)
export class Issuers implements IQueryHandler<GetIssuer> {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  async find(issuerId: string): Promise<Issuer | undefined> {
    return issuerOf(await this.store.readStream(issuerStream(issuerId)));
  }

  execute({ input: { issuer_id } }: GetIssuer): Promise<Issuer> {
    return this.get(issuer_id);
  }

  /** @throws Problem issuer_not_found */
  async get(issuerId: string): Promise<Issuer> {
    const issuer = await this.find(issuerId);
    if (!issuer) throw new Problem('issuer_not_found', `There is no issuer ${issuerId}.`);
    return issuer;
  }
}

/** Trusts an issuer's proofs from now on, or no longer. */
export class ChangeIssuer extends CommandWith<
  { issuer_id: string; change: { register: IssuerContent } | 'retire'; context: CommandContext },
  Created<Issuer>
> {}

@CommandHandler(ChangeIssuer)
export class ChangeIssuerHandler implements ICommandHandler<ChangeIssuer> {
  constructor(
    private readonly writer: Writer,
    private readonly issuers: Issuers,
  ) {}

  /** @throws Problem issuer_not_found, issuer_conflict, idempotency_key_reused */
  async execute({ input: { issuer_id, change, context } }: ChangeIssuer): Promise<Created<Issuer>> {
    if (change === 'retire') await this.issuers.get(issuer_id);
    const { position, own } = await this.writer.execute(issuerStream(issuer_id), context, (history) =>
      change === 'retire' ? decideRetire(issuerOf(history)!) : decideRegister(issuerOf(history), change.register),
    );
    return { body: await this.issuers.get(issuer_id), position, own };
  }
}
