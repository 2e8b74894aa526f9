import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { troveList } from '../../../projections/trove.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type Actor, type CommandContext, refuseSelfStatement, type Recorded } from '../../commands/context.js';
import { type Update, Writer } from '../../commands/writer.js';
import { cursorAfter, rowAfter } from '../../kernel/cursor.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { keptText, withTexts } from '../../commands/kept-texts.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Platforms, refuseUnlessOwned } from '../organizations/platforms.js';
import { Vetting } from '../organizations/vetting.js';
import { Problem, refuseMisspelled, refusalOf } from '../../kernel/problems.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import type { Reason } from '../relay/domain/relay.events.js';
import { actionIn } from '../relay/domain/withdrawal.js';
import { CountedContent } from './counted-content.js';
import { Issuers } from './issuers.js';
import { pageOfRecords } from './records.js';
import {
  type Ruling,
  type Submission,
  TROVE_PLATFORM,
  alreadyCounted,
  approvalOf,
  decideRecord,
  decideRevoke,
  decideSubmit,
  decisionOn,
  recordIdOf,
  statementOf,
  troveRecordOf,
  troveStream,
  type TroveRecord,
  decideLift,
  isSameCase,
} from './domain/record.js';
import type { RecordDto, RecordsDto, RecordsQuery, SubmittedRecordDto } from './trove.dto.js';
import { ProofChecks } from './proof-checks.js';

type Submitted = Recorded<SubmittedRecordDto>;

/** Stores a submitted record and enqueues the verification of its proof. */
export class SubmitRecord extends CommandWith<{ submission: Submission; context: CommandContext }, Submitted> {}

