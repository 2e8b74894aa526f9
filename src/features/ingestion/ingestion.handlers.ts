import { Command, CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { Problem } from '../../kernel/problems.js';
import { SessionStanding } from '../accounts/session-standing.js';
import { Ingestion, type IngestionInput } from './ingestion.js';

/** Starts reading a linked wallet's history on a chain. */
export class IngestWallet extends Command<{ job_id: string }> {
  constructor(
    readonly asked: Omit<IngestionInput, 'tris_id'>,
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
  async execute({ asked, context }: IngestWallet): Promise<{ job_id: string }> {
    const { chain_id } = asked;
    if (!this.ingestion.knows(chain_id)) {
      throw new Problem(
        'chain_not_configured',
        `Histories of chain ${chain_id} cannot be read here: it has no endpoint or no listed contracts.`,
      );
    }
    const wallet = asked.wallet.toLowerCase();
    const tris_id = await this.ingestion.trisOf(wallet, chain_id);
    const { session, organization } = context.actor;
    if (session && (await this.standing.of(session)).trisId !== tris_id) {
      throw new Problem('forbidden', 'A session can only read the histories of wallets of its own TRIS.');
    }
    if (tris_id === null) {
      throw new Problem('wallet_not_linked', 'The wallet has not signed a link to a TRIS that counts on this chain.');
    }
    const { id } = await this.ingestion.enqueue({ ...asked, wallet, tris_id }, context);
    if (organization !== null) await this.ingestion.noteAsked(id, organization);
    return { job_id: id };
  }
}
