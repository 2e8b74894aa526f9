import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import type { CommandContext, Created } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import {
  type Issuer,
  type IssuerContent,
  decideRegister,
  decideRetire,
  issuerOf,
  issuerStream,
} from './domain/issuer.js';
import { Issuers } from './issuers.js';

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
    if (change === 'retire') await this.issuers.get(issuerId);
    const { position, own } = await this.writer.execute(issuerStream(issuerId), context, (history) =>
      change === 'retire' ? decideRetire(issuerOf(history)!) : decideRegister(issuerOf(history), change.register),
    );
    return { body: await this.issuers.get(issuerId), position, own };
  }
}

/** One issuer, read from its own stream, so always current. */
export class GetIssuer extends Query<Issuer> {
  constructor(readonly issuerId: string) {
    super();
  }
}

@QueryHandler(GetIssuer)
export class GetIssuerHandler implements IQueryHandler<GetIssuer> {
  constructor(private readonly issuers: Issuers) {}

  /** @throws Problem issuer_not_found */
  execute({ issuerId }: GetIssuer): Promise<Issuer> {
    return this.issuers.get(issuerId);
  }
}
