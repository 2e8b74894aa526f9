import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { DUE_DISPUTES } from '../../../projections/disputes.js';
import { internalActor } from '../../commands/context.js';
import { Config } from '../../kernel/config.js';
import { hashOf } from '../../kernel/hash.js';
import { repeat } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JOBS, type Jobs } from '../../stores/ports/jobs.js';
import { JobKinds } from '../jobs/job-kinds.js';
import { ActionChanges } from '../relay/action-changes.js';
import { stateOf } from '../relay/domain/withdrawal.js';
import { RecordedActions } from '../withdrawals/recorded-actions.js';
import { disputeOf, disputeStream } from './domain/dispute.js';

const KIND = 'dispute_withdrawal';
const RESULT = {
  type: 'string' as const,
  description:
    'What became of the disputed action: `withdrawn`, or `changed` if it is already, or was reinstated since the answer.',
};
const SWEEP_MS = 60_000;

/** Withdraws the actions of upheld disputes, in one job for each dispute. A job that runs twice withdraws once. */
@Injectable()
export class UpheldDisputes implements OnModuleInit, OnApplicationBootstrap, OnApplicationShutdown {
  private sweeps: NodeJS.Timeout | undefined;

  constructor(
    private readonly views: Views,
    private readonly actions: RecordedActions,
    private readonly changes: ActionChanges,
    private readonly kinds: JobKinds,
    @Inject(Config) private readonly config: Config,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(JOBS) private readonly jobs: Jobs,
  ) {}

  onModuleInit(): void {
    this.kinds.add(
      { kind: KIND, prefix: 'dsw', scope: 'ops', isOf: () => false, result: RESULT },
      ({ input }) => this.withdraw(input['dispute_id'] as string),
      { attempts: 10 },
    );
  }

  /** A crash between an answer and its job, or a lost queue, leaves a dispute whose action still counts. */
  onApplicationBootstrap(): void {
    if (this.config.has('worker')) this.sweeps = repeat(SWEEP_MS, () => this.sweep());
  }

  onApplicationShutdown(): void {
    clearInterval(this.sweeps);
  }

  /** Idempotent by the dispute. A job that used up its attempts starts again. */
  async enqueue(dispute_id: string): Promise<void> {
    const job = await this.jobs.enqueue(KIND, `dsw_${dispute_id}`, { dispute_id });
    if (job.status === 'failed') await this.jobs.retry(KIND, job.id);
  }

  async sweep(): Promise<void> {
    for (const { value } of await this.views.rows(DUE_DISPUTES)) await this.enqueue(value as string);
  }

  private async withdraw(disputeId: string): Promise<string> {
    const history = await this.store.readStream(disputeStream(disputeId));
    const { action } = await this.actions.find(disputeOf(history)!.action_id!);
    const changed = action.changes.at(-1)?.position ?? 0;
    if (stateOf(action) === 'withdrawn' || changed > history.at(-1)!.position) return 'changed';
    const context = {
      actor: internalActor(`job:${KIND}`),
      correlation_id: disputeId,
      idempotency: null,
      body_hash: hashOf(KIND, disputeId),
    };
    await this.changes.change({ action, to: 'withdrawn', reason: 'disputed', context });
    return 'withdrawn';
  }
}
