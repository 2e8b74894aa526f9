import { jobContext } from '../../commands/context.js';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { troveList } from '../../../projections/trove.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Config } from '../../kernel/config.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { Writer } from '../../commands/writer.js';
import { hashOf } from '../../kernel/hash.js';
import { JobKinds } from '../jobs/job-kinds.js';
import { Platforms } from '../organizations/platforms.js';
import { Sweeper } from '../../kernel/sweeper.js';
import { Views } from '../../read-side/views.js';
import { CountedContent } from './counted-content.js';
import { Issuers } from './issuers.js';
import { failureOf } from './proofs.js';
import { pageOfRecords } from './records.js';
import {
  type Decision,
  countsOn,
  decideRecord,
  isSameCase,
  isSettled,
  troveRecordOf,
  troveStream,
  type TroveRecord,
} from './domain/record.js';

const JOB_KIND = 'trove_verification';
const RESULT = {
  type: 'string' as const,
  description:
    'What became of the record: `approved`, why its proof was refused, or its status if it was decided before.',
};
const SWEEP_PAGE = 500;

/**
 * Decides records by their proofs, in one job for each proof. A job that runs twice decides once. The sweep finds pending
 * records that have no job after a crash between their append and the job, or a lost queue.
 */
@Injectable()
export class ProofChecks extends Sweeper implements OnModuleInit {
  constructor(
    private readonly writer: Writer,
    private readonly views: Views,
    private readonly issuers: Issuers,
    private readonly platforms: Platforms,
    private readonly counted: CountedContent,
    private readonly kinds: JobKinds,
    @Inject(Config) protected readonly config: Config,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {
    super();
  }

  onModuleInit(): void {
    this.kinds.add(
      { kind: JOB_KIND, prefix: 'trv', scope: 'ops', result: RESULT },
      ({ input }) => this.verify(input['record_id'] as string),
      { attempts: 10 },
    );
  }

  /** Idempotent by record and proof. Does nothing without a proof. */
  async enqueue(record: TroveRecord): Promise<void> {
    const { record_id, proof } = record;
    if (isSettled(record) || proof === null) return;
    await this.kinds.startUntilDone(JOB_KIND, jobOf(record), { record_id });
  }

  private async verify(recordId: string): Promise<string> {
    const stream = troveStream(recordId);
    const record = troveRecordOf(await this.store.readStream(stream));
    if (!record || isSettled(record) || record.proof === null) return record?.status ?? 'unknown';
    const { proof } = record;
    const issuer = await this.issuers.find(proof.issuer);
    const owner = issuer ? await this.platforms.ownerOf(issuer.platform_id) : null;
    const isOwn = owner !== null && [record.tris_id, record.operator_tris].includes(owner);
    const body_hash = hashOf(JOB_KIND, recordId, String(record.proofs));
    const context = jobContext(`job:${JOB_KIND}`, jobOf(record), body_hash);
    let refusal = !issuer
      ? 'issuer_unknown'
      : isOwn
        ? 'self_statement'
        : await failureOf(record, proof, issuer, this.clock());
    if (refusal === null && !(await this.counted.take(record, issuer!.platform_id, owner, context))) {
      refusal = 'already_counted';
    }
    let reason_code = refusal;
    const decide = (history: readonly RecordedEvent[]) => {
      const current = troveRecordOf(history)!;
      if (isSettled(current) || !isSameCase(current, record)) return [];
      // Of a conflict, the last decision counts.
      reason_code = refusal ?? (countsOn(current, issuer!.platform_id) ? 'already_counted' : null);
      const decision: Decision = {
        method: proof.type === 'eas' ? 'attestation' : 'signature',
        decided_by: proof.issuer,
        reviewer: null,
        outcome:
          reason_code === null
            ? { approved: true, platform_id: issuer!.platform_id, source: 'vouched' }
            : { approved: false, reason_code },
      };
      return decideRecord(history, decision, owner);
    };
    const { events, history } = await this.writer.update(stream, context, decide);
    return events.length > 0 ? (reason_code ?? 'approved') : troveRecordOf(history)!.status;
  }

  /** Enqueues every pending record with a proof; jobs already in the queue are not changed. */
  async sweep(): Promise<void> {
    let after: string | undefined;
    do {
      const { records, last } = await pageOfRecords(this.views, troveList(null, 'Pending'), after, SWEEP_PAGE);
      for (const record of records) await this.enqueue(record);
      after = last ?? undefined;
    } while (after !== undefined);
  }
}

/** A job for each proof, and for each time that a rejection was lifted. */
const jobOf = ({ record_id, proofs, lifted }: TroveRecord): string =>
  `trv_${record_id}_${proofs}${lifted > 0 ? `_${lifted}` : ''}`;
