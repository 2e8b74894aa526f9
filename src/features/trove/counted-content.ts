import { Inject, Injectable } from '@nestjs/common';
import type { CommandContext } from '../../commands/context.js';
import { Writer } from '../../commands/writer.js';
import type { NewEvent } from '../../kernel/event.js';
import { fact } from '../../kernel/event-definition.js';
import { hashOf } from '../../kernel/hash.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type TroveRecord, countedStream, countsOn, isRuledOut, troveRecordOf, troveStream } from './domain/record.js';
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

  /**
   * Whether another record of the content counts already, or may still be approved.
   * @param owner TRIS of the organization that owns the platform, or null
   */
  async isTaken(record: TroveRecord, platformId: string, owner: string | null): Promise<boolean> {
    const holder = holderOf(await this.store.readStream(countedStream(record, platformId)));
    if (holder === record.record_id) return false;
    if (holder !== undefined) {
      const held = troveRecordOf(await this.store.readStream(troveStream(holder)));
      // It was rejected after it had taken the place, or the process ended in between.
      return !held || !isRuledOut(held, platformId, owner);
    }
    if (record.record_id === record.content_hash) return false;
    // Approved by a build that did not record what counts.
    const first = troveRecordOf(await this.store.readStream(troveStream(record.content_hash)));
    return first?.tris_id === record.tris_id && countsOn(first, platformId);
  }

  /**
   * Lets the record count, unless another one does. What is then appended to the record must be decided on the record as
   * it was given: see `isSameCase`.
   * @returns whether it counts
   */
  async take(
    record: TroveRecord,
    platform_id: string,
    owner: string | null,
    context: CommandContext,
  ): Promise<boolean> {
    const stream = countedStream(record, platform_id);
    const { content_hash, tris_id, record_id } = record;
    const before = holderOf(await this.store.readStream(stream));
    if (await this.isTaken(record, platform_id, owner)) return false;
    const counted = fact(troveContentCounted, { content_hash, tris_id, platform_id, record_id });
    // The record is part of the event's id.
    const body_hash = hashOf('trove_counted', record_id, platform_id);
    const { history } = await this.writer.update(stream, { ...context, idempotency: null, body_hash }, (now) =>
      // Another record may have been first.
      holderOf(now) === before && before !== record_id ? [counted] : [],
    );
    return holderOf(history) === record_id;
  }
}

/** The id of the record that has the place. */
const holderOf = (counted: readonly NewEvent[]): string | undefined =>
  counted.at(-1)?.data['record_id'] as string | undefined;
