import { Inject } from '@nestjs/common';
import { Command, CommandHandler, type ICommandHandler, type IQueryHandler, Query, QueryHandler } from '@nestjs/cqrs';
import { troveList } from '../../../projections/trove.js';
import type { Position } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { cursorAfter, rowAfter } from '../../kernel/cursor.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { keepText, keptText } from '../../commands/kept-texts.js';
import { Platforms, refuseUnlessOwned } from '../organizations/platforms.js';
import { refuseSelfStatement } from '../../commands/self-statement.js';
import { Problem, refusal } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { Issuers } from './issuers.js';
import { pageOfRecords } from './records.js';
import {
  type Submission,
  TROVE_PLATFORM,
  decideRecord,
  decideSubmit,
  statementOf,
  troveRecordOf,
  troveStream,
  type TroveRecord,
  type TroveStatus,
} from './domain/record.js';
import type { RecordDto, RecordsDto, SubmittedRecordDto } from './trove.dto.js';
import { ProofChecks } from './proof-checks.js';

interface Submitted {
  body: SubmittedRecordDto;
  position: Position;
}

/** Stores a submitted record and enqueues the verification of its proof. */
export class SubmitRecord extends Command<Submitted> {
  constructor(
    readonly submission: Submission,
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(SubmitRecord)
export class SubmitRecordHandler implements ICommandHandler<SubmitRecord> {
  constructor(
    private readonly writer: Writer,
    private readonly issuers: Issuers,
    private readonly verification: ProofChecks,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem validation_failed for an unknown issuer, record_conflict, idempotency_key_reused */
  async execute({ submission, context }: SubmitRecord): Promise<Submitted> {
    const { content_hash, title, uri, proof } = submission;
    const stream = troveStream(content_hash);
    // Checked before anything is written. A repeat gets its first answer even if the issuer has been retired since.
    const news = decideSubmit(troveRecordOf(await this.store.readStream(stream)), submission);
    if (proof && news.length > 0) await this.refuseUnlessFit(proof);
    await this.writer.claim(stream, context);
    await keepText(this.keyValue, title);
    if (uri !== null) await keepText(this.keyValue, uri);
    const { position } = await this.writer.update(stream, context, (history) =>
      decideSubmit(troveRecordOf(history), submission),
    );
    const record = troveRecordOf(await this.store.readStream(stream))!;
    await this.verification.enqueue(record);
    return { body: { record_id: content_hash, status: record.status }, position };
  }

  private async refuseUnlessFit({ type, issuer: id, signature }: NonNullable<Submission['proof']>): Promise<void> {
    const issuer = await this.issuers.find(id);
    const wrong = (pointer: string, code: string, message: string) => refusal([{ pointer, code, message }]);
    if (!issuer) throw wrong('/proof/issuer', 'unknown_issuer', `there is no issuer ${id}`);
    if (issuer.retired) throw wrong('/proof/issuer', 'issuer_retired', `the issuer ${id} is retired`);
    const ethereum = issuer.address !== null;
    if (type === 'eas' && !ethereum) {
      throw wrong(
        '/proof/type',
        'proof_kind_mismatch',
        `${id} has no Ethereum address, which EAS attestations require`,
      );
    }
    if (signature.startsWith('0x') !== ethereum) {
      const must = ethereum
        ? '65 bytes as hex after 0x: it signs as an Ethereum address'
        : '64 bytes as base64url: it signs with Ed25519';
      throw wrong('/proof/signature', 'proof_kind_mismatch', `a signature of ${id} is ${must}`);
    }
  }
}

/** A reviewer's decision on a pending record. */
export class ReviewRecord extends Command<Submitted> {
  constructor(
    readonly recordId: string,
    readonly decision: { approve: true; platform_id: string | null } | { approve: false; reason_code: string },
    readonly context: CommandContext,
  ) {
    super();
  }
}

@CommandHandler(ReviewRecord)
export class ReviewRecordHandler implements ICommandHandler<ReviewRecord> {
  constructor(
    private readonly writer: Writer,
    private readonly platforms: Platforms,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** @throws Problem record_not_found, self_statement, platform_not_owned, record_decided, idempotency_key_reused */
  async execute({ recordId, decision, context }: ReviewRecord): Promise<Submitted> {
    const stream = troveStream(recordId);
    const record = troveRecordOf(await this.store.readStream(stream));
    if (!record) throw unknownRecord(recordId);
    refuseSelfStatement(context.actor.organization, record.tris_id, record.operator_tris);
    const platform_id = (decision.approve ? decision.platform_id : null) ?? TROVE_PLATFORM;
    const owner = await this.platforms.ownerOf(platform_id);
    // Any reviewer may approve for the trove's own platform, unless an organization owns it.
    if (platform_id !== TROVE_PLATFORM || owner !== null)
      refuseUnlessOwned(platform_id, context.actor.organization, owner);
    const { position } = await this.writer.execute(stream, context, (history) => {
      const outcome = decision.approve
        ? { approved: true as const, platform_id }
        : { approved: false as const, reason_code: decision.reason_code };
      return decideRecord(history, { outcome, method: 'review', decided_by: context.actor.name }, owner);
    });
    return { body: { record_id: recordId, status: decision.approve ? 'Approved' : 'Rejected' }, position };
  }
}

/** One record, read from its own stream, so always current. */
export class GetRecord extends Query<RecordDto> {
  constructor(readonly recordId: string) {
    super();
  }
}

@QueryHandler(GetRecord)
export class GetRecordHandler implements IQueryHandler<GetRecord> {
  constructor(
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  /** @throws Problem record_not_found */
  async execute({ recordId }: GetRecord): Promise<RecordDto> {
    const record = troveRecordOf(await this.store.readStream(troveStream(recordId)));
    if (!record) throw unknownRecord(recordId);
    return recordDto(record, this.keyValue);
  }
}

/** Records in order of submission. */
export class ListRecords extends Query<RecordsDto> {
  constructor(
    readonly trisId: string | null,
    readonly status: TroveStatus | null,
    readonly limit: number,
    readonly cursor: string | undefined,
  ) {
    super();
  }
}

@QueryHandler(ListRecords)
export class ListRecordsHandler implements IQueryHandler<ListRecords> {
  constructor(
    private readonly views: Views,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  async execute({ trisId, status, limit, cursor }: ListRecords): Promise<RecordsDto> {
    const { records, last } = await pageOfRecords(this.views, troveList(trisId, status), rowAfter(cursor), limit);
    return {
      records: await Promise.all(records.map((record) => recordDto(record, this.keyValue))),
      next_cursor: last === undefined ? null : cursorAfter(last),
    };
  }
}

async function recordDto(record: TroveRecord, texts: KeyValue): Promise<RecordDto> {
  const { content_hash, uri_hash, proof, decision } = record;
  return {
    record_id: content_hash,
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
    decision: decision && { ...decision, decided_at: new Date(decision.decided_at).toISOString() },
    statement: statementOf(record),
  };
}

function unknownRecord(recordId: string): Problem {
  return new Problem('record_not_found', `There is no record ${recordId}.`);
}
