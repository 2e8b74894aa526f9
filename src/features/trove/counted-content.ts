import { Inject, Injectable } from '@nestjs/common';
import type { CommandContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import { fact } from '../../kernel/fact.js';
import { hashOf } from '../../kernel/hash.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type TroveRecord, countedStream, troveRecordOf, troveStream } from './domain/record.js';
import { troveContentCounted } from './domain/trove.events.js';

/**
 * A content counts once for an identity on a platform. Several may submit it, also with the same proof, which does not
 * name its submitter.
 */
@Injectable()
export class CountedContent {
  constructor(
    private readonly writer: Writer,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** Whether another record of the content counts already. */
  async isTaken(record: TroveRecord, platformId: string): Promise<boolean> {
    const [counted] = await this.store.readStream(countedStream(record, platformId), { limit: 1 });
    if (counted) return counted.data['record_id'] !== record.record_id;
    if (record.record_id === record.content_hash) return false;
    // Approved by a build that did not record what counts.
    const first = troveRecordOf(await this.store.readStream(troveStream(record.content_hash)));
    return (
      first?.tris_id === record.tris_id &&
      first.rulings.some(({ approved, platform_id }) => approved && platform_id === platformId)
    );
  }

  /** Lets the record count, unless another one does. @returns whether it counts */
  async take(record: TroveRecord, platform_id: string, context: CommandContext): Promise<boolean> {
    if (await this.isTaken(record, platform_id)) return false;
    const { content_hash, tris_id, record_id } = record;
    const counted = fact(troveContentCounted, { content_hash, tris_id, platform_id, record_id });
    // The record is part of the event's id.
    const body_hash = hashOf('trove_counted', record_id, platform_id);
    const stream = countedStream(record, platform_id);
    const { events } = await this.writer.create(stream, [counted], { ...context, idempotency: null, body_hash });
    return events[0]!.data['record_id'] === record_id;
  }
}
