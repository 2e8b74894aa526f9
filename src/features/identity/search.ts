import { Injectable } from '@nestjs/common';
import { type Owner, ownerRow } from '../../../projections/evidence-rows.js';
import { SEARCH, textsOf } from '../../../projections/identities.js';
import { unknownCursor } from '../../kernel/cursor.js';
import { Views } from '../../read-side/views.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import type { FindIdentitiesQuery, FoundIdentityDto, IdentitiesDto } from './identity.dto.js';

/** Finds identities by the beginning of one of their `textsOf`, and first the owner of the platform with that id. */
@Injectable()
export class IdentitySearch {
  constructor(private readonly views: Views) {}

  /** @throws Problem unknown_cursor for a cursor of another prefix */
  async find({ prefix, limit, cursor }: FindIdentitiesQuery): Promise<IdentitiesDto> {
    const begins = prefix.toLowerCase();
    if (cursor !== undefined && !cursor.startsWith(begins)) throw unknownCursor();
    // Those that repeat an identity are passed over.
    const most = Math.min(1_000, 3 * limit);
    const { results } = await this.views.read([
      { range: { ...SEARCH, after: cursor ?? (begins || undefined), limit: most } },
      { get: ownerRow(prefix) },
    ]);
    const rows = results[0] as RangeRow[];
    const owner = cursor === undefined ? (results[1] as Owner | undefined) : undefined;
    const identities: FoundIdentityDto[] = owner ? [{ tris_id: owner.org, platform_id: prefix }] : [];
    let last = begins;
    for (const { sort, value } of rows) {
      if (!sort.startsWith(begins)) return { identities, next_cursor: null };
      const tris_id = value as string;
      const found = textsOf(tris_id).filter((text) => text.startsWith(begins));
      if (sort !== `${found.sort()[0]} ${tris_id}`) continue;
      if (identities.length === limit) return { identities, next_cursor: last };
      identities.push({ tris_id, platform_id: null });
      last = sort;
    }
    return { identities, next_cursor: rows.length < most ? null : rows.at(-1)!.sort };
  }
}
