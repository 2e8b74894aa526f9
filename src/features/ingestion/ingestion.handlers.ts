import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import type { CommandContext, Actor } from '../../commands/context.js';
import type { Job } from '../../stores/ports/jobs.js';
import { Problem } from '../../kernel/problems.js';
import { SessionStanding } from '../accounts/session-standing.js';
import type { IngestionDto } from './ingestion.dto.js';
import { Ingestion, type IngestionInput } from './ingestion.js';

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
    await this.refuseUnlessOwn(context.actor, tris_id);
    if (tris_id === null) {
      throw new Problem('wallet_not_linked', 'The wallet has not signed a link to a TRIS that counts on this chain.');
    }
    const input = { wallet: small, chain_id: chainId, from_block: fromBlock, tris_id };
    const { id } = await this.ingestion.enqueue(input, context);
    if (context.actor.organization !== null) await this.ingestion.noteAsked(id, context.actor.organization);
    return { job_id: id };
  }

  private async refuseUnlessOwn({ session }: Actor, trisId: string | null): Promise<void> {
    if (session && (await this.standing.of(session)).trisId !== trisId) {
      throw new Problem('forbidden', 'A session can only read the histories of wallets of its own TRIS.');
    }
  }
}

/** Progress and result of an ingestion. */
export class GetIngestion extends Query<IngestionDto> {
  constructor(
    readonly id: string,
    readonly actor: Actor,
  ) {
    super();
  }
}

@QueryHandler(GetIngestion)
export class GetIngestionHandler implements IQueryHandler<GetIngestion> {
  constructor(
    private readonly ingestion: Ingestion,
    private readonly standing: SessionStanding,
  ) {}

  /**
   * @throws Problem ingestion_not_found, also if a session asks for an ingestion of another TRIS, or an organization's key
   * for one that its organization did not ask for
   */
  async execute({ id, actor }: GetIngestion): Promise<IngestionDto> {
    const job = await this.ingestion.find(id);
    if (!job || (await this.isHidden(job, actor))) {
      throw new Problem('ingestion_not_found', `There is no ingestion ${id}.`);
    }
    const answer = ingestionOf(job);
    // The organization named the wallet; whose it is, is not for it to learn here.
    return actor.organization === null ? answer : { ...answer, tris_id: null };
  }

  private async isHidden({ id, input }: Job, { session, organization }: Actor): Promise<boolean> {
    if (session) return (await this.standing.of(session)).trisId !== input['tris_id'];
    return organization !== null && !(await this.ingestion.wasAskedBy(id, organization));
  }
}

function ingestionOf({ id, input, status, progress, result, error, enqueued_at, finished_at }: Job): IngestionDto {
  const { wallet, chain_id, tris_id } = input as unknown as IngestionInput;
  return {
    job_id: id,
    tris_id,
    wallet: getAddress(wallet),
    chain_id,
    status,
    progress,
    result: result as IngestionDto['result'],
    error,
    started_at: enqueued_at,
    finished_at,
  };
}
