import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { Position } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import {
  type Link,
  decideEndSessions,
  decideLink,
  endingsOf,
  linkOf,
  trisActedFor,
  walletStream,
} from './domain/wallet.js';

export class EndSessions extends CommandWith<
  { wallet: string; by: Parameters<typeof decideEndSessions>[1]; context: CommandContext },
  Position
> {}

/** Reads and changes the links of wallets. Reads use the wallet's own stream, so they are always current. */
@CommandHandler(EndSessions)
export class WalletLinks implements ICommandHandler<EndSessions> {
  constructor(
    private readonly writer: Writer,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  async of(wallet: string): Promise<Link | null> {
    return linkOf(await this.store.readStream(walletStream(wallet)));
  }

  /** The TRIS that sessions of the wallet on a chain act for, and how often such sessions were ended. */
  async standing(wallet: string, chainId: number | null): Promise<{ trisId: string | null; endings: number }> {
    const history = await this.store.readStream(walletStream(wallet));
    return { trisId: trisActedFor(linkOf(history), chainId), endings: endingsOf(history, chainId) };
  }

  /** @throws Problem idempotency_key_reused */
  async execute({ input: { wallet, by, context } }: EndSessions): Promise<Position> {
    const { position } = await this.writer.execute(walletStream(wallet), context, () => decideEndSessions(wallet, by));
    return position;
  }

  /**
   * Links a wallet. The append expects the stream's exact revision: of several concurrent attempts one succeeds.
   * @param refuse throws if the caller may not replace the present link; called again if that changes meanwhile
   * @throws Problem wallet_already_linked, idempotency_key_reused
   */
  async link(wallet: string, wanted: Link, context: CommandContext, refuse?: (link: Link | null) => void) {
    const { position } = await this.writer.execute(walletStream(wallet), context, (history) => {
      const link = linkOf(history);
      refuse?.(link);
      return decideLink(link, wallet, wanted);
    });
    return position;
  }
}
