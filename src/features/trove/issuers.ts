import { Inject } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { CommandContext, Created } from '../../commands/context.js';
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

export class GetIssuer extends Query<Issuer> {
  constructor(readonly issuerId: string) {
    super();
  }
}

/** Issuers whose proofs are trusted, each read from its own stream, so always current. */
@QueryHandler(GetIssuer)
export class Issuers implements IQueryHandler<GetIssuer> {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  async find(issuerId: string): Promise<Issuer | undefined> {
    return issuerOf(await this.store.readStream(issuerStream(issuerId)));
  }

  /** @throws Problem issuer_not_found */
  async execute({ issuerId }: Pick<GetIssuer, 'issuerId'>): Promise<Issuer> {
    const issuer = await this.find(issuerId);
    if (!issuer) throw new Problem('issuer_not_found', `There is no issuer ${issuerId}.`);
    return issuer;
  }
}

/** Trusts an issuer's proofs from now on, or no longer. */
export class ChangeIssuer extends Command<Created<Issuer>> {
  constructor(
    readonly issuerId: string,
    readonly change: { register: IssuerContent } | 'retire',
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(ChangeIssuer)
export class ChangeIssuerHandler implements ICommandHandler<ChangeIssuer> {
  constructor(
    private readonly writer: Writer,
    private readonly issuers: Issuers,
  ) {}

  /** @throws Problem issuer_not_found, issuer_conflict, idempotency_key_reused */
  async execute({ issuerId, change, context }: ChangeIssuer): Promise<Created<Issuer>> {
    if (change === 'retire') await this.issuers.execute({ issuerId });
    const { position, own } = await this.writer.execute(issuerStream(issuerId), context, (history) =>
      change === 'retire' ? decideRetire(issuerOf(history)!) : decideRegister(issuerOf(history), change.register),
    );
    return { body: await this.issuers.execute({ issuerId }), position, own };
  }
}