@CommandHandler(SubmitRecord)
export class SubmitRecordHandler implements ICommandHandler<SubmitRecord> {
  constructor(
    private readonly writer: Writer,
    private readonly issuers: Issuers,
    private readonly verification: ProofChecks,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem validation_failed for an unknown issuer, record_conflict, record_decided, idempotency_key_reused */
  async execute({ input: { submission, context } }: SubmitRecord): Promise<Submitted> {
    const stream = troveStream(recordIdOf(submission.content_hash, submission.submitter));
    const update = (await this.writer.firstTry(context)) ?? (await this.submit(stream, submission, context));
    await this.verification.enqueue(troveRecordOf(await this.store.readStream(stream))!);
    return answerOf(update);
  }

  private async submit(stream: string, submission: Submission, context: CommandContext): Promise<Update> {
    const { title, uri, proof } = submission;
    // Checked before anything is written. A repeat gets its first answer even if the issuer has been retired since.
    const earlier = troveRecordOf(await this.store.readStream(stream));
    const news = decideSubmit(earlier, submission);
    if (proof && news.length > 0) await this.refuseUnlessFit(proof);
    await this.writer.idempotency.claim(stream, context);
    // Not for a record that exists already: its texts may have been deleted.
    const texts = earlier ? [] : uri === null ? [title] : [title, uri];
    return withTexts(this.keyValue, texts, () =>
      this.writer.update(stream, context, (history) => decideSubmit(troveRecordOf(history), submission)),
    );
  }

  private async refuseUnlessFit({ type, issuer: id, signature }: NonNullable<Submission['proof']>): Promise<void> {
    const issuer = await this.issuers.find(id);
    if (!issuer) throw refusalOf('/proof/issuer', 'unknown_issuer', `there is no issuer ${id}`);
    if (issuer.retired) throw refusalOf('/proof/issuer', 'issuer_retired', `the issuer ${id} is retired`);
    const ethereum = issuer.address !== null;
    if (type === 'eas' && !ethereum) {
      throw refusalOf(
        '/proof/type',
        'proof_kind_mismatch',
        `${id} has no Ethereum address, which EAS attestations require`,
      );
    }
    if (signature.startsWith('0x') !== ethereum) {
      const must = ethereum
        ? '65 bytes as hex after 0x: it signs as an Ethereum address'
        : '64 bytes as base64url: it signs with Ed25519';
      throw refusalOf('/proof/signature', 'proof_kind_mismatch', `a signature of ${id} is ${must}`);
    }
  }
}

export type Review =
  | { kind: 'approve'; platform_id?: string }
  | { kind: 'reject'; reason_code: string }
  | { kind: 'lift' }
  | { kind: 'revoke'; reason: Reason };

/** A reviewer's decision on a pending record, the end of an operator's rejection, or of an approval. */
export class ReviewRecord extends CommandWith<
  { recordId: string; decision: Review; context: CommandContext },
  Submitted
> {}

@CommandHandler(ReviewRecord)
export class ReviewRecordHandler implements ICommandHandler<ReviewRecord> {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
    private readonly vetting: Vetting,
    private readonly counted: CountedContent,
    private readonly verification: ProofChecks,
    private readonly actions: RecordedActions,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * @throws Problem record_not_found, forbidden, self_statement, own_submission, platform_not_owned, record_decided,
   * record_counted, write_conflict, idempotency_key_reused
   */
  async execute({ input: { recordId, decision, context } }: ReviewRecord): Promise<Submitted> {
    const stream = troveStream(recordId);
    const before = await this.store.readStream(stream);
    const record = troveRecordOf(before);
    if (!record) throw unknownRecord(recordId);
    refuseOwnSubmission(context.actor, record, before[0]!.metadata.actor);
    refuseSelfStatement(context.actor.organization, record.tris_id, record.operator_tris);
    if (decision.kind === 'lift') return this.lift(recordId, context);
    if (decision.kind === 'revoke') return this.revoke(record, before, decision.reason, context);
    const first = await this.writer.firstTry(context);
    if (first) return answerOf(first);
    const approve = decision.kind === 'approve';
    const platform_id = (approve ? decision.platform_id : undefined) ?? TROVE_PLATFORM;
    const owner = await this.platforms.ownerOf(platform_id);
    const { name, organization } = context.actor;
    if (approve) refuseUnlessOwned(platform_id, organization, owner);
    const source = await this.vetting.sourceFor(organization);
    const decide = (history: readonly RecordedEvent[]) => {
      const outcome = approve
        ? { approved: true as const, platform_id, source }
        : { approved: false as const, reason_code: decision.reason_code };
      return decideRecord(history, { outcome, method: 'review', decided_by: name, reviewer: organization }, owner);
    };
    const counts = approve && decide(before).length > 0;
    if (counts && (await this.counted.isTaken(record, platform_id, owner))) throw alreadyCounted(platform_id);
    await this.writer.idempotency.claim(stream, context, decide);
    if (counts && !(await this.counted.take(record, platform_id, owner, context))) throw alreadyCounted(platform_id);
    const update = await this.writer.update(stream, context, (history) => {
      const facts = decide(history);
      if (counts && facts.length > 0 && !isSameCase(troveRecordOf(history)!, record)) {
        throw new Problem('write_conflict', 'A rejection was lifted or a proof submitted meanwhile; try again.');
      }
      return facts;
    });
    return answerOf(update);
  }

  /** @throws Problem forbidden, record_decided, idempotency_key_reused */
  private async lift(recordId: string, context: CommandContext): Promise<Submitted> {
    const { name, organization } = context.actor;
    if (organization !== null) {
      throw new Problem('forbidden', 'Only a key of the operators lifts a rejection, which is an operator’s.');
    }
    const stream = troveStream(recordId);
    const update = await this.writer.execute(stream, context, (history) => decideLift(history, name));
    await this.verification.enqueue(troveRecordOf(await this.store.readStream(stream))!);
    return answerOf(update);
  }

