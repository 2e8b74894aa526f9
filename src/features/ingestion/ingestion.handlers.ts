import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import { SessionStanding } from '../accounts/session-standing.js';
import { Ingestion } from './ingestion.js';

/** Starts reading a linked wallet's history on a chain. */
export class IngestWallet extends Command<{ job_id: string }> {
  constructor(
    readonly wallet: string,
    readonly chainId: number,
    readonly fromBlock: number | null,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(IngestWallet)
export class IngestWalletHandler implements ICommandHandler<IngestWallet> {
  constructor(
    private readonly ingestion: Ingestion,
    private readonly standing: SessionStanding,
  ) {}

  /** @throws Problem chain_not_configured, wallet_not_linked, forbidden, idempotency_key_reused, ingestion_open */
  async execute({ wallet, chainId, fromBlock, context }: IngestWallet): Promise<{ job_id: string }> {
    if (!this.ingestion.knows(chainId)) {
      throw new Problem(
        'chain_not_configured',
        `Histories of chain ${chainId} cannot be read here: it has no endpoint or no listed contracts.`,
      );
    }
    const small = wallet.toLowerCase();
    const tris_id = await this.ingestion.trisOf(small, chainId);
    const { session, organization } = context.actor;
    if (session && (await this.standing.of(session)).trisId !== tris_id) {
      throw new Problem('forbidden', 'A session can only read the histories of wallets of its own TRIS.');
    }
    if (tris_id === null) {
      throw new Problem('wallet_not_linked', 'The wallet has not signed a link to a TRIS that counts on this chain.');
    }
    const input = { wallet: small, chain_id: chainId, from_block: fromBlock, tris_id };
    const { id } = await this.ingestion.enqueue(input, context);
    if (organization !== null) await this.ingestion.noteAsked(id, organization);
    return { job_id: id };
  }
}
