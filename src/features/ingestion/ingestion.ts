import { Inject, type OnModuleInit } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { getAddress } from 'ethers/address';
import { Chains } from '../accounts/chains.js';
import { Config } from '../../kernel/config.js';
import { EVENT_STORE, type EventStore, StoreUnavailable } from '../../stores/ports/event-store.js';
import { type Actor, type CommandContext, bodyHash, internalActor, jobContext } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { hashOf } from '../../kernel/hash.js';
import { JOBS, type Job, type Jobs, type RunningJob } from '../../stores/ports/jobs.js';
import { FOREVER_MS, KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { Logger } from '../../kernel/logger.js';
import { isInLog } from '../../read-side/manifest.js';
import type { Checkpoint } from '../../stores/ports/read-models.js';
import { JobKinds, jobId, stateOfJob } from '../jobs/job-kinds.js';
import { Platforms } from '../organizations/platforms.js';
import { idempotencyKeyReused, Problem } from '../../kernel/problems.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import { type Action, actionStream, externalStream, splitMetric } from '../relay/domain/relay.js';
import { actionIn, stateOf } from '../relay/domain/withdrawal.js';
import { ActionRecorder } from '../relay/relay.handlers.js';
import { trisOn } from '../accounts/domain/wallet.js';
import { RefreshFamilies } from '../accounts/refresh-families.js';
import { WalletLinks } from '../accounts/wallet-links.js';
import { chainPlatform } from './chain-events.js';
import { type ContractsByChain, loadContracts } from './contracts.js';
import { type IngestionDto, IngestionResultDto } from './ingestion.dto.js';
import { LogReader } from './log-reader.js';
import type { Cursor, Occurrence, Revocation } from './scan.js';

const JOB_KIND = 'chain_ingestion';
const PREFIX = 'ing';
/** Concurrent appends. */
const IN_FLIGHT = 256;
/** How long an Idempotency-Key finds its job, if another request started that, and an organization the job it asked for. */
const ANSWERED_TTL_MS = 30 * 86_400_000;

/** The input of a job: a wallet's history on a chain, for the TRIS it is linked to. */
export interface IngestionInput {
  /** In lower case. */
  wallet: string;
  chain_id: number;
  /** null: the block after the last one read, or the first block. */
  from_block: number | null;
  tris_id: string;
}

/** How far a history is read, and the last event of the log at that time. */
interface KeptCursor extends Cursor {
  job: string;
  result: IngestionResultDto;
  log: Checkpoint;
}

export class IngestWallet extends CommandWith<
  { asked: Omit<IngestionInput, 'tris_id'>; context: CommandContext },
  { job_id: string }
> {}

/** Converts wallets' histories on chains to actions, in jobs that continue from their last cursor after a crash. */
@CommandHandler(IngestWallet)
export class Ingestion implements ICommandHandler<IngestWallet>, OnModuleInit {
  private contracts: ContractsByChain = {};

  constructor(
    private readonly chains: Chains,
    private readonly links: WalletLinks,
    private readonly families: RefreshFamilies,
    private readonly actions: ActionRecorder,
    private readonly recorded: RecordedActions,
    private readonly platforms: Platforms,
    private readonly kinds: JobKinds,
    private readonly logger: Logger,
    @Inject(Config) private readonly config: Config,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(JOBS) private readonly jobs: Jobs,
  ) {}

  onModuleInit(): void {
    this.contracts = loadContracts(this.config.chainContracts);
    this.kinds.add(
      {
        kind: JOB_KIND,
        prefix: PREFIX,
        scope: 'identity:write',
        isOf: (organization, { id }) => this.wasAskedBy(id, organization),
        // Others may wait for it, too.
        mayCancel: (organization, { input }) => input['started_by'] === organization,
        result: IngestionResultDto,
      },
      (job) => this.run(job),
      // Half a minute in all, for an endpoint that limits the rate of requests.
      { attempts: 5, backoffMs: 2_000 },
    );
  }

  /** @throws Problem chain_not_configured, wallet_not_linked, forbidden, idempotency_key_reused, ingestion_open */
  async execute({ input: { asked, context } }: IngestWallet): Promise<{ job_id: string }> {
    const { chain_id } = asked;
    if (!this.chains.has(chain_id) || !this.contracts[chain_id]?.length) {
      const detail = `Histories of chain ${chain_id} cannot be read here: it has no endpoint or no listed contracts.`;
      throw new Problem('chain_not_configured', detail);
    }
    const wallet = asked.wallet.toLowerCase();
    const tris_id = await this.trisOf(wallet, chain_id);
    const { session, organization } = context.actor;
    if (session && (await this.families.standingOf(session)).trisId !== tris_id) {
      throw new Problem('forbidden', 'A session can only read the histories of wallets of its own TRIS.');
    }
    if (tris_id === null) {
      throw new Problem('wallet_not_linked', 'The wallet has not signed a link to a TRIS that counts on this chain.');
    }
    const { id } = await this.enqueue({ ...asked, wallet, tris_id }, context);
    // Its keys can see the job then; several organizations may ask for one.
    if (organization !== null) await this.keyValue.put(askedKey(id, organization), true, ANSWERED_TTL_MS);
    return { job_id: id };
  }

  /** The TRIS that a wallet's history counts for, or null. An asserted link is not enough to affect a score. */
  private async trisOf(wallet: string, chainId: number): Promise<string | null> {
    return trisOn(await this.links.of(wallet), chainId);
  }

  /**
   * Enqueues a job. A wallet has at most one open job for each chain: a repeated request gets that one. A retry with
   * the same Idempotency-Key gets its first job.
   * @throws Problem idempotency_key_reused; ingestion_open if the open job has other parameters
   */
  async enqueue(input: IngestionInput, context: CommandContext): Promise<Job> {
    const { body_hash, idempotency } = context;
    const id = jobId(PREFIX, context);
    const answered = `ingest-answered:${id}`;
    const other = (await this.keyValue.get(answered)) as { id: string; body_hash: string } | undefined;
    if (other && other.body_hash !== body_hash) throw idempotencyKeyReused();
    const known = other && (await this.jobs.get(JOB_KIND, other.id));
    if (known) {
      context.onRepeated?.();
      return known;
    }
    const mine = { kind: JOB_KIND, id, input: { ...input, started_by: context.actor.organization } };
    return this.kinds.startInSlot(`ingest-open:${input.chain_id}:${input.wallet}`, mine, context, async (open) => {
      if (open.input['from_block'] !== input.from_block || open.input['tris_id'] !== input.tris_id) {
        const detail = 'Another job that reads the wallet’s history on this chain has not finished yet.';
        throw new Problem('ingestion_open', detail);
      }
      if (idempotency !== null) {
        await this.keyValue.putIfAbsent(answered, { id: open.id, body_hash }, ANSWERED_TTL_MS);
      }
      return open;
    });
  }

  async wasAskedBy(id: string, organization: string): Promise<boolean> {
    return (await this.keyValue.get(askedKey(id, organization))) !== undefined;
  }

  private async run(job: RunningJob): Promise<IngestionResultDto> {
    const { id, input, signal, progress } = job;
    const asked = input as unknown as IngestionInput;
    const { wallet, chain_id, from_block, tris_id } = asked;
    const { Scan } = await import('./scan.js'); // loads the decoder of event signatures
    const contracts = this.contracts[chain_id] ?? [];
    const reader = new LogReader(await this.chains.client(chain_id));
    const scan = new Scan(reader, wallet, contracts);
    const last = await reader.finalBlock().catch((error: Error) => {
      throw new Error(`Chain ${chain_id}: ${error.message}`, { cause: error });
    });
    // Earlier builds have not read what takes attestations back: such a wallet is read again.
    const reads = contracts.some(({ protocol }) => protocol === 'eas') ? [...contracts, 'Revoked'] : [...contracts];
    const cursorKey = `ingest:${chain_id}:${wallet}:${hashOf(bodyHash(reads))}`;
    let { cursor, result, isLost } = await this.kept(cursorKey, from_block, id);
    if (isLost || (await isReplaced(cursor, reader, last))) {
      const what = isLost ? 'The log lacks events that it had' : 'A chain replaced final blocks';
      this.logger.warn(`${what}; reading the history of the wallet again`, { chain_id, wallet, job: id });
      cursor = startAt(cursor.since);
      result = nothingFrom(cursor);
    }
    const first = result.from_block;
    progress(cursor.next_block - first, Math.max(0, last + 1 - first));
    try {
      while (cursor.next_block <= last) {
        signal.throwIfAborted();
        const read = await scan.next(cursor, last);
        if ((await this.trisOf(wallet, chain_id)) !== tris_id) {
          throw new Problem('wallet_not_linked', `The wallet is no longer linked to ${tris_id}.`);
        }
        await this.record(read.occurrences, asked, id, result);
        for (const revocation of read.revocations) {
          if (await this.withdraw(revocation, asked, id)) result.withdrawn++;
        }
        cursor = read.cursor;
        // A run whose lock was lost may go on beside another. The cursor then falls back to the slower one: blocks are read
        // again, and each occurrence still counts once.
        result.to_block = cursor.next_block - 1;
        result.logs += read.logs;
        const position = await this.store.head();
        const log = { log: this.store.logId, position, event_id: (await this.store.readAt(position))?.id ?? null };
        const kept = { ...cursor, job: id, result: { ...result }, log };
        await this.keyValue.put(cursorKey, kept, FOREVER_MS);
        progress(cursor.next_block - first, last + 1 - first);
      }
    } catch (error) {
      throw signal.aborted ? error : stoppedAt(cursor, error as Error);
    }
    return result;
  }

  /**
   * Where to start: the job's own cursor after an interruption, the requested block, or the end of the last job; and what
   * the job's attempts before have found.
   */
  private async kept(key: string, fromBlock: number | null, id: string) {
    const kept = (await this.keyValue.get(key)) as KeptCursor | undefined;
    const isOwn = kept?.job === id;
    const continues = kept !== undefined && (isOwn || fromBlock === null);
    // An older copy may have replaced the log, so that what was recorded is gone.
    const isLost = continues && kept.log !== undefined && !(await isInLog(kept.log, this.store));
    const cursor: Cursor = continues ? kept : { ...startAt(fromBlock ?? 0), attestations: kept?.attestations ?? {} };
    return { cursor, result: isOwn ? kept.result : nothingFrom(cursor), isLost };
  }

  /** Records occurrences as actions. The external id is the place on the chain, so that each counts once. */
  private async record(
    occurrences: readonly Occurrence[],
    input: IngestionInput,
    job: string,
    result: IngestionResultDto,
  ) {
    const platform_id = chainPlatform(input.chain_id);
    const owner = await this.platforms.ownerOf(platform_id);
    for (let i = 0; i < occurrences.length; i += IN_FLIGHT) {
      const slice = occurrences.slice(i, i + IN_FLIGHT);
      const outcomes = await Promise.all(
        slice.map((occurrence) => {
          const action = actionOf(occurrence, input, platform_id);
          return this.recordOnce(action, owner, jobContext(`wallet:${input.wallet}`, job, bodyHash(action)));
        }),
      );
      for (const outcome of outcomes) result[outcome]++;
    }
  }

  /** Withdraws the action that an attestation became, once for each revocation. @returns whether it did so now */
  private async withdraw(
    { place, attested }: Revocation,
    { wallet, chain_id }: IngestionInput,
    job: string,
  ): Promise<boolean> {
    const stream = externalStream(chainPlatform(chain_id), `${chain_id}:${attested}`);
    const history = await this.store.readStream(stream);
    const action = history[0] && actionIn(history, history[0].id);
    if (!action) return false;
    const [actor, body_hash] = [internalActor(`wallet:${wallet}`), hashOf('revoked', String(chain_id), place)];
    let isRepeated = false;
    const onRepeated = () => void (isRepeated = true);
    // An operator may have reinstated it since: reading the revocation again must not withdraw it again.
    const context = { actor, correlation_id: job, idempotency: body_hash, body_hash, onRepeated };
    await this.recorded.change({ action, to: 'withdrawn', reason: 'reversed', context });
    return !isRepeated && stateOf(action) === 'counted';
  }

  private async recordOnce(
    action: Action,
    owner: string | null,
    context: CommandContext,
  ): Promise<'recorded' | 'already_present' | 'counted_elsewhere'> {
    const stream = actionStream(action, null, () => '');
    const [existing] = await this.store.readStream(stream, { limit: 1 });
    if (existing?.metadata.body_hash === context.body_hash) return 'already_present';
    try {
      await this.actions.record({ action, stream, owner, source: 'vouched', context });
      return 'recorded';
    } catch (error) {
      // Recorded before for another identity that the wallet was linked to. It must not count twice.
      if (!(error instanceof Problem && error.code === 'external_id_conflict')) throw error;
      return 'counted_elsewhere';
    }
  }
}

function actionOf(
  { place, occurred_at, metric, criticality }: Occurrence,
  { tris_id, chain_id }: IngestionInput,
  platform_id: string,
): Action {
  const external_id = `${chain_id}:${place}`;
  return { tris_id, ...splitMetric(metric), criticality, platform_id, occurred_at, external_id, evidence_uri: null };
}

/** An error that says how far the job has come. That of an unavailable store is kept: the attempt does not count. */
function stoppedAt({ since, next_block }: Cursor, error: Error): Error {
  if (error instanceof StoreUnavailable && error.isPassing) return error;
  const done = next_block > since ? `blocks ${since} to ${next_block - 1} are recorded` : 'no block is recorded';
  return new Error(`Stopped at block ${next_block} (${done}): ${error.message}`, { cause: error });
}

const NOTHING = { to_block: null, logs: 0, recorded: 0, already_present: 0, counted_elsewhere: 0, withdrawn: 0 };

function nothingFrom({ next_block }: Cursor): IngestionResultDto {
  return { from_block: next_block, ...NOTHING };
}

function startAt(block: number): Cursor {
  return { since: block, next_block: block, last_hash: null, tokens: [], attestations: {} };
}

/** Whether the chain has another block now where an earlier job stopped. */
async function isReplaced({ next_block, last_hash }: Cursor, reader: LogReader, last: number): Promise<boolean> {
  const block = next_block - 1;
  return last_hash !== null && block <= last && (await reader.range(block, block).lastHash()) !== last_hash;
}

const askedKey = (id: string, organization: string) => `ingest-asked:${id}:${organization}`;

export class GetIngestion extends QueryWith<{ id: string; actor: Actor }, IngestionDto> {}

@QueryHandler(GetIngestion)
export class GetIngestionHandler implements IQueryHandler<GetIngestion> {
  constructor(
    private readonly ingestion: Ingestion,
    private readonly families: RefreshFamilies,
    @Inject(JOBS) private readonly jobs: Jobs,
  ) {}

  /**
   * @throws Problem ingestion_not_found, also if a session asks for an ingestion of another TRIS, or an organization's key
   * for one that its organization did not ask for
   */
  async execute({ input: { id, actor } }: GetIngestion): Promise<IngestionDto> {
    const job = await this.jobs.get(JOB_KIND, id);
    if (!job || (await this.isHidden(job, actor))) {
      throw new Problem('ingestion_not_found', `There is no ingestion ${id}.`);
    }
    const { wallet, chain_id, tris_id } = job.input as unknown as IngestionInput;
    return {
      job_id: id,
      // An organization named the wallet; whose it is, is not for it to learn here.
      tris_id: actor.organization === null ? tris_id : null,
      wallet: getAddress(wallet),
      chain_id,
      ...stateOfJob<IngestionResultDto>(job),
    };
  }

  private async isHidden({ id, input }: Job, { session, organization }: Actor): Promise<boolean> {
    if (session) return (await this.families.standingOf(session)).trisId !== input['tris_id'];
    return organization !== null && !(await this.ingestion.wasAskedBy(id, organization));
  }
}
