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

/** Trusts an issuer's proofs from now on. */
export class RegisterIssuer extends Command<Created<Issuer>> {
  constructor(
    readonly content: IssuerContent,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(RegisterIssuer)
export class RegisterIssuerHandler implements ICommandHandler<RegisterIssuer> {
  constructor(
    private readonly writer: Writer,
    private readonly issuers: Issuers,
  ) {}

  /** @throws Problem issuer_conflict, idempotency_key_reused */
  async execute({ content, context }: RegisterIssuer): Promise<Created<Issuer>> {
    const { position, own } = await this.writer.execute(issuerStream(content.issuer_id), context, (history) =>
      decideRegister(issuerOf(history), content),
    );
    return { body: await this.issuers.get(content.issuer_id), position, own };
  }
}

/** Stops trusting an issuer's proofs. */
export class RetireIssuer extends Command<Created<Issuer>> {
  constructor(
    readonly issuerId: string,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(RetireIssuer)
export class RetireIssuerHandler implements ICommandHandler<RetireIssuer> {
  constructor(
    private readonly writer: Writer,
    private readonly issuers: Issuers,
  ) {}

  /** @throws Problem issuer_not_found, idempotency_key_reused */
  async execute({ issuerId, context }: RetireIssuer): Promise<Created<Issuer>> {
    await this.issuers.get(issuerId);
    const { position, own } = await this.writer.execute(issuerStream(issuerId), context, (history) =>
      decideRetire(issuerOf(history)!),
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