  /** @throws Problem record_decided, write_conflict, idempotency_key_reused */
  private async revoke(
    record: TroveRecord,
    before: readonly RecordedEvent[],
    reason: Reason,
    context: CommandContext,
  ): Promise<Submitted> {
    const { name: decided_by, organization: reviewer } = context.actor;
    const action = approvalOf(record, reviewer)?.action_id;
    const owner = action ? await this.actions.ownerThen(actionIn(before, action)!) : null;
    const decide = (history: readonly RecordedEvent[]) => {
      const now = approvalOf(troveRecordOf(history)!, reviewer)?.action_id;
      if (now && now !== action) throw new Problem('write_conflict', 'The record was approved meanwhile; try again.');
      return decideRevoke(history, reason, { decided_by, reviewer }, owner);
    };
    return answerOf(await this.writer.execute(troveStream(record.record_id), context, decide));
  }
}

/** One record, read from its own stream, so always current. */
export class GetRecord extends QueryWith<{ recordId: string }, RecordDto> {}

@QueryHandler(GetRecord)
export class GetRecordHandler implements IQueryHandler<GetRecord> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem record_not_found */
  async execute({ input: { recordId } }: GetRecord): Promise<RecordDto> {
    const record = troveRecordOf(await this.store.readStream(troveStream(recordId)));
    if (!record) throw unknownRecord(recordId);
    return recordDto(record, this.keyValue);
  }
}

export class ListRecords extends QueryWith<RecordsQuery, RecordsDto> {}

@QueryHandler(ListRecords)
export class ListRecordsHandler implements IQueryHandler<ListRecords> {
  constructor(
    private readonly views: Views,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem identity_not_found if the TRIS id is misspelled, unknown_cursor */
  async execute({ input }: ListRecords): Promise<RecordsDto> {
    const { tris_id = null, status = null, limit, cursor } = input;
    const { records, last } = await pageOfRecords(this.views, troveList(tris_id, status), rowAfter(cursor), limit);
    if (records.length === 0 && cursor === undefined) refuseMisspelled(tris_id);
    return {
      records: await mapInParts(records, (record) => recordDto(record, this.keyValue)),
      next_cursor: last && cursorAfter(last),
    };
  }
}

/** A record as a command left it. */
function answerOf({ history, position }: Update): Submitted {
  const { record_id, status } = troveRecordOf(history)!;
  return { body: { record_id, status }, position };
}

/** Nobody reviews their own record: no key of the same organization does, and no operator with the same key. */
function refuseOwnSubmission({ name, organization }: Actor, { submitter }: TroveRecord, submittedBy: string): void {
  if (submitter === null ? submittedBy !== name : submitter !== organization) return;
  throw new Problem(
    'own_submission',
    'The submitter of a record cannot review it: use a key of another organization, or another key of the operators.',
  );
}

async function recordDto(record: TroveRecord, texts: KeyValue): Promise<RecordDto> {
  const { record_id, content_hash, uri_hash, proof, rulings } = record;
  const decision = decisionOn(record);
  return {
    record_id,
    submitter: record.submitter,
    status: record.status,
    tris_id: record.tris_id,
    record_type: record.record_type,
    metric: record.metric,
    criticality: record.criticality,
    title: await keptText(texts, record.title_hash),
    content_hash,
    uri: uri_hash === null ? null : await keptText(texts, uri_hash),
    occurred_at: new Date(record.occurred_at).toISOString(),
    submitted_at: new Date(record.submitted_at).toISOString(),
    agent_id: record.agent_id,
    operator_tris: record.operator_tris,
    proof: proof && { type: proof.type, issuer: proof.issuer },
    decision: decision && rulingDto(decision),
    reviews: rulings.flatMap((ruling) =>
      ruling.reviewer === null
        ? []
        : [{ organization: ruling.reviewer, approved: ruling.approved, ...rulingDto(ruling) }],
    ),
    statement: statementOf(record),
  };
}

function rulingDto({ method, decided_by, reason_code, decided_at, action_id, platform_id }: Ruling) {
  return { method, decided_by, reason_code, decided_at: new Date(decided_at).toISOString(), action_id, platform_id };
}

const unknownRecord = (recordId: string): Problem => new Problem('record_not_found', `There is no record ${recordId}.`);
