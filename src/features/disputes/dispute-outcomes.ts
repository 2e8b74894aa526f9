import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { DUE_DISPUTES, type DueDispute, disputesOf } from '../../../projections/disputes.js';
import { jobContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Config } from '../../kernel/config.js';
import { hashOf } from '../../kernel/hash.js';
import { Sweeper } from '../../kernel/sweeper.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JobKinds } from '../jobs/job-kinds.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import { DISPUTES_ACTOR, decideLapse, disputeOf, disputeStream, dueState } from './domain/dispute.js';
import { storedDisputes } from './stored-disputes.js';

const KIND = 'dispute_withdrawal';
const RESULT = {
  type: 'string' as const,
  description:
    'What became of the disputed action: `withdrawn`; `counted`, if it was withdrawn by a lapse and is reinstated; or ' +
    '`changed`, if it was so already, or was changed since.',
};
const DAY_MS = 86_400_000;
/** Open disputes that are read at a time. */
const PAGE = 100;

/**
 * Withdraws the actions of disputes that are upheld or lapse, and reinstates those of disputes that are rejected after a
 * lapse, in one job for each. A job that runs twice changes an action once. The sweep finds disputes whose action still
 * counts after a crash between an answer and its job, or a lost queue.
 */
@Injectable()
export class DisputeOutcomes extends Sweeper implements OnModuleInit {
  constructor(
    private readonly views: Views,
    private readonly actions: RecordedActions,
    private readonly kinds: JobKinds,
    private readonly writer: Writer,
    @Inject(Config) protected readonly config: Config,
    @Inject(CLOCK) private readonly clock: Clock,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {
    super();
  }

  onModuleInit(): void {
    this.kinds.add(
      { kind: KIND, prefix: 'dsw', scope: 'ops', result: RESULT },
      ({ input }) => this.settle(input['dispute_id'] as string),
      { attempts: 10 },
    );
  }

  /** Idempotent by the dispute and its event. */
  enqueue({ dispute_id, position }: DueDispute): Promise<void> {
    return this.kinds.startUntilDone(KIND, `dsw_${dispute_id}_${position}`, { dispute_id });
  }

  async sweep(): Promise<void> {
    for (const { value } of await this.views.rows(DUE_DISPUTES)) await this.enqueue(value as DueDispute);
    if (this.config.disputeDays > 0) await this.lapse(this.clock() - this.config.disputeDays * DAY_MS);
  }

  /** Lets the disputes lapse that were opened before a time, ms. They are listed in the order in which they were opened. */
  private async lapse(opened: number): Promise<void> {
    for await (const rows of this.views.parts({ ...disputesOf(null, true), limit: PAGE })) {
      const ids = rows.map(({ value }) => value as string);
      const disputes = await storedDisputes(this.views, ids, await this.views.applied());
      const due = disputes.filter((dispute) => decideLapse(dispute, opened).length > 0);
      // What fails is tried again by the next sweep, and holds up no other.
      await Promise.allSettled(due.map(({ dispute_id }) => this.lapseOne(dispute_id, opened)));
      if (disputes.some(({ opened_at }) => opened_at > opened)) return;
    }
  }

  private async lapseOne(dispute_id: string, opened: number): Promise<void> {
    const { position } = await this.writer.update(disputeStream(dispute_id), contextOf(dispute_id), (history) =>
      decideLapse(disputeOf(history)!, opened),
    );
    await this.enqueue({ dispute_id, position });
  }

  /** Brings the action into the state that follows from the dispute; again, if that was answered meanwhile. */
  private async settle(disputeId: string): Promise<string> {
    for (let result = 'changed'; ;) {
      const history = await this.store.readStream(disputeStream(disputeId));
      const dispute = disputeOf(history)!;
      const { action } = await this.actions.find(dispute.action_id!);
      const to = dueState(dispute, history.at(-1)!.position, action);
      if (to === null) return result;
      await this.actions.change({ action, to, reason: 'disputed', context: contextOf(disputeId) });
      result = to;
    }
  }
}

const contextOf = (disputeId: string) => jobContext(DISPUTES_ACTOR, disputeId, hashOf(KIND, disputeId));
