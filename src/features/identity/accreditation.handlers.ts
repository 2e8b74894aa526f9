import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { ACCREDITATIONS } from '../../../projections/accreditations.js';
import type { CommandContext, Recorded } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { Views } from '../../read-side/views.js';
import { type AccreditedIssuerDto, type AccreditedIssuersDto, ISSUER } from './accreditation.dto.js';
import {
  type Accreditation,
  type AccreditationChange,
  accreditationOf,
  accreditationStream,
  decideAccreditation,
  statusesOf,
} from './domain/accreditation.js';

/** Accredits an issuer for some statuses, or withdraws the accreditation. */
export class SetAccreditation extends CommandWith<
  { issuer: string; change: AccreditationChange; context: CommandContext },
  Recorded<AccreditedIssuerDto>
> {}

@CommandHandler(SetAccreditation)
export class SetAccreditationHandler implements ICommandHandler<SetAccreditation> {
  constructor(private readonly writer: Writer) {}

  /** @throws Problem idempotency_key_reused, write_conflict */
  async execute({ input: { issuer, change, context } }: SetAccreditation): Promise<Recorded<AccreditedIssuerDto>> {
    const stream = accreditationStream(issuer);
    const { history: now, position } = await this.writer.execute(stream, context, (history) =>
      decideAccreditation(accreditationOf(history), issuer, change),
    );
    return { body: { issuer, statuses: statusesOf(accreditationOf(now)) }, position };
  }
}

/** Accredited issuers by name. */
export class ListAccreditedIssuers extends QueryWith<
  { limit: number; cursor: string | undefined },
  AccreditedIssuersDto
> {}

@QueryHandler(ListAccreditedIssuers)
export class ListAccreditedIssuersHandler implements IQueryHandler<ListAccreditedIssuers> {
  constructor(private readonly views: Views) {}

  async execute({ input: { limit, cursor } }: ListAccreditedIssuers): Promise<AccreditedIssuersDto> {
    const { page, next_cursor } = await this.views.page<Accreditation>(ACCREDITATIONS, { cursor, limit }, ISSUER);
    return { issuers: page.map((row) => ({ issuer: row.issuer, statuses: statusesOf(row) })), next_cursor };
  }
}
