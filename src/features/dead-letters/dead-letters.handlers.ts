import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import {
  ACKNOWLEDGED_DEAD_LETTERS,
  type DeadLetterRow,
  OPEN_DEAD_LETTERS,
  deadLetterRow,
} from '../../../projections/dead-letters.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext, Recorded } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { type Decoded, fact } from '../../kernel/event-definition.js';
import { deadLetterAcknowledged } from './domain/dead-letters.events.js';
import { POSITION_SORT, formatPosition } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import type { DeadLetterDto, DeadLettersDto, DeadLettersQuery } from './dead-letters.dto.js';

/** Acknowledges an undecodable event. Only the first acknowledgement is stored; later ones return it. */
export class AcknowledgeDeadLetter extends CommandWith<
  { event_id: string; reason_code: string; context: CommandContext },
  Recorded<DeadLetterDto>
> {}

@CommandHandler(AcknowledgeDeadLetter)
export class AcknowledgeDeadLetterHandler implements ICommandHandler<AcknowledgeDeadLetter> {
  constructor(
    private readonly writer: Writer,
    private readonly views: Views,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /** @throws Problem not_found, idempotency_key_reused, projection_rebuilding */
  async execute({ input: { event_id, reason_code, context } }: AcknowledgeDeadLetter) {
    const letter = await this.views.lookUp(
      async () => (await this.views.read([{ get: deadLetterRow(event_id) }])).results[0] as DeadLetterRow | undefined,
      (found) => found !== undefined,
    );
    if (!letter) {
      const detail = `There is no dead letter ${event_id}: the event is unknown, or it can be decoded.`;
      throw new Problem('not_found', detail);
    }
    // One stream for each dead letter, so that of two concurrent acknowledgements only one is stored.
    const stream = `dead-letter-${event_id}`;
    await this.writer.idempotency.claim(stream, context);
    const { event_type, tris_id } = letter;
    const acknowledgement = { event_id, event_type, tris_id, reason_code, acknowledged_by: context.actor.name };
    const { position } = await this.writer.create(stream, [fact(deadLetterAcknowledged, acknowledgement)], context);
    // After a repeat the stream contains the first acknowledgement, so it is read from there.
    const [stored] = await this.store.readStream(stream, { limit: 1 });
    const { data, metadata } = stored!;
    const { acknowledged_by: by, ...first } = data as Decoded<typeof deadLetterAcknowledged>['data'];
    const acknowledged = { at: Date.parse(metadata.recorded_at), by, reason_code: first.reason_code };
    return { body: letterDto({ ...letter, acknowledged }, this.views.logId), position };
  }
}

/** Open or acknowledged dead letters in log order. */
export class ListDeadLetters extends QueryWith<DeadLettersQuery, DeadLettersDto> {}

@QueryHandler(ListDeadLetters)
export class ListDeadLettersHandler implements IQueryHandler<ListDeadLetters> {
  constructor(private readonly views: Views) {}

  async execute({ input: { state, limit, cursor } }: ListDeadLetters): Promise<DeadLettersDto> {
    const list = state === 'open' ? OPEN_DEAD_LETTERS : ACKNOWLEDGED_DEAD_LETTERS;
    const { page, next_cursor } = await this.views.page<DeadLetterRow>(list, { cursor, limit }, POSITION_SORT);
    return { dead_letters: page.map((row) => letterDto(row, this.views.logId)), next_cursor };
  }
}

function letterDto(
  { stream: _stream, position, acknowledged, ...letter }: DeadLetterRow,
  logId: string,
): DeadLetterDto {
  return {
    ...letter,
    position: formatPosition(logId, position),
    acknowledged: acknowledged && { ...acknowledged, at: new Date(acknowledged.at).toISOString() },
  };
}
