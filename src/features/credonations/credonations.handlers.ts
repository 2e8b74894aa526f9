import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { type CredonationRow, credonationsOf, isChange, withdrawnMark } from '../../../projections/credonations.js';
import { identityRow } from '../../../projections/identities.js';
import { QueryWith } from '../../commands/messages.js';
import { cursorAfter, rowAfter } from '../../kernel/cursor.js';
import { unknownIdentity } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import type { ValidationsDto } from './credonations.dto.js';

/** The credonations that an identity received, in log order. */
export class ListCredonations extends QueryWith<
  { trisId: string; limit: number; cursor: string | undefined },
  { body: ValidationsDto; etagParts: (string | number)[] }
> {}

@QueryHandler(ListCredonations)
export class ListCredonationsHandler implements IQueryHandler<ListCredonations> {
  constructor(private readonly views: Views) {}

  /** @throws Problem identity_not_found */
  async execute({ input: { trisId, limit, cursor } }: ListCredonations) {
    const after = rowAfter(cursor);
    const queries = [{ get: identityRow(trisId) }, { range: { ...credonationsOf(trisId), after, limit: limit + 1 } }];
    const { results, position, generation } = await this.views.lookUp(
      () => this.views.read(queries),
      (read) => read.results[0] !== undefined,
    );
    const [identity, rows] = results as [unknown, RangeRow[]];
    if (!identity) throw unknownIdentity(trisId);
    const page = rows.slice(0, limit);
    const recorded = page.map(({ value }) => value as CredonationRow).filter((row) => !isChange(row));
    const marks = recorded.map((row) => ({ get: withdrawnMark(trisId, row) }));
    const withdrawn = marks.length > 0 ? (await this.views.readSince(position, marks)).results : [];
    const validations = recorded
      .filter((_, i) => withdrawn[i] === undefined)
      .map(([from, amount, occurred_at, category]) => {
        return { from, amount, timestamp: new Date(occurred_at).toISOString(), category };
      });
    const next_cursor = rows.length > limit ? cursorAfter(page.at(-1)!.sort) : null;
    return { body: { tris_id: trisId, validations, next_cursor }, etagParts: [position, generation] };
  }
}
