import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { CHANGES, type IdentityRow, identityRow } from '../../../projections/identities.js';
import { QueryWith } from '../../commands/messages.js';
import { decodeCursor, encodeCursor } from '../../kernel/cursor.js';
import type { Position } from '../../kernel/event.js';
import { formatPosition, positionOf, sortByPosition } from '../../kernel/positions.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import type { Scoring } from '../../scoring/models/all.js';
import { standingOf } from '../../scoring/score.js';
import type { RangeRow } from '../../stores/ports/read-models.js';
import { type LensSelector, Lenses } from '../lenses/lenses.js';
import type { ChangesDto, LiveChangeDto } from './disc.dto.js';
import { EvidenceReader } from './evidence-reader.js';

/** What all scores of the feed depend on besides the events: log, lens and model. If it changes, the feed starts again. */
export interface FeedScope {
  g: string;
  l: string;
  m: string;
}

/** The content of a cursor of the feed. */
export interface FeedCursor extends FeedScope {
  p: Position;
}

/** An identity at its last change. */
export interface Change extends LiveChangeDto {
  at: Position;
}

/** Changes after a position, in order. */
export interface FeedPart {
  scope: FeedScope;
  changes: Change[];
  /** All changes up to here are in this part or before it. */
  last: Position;
  isEnd: boolean;
}

/** Identities read at once. */
const FEED_PAGE = 128;
/** The maximum number of identities on a page that need reads of their own. The rest are on the next page. */
const FEED_READ = 100;

export function isSameScope(a: FeedScope, b: FeedScope): boolean {
  return a.g === b.g && a.l === b.l && a.m === b.m;
}

export function isFeedCursor(state: unknown): state is FeedCursor {
  if (typeof state !== 'object' || state === null) return false;
  const { p, g, l, m } = state as FeedCursor;
  return Number.isSafeInteger(p) && p >= 0 && [g, l, m].every((part) => typeof part === 'string');
}

/** A page of the feed. */
export class GetChanges extends QueryWith<
  { limit: number; cursor: string | undefined; selector: LensSelector },
  ChangesDto
> {}

/** Identities in the order of their last change, each once, with its current score. */
@QueryHandler(GetChanges)
export class ChangeFeed implements IQueryHandler<GetChanges> {
  constructor(
    private readonly views: Views,
    private readonly lenses: Lenses,
  ) {}

  async execute({ input: { limit, cursor, selector } }: GetChanges): Promise<ChangesDto> {
    const from = cursor === undefined ? undefined : decodeCursor(cursor, isFeedCursor);
    let part = await this.after(from?.p ?? 0, limit, selector);
    const reset = from !== undefined && !isSameScope(from, part.scope);
    if (reset) part = await this.after(0, limit, selector);
    return {
      changes: part.changes.map(({ tris_id, score, total_tct, position }) => ({ tris_id, score, total_tct, position })),
      next_cursor: encodeCursor({ p: part.last, ...part.scope }),
      ...(reset && { reset }),
    };
  }

  /** The scope, and the position up to which the read models contain all changes. */
  async now(selector: LensSelector): Promise<{ scope: FeedScope; position: Position }> {
    const nothing = { range: { ...CHANGES, after: sortByPosition(Number.MAX_SAFE_INTEGER), limit: 1 } };
    const { scope, position } = await this.begin([nothing], selector);
    return { scope, position };
  }

  async after(position: Position, limit: number, selector: LensSelector): Promise<FeedPart> {
    let [read, last] = [0, position];
    const changes = new Map<string, Change>();
    const next = () => ({
      range: { ...CHANGES, after: sortByPosition(last), limit: Math.min(FEED_PAGE, limit - changes.size) },
    });
    const { scope, lens, results } = await this.begin([next()], selector);
    let rows = results[0] as RangeRow[];
    while (rows.length > 0) {
      const changed = rows.map(({ sort, value }) => ({ tris_id: value as string, at: positionOf(sort) }));
      const part = await this.standings(changed, lens);
      for (const change of part.changes) {
        // It may have changed again since it was put on this page.
        changes.delete(change.tris_id);
        changes.set(change.tris_id, change);
      }
      read += part.read;
      last = changed.at(-1)!.at;
      if (changes.size >= limit || read >= FEED_READ) break;
      await yieldIfDue();
      rows = (await this.views.read([next()])).results[0] as RangeRow[];
    }
    return { scope, changes: [...changes.values()], last, isEnd: rows.length === 0 };
  }

  /** The changes of these identities alone. */
  async of(trisIds: readonly string[], after: Position, selector: LensSelector): Promise<FeedPart> {
    const gets = trisIds.map((trisId) => ({ get: identityRow(trisId) }));
    const { scope, lens, position, results } = await this.begin(gets, selector);
    const changed = (results as (IdentityRow | undefined)[])
      .flatMap((row, i) => (row && row.changed > after ? [{ tris_id: trisIds[i]!, at: row.changed }] : []))
      .sort((a, b) => a.at - b.at);
    const changes = changed.length === 0 ? [] : (await this.standings(changed, lens)).changes;
    return { scope, changes, last: Math.max(after, position), isEnd: true };
  }

  /** Reads rows together with the lens of the selector. */
  private async begin(queries: Parameters<Views['read']>[0], selector: LensSelector) {
    const read = await this.views.read([...queries, ...this.lenses.queries(selector)]);
    const lens = await this.lenses.resolve(selector, read.manifest, read.results.slice(queries.length));
    const scope = { g: this.views.logId, l: lens.content_hash, m: lens.model.hash };
    return { scope, lens, position: read.position, results: read.results };
  }

  /**
   * The present standing of each identity in a part of the feed, unless it has changed again: it then comes later in the
   * feed. `read`: how many needed reads of their own.
   * @param changed at least one, in the order of the positions `at`
   */
  private async standings(changed: readonly Pick<Change, 'tris_id' | 'at'>[], lens: Scoring) {
    const gets = changed.map(({ tris_id }) => ({ get: identityRow(tris_id) }));
    const { results } = await this.views.readSince(changed.at(-1)!.at, gets);
    const changes: Change[] = [];
    let read = 0;
    for (const [i, { tris_id, at }] of changed.entries()) {
      const row = results[i] as IdentityRow;
      if (row.changed !== at) continue;
      const reader = new EvidenceReader(this.views, tris_id, row, at);
      let ledger = reader.knownLedger(lens);
      if (!ledger) {
        read++;
        ledger = await reader.ledger(lens);
      }
      const { score, score_rating, total_tct } = standingOf(ledger, row.bad_status?.level ?? null);
      changes.push({ tris_id, score, score_rating, total_tct, position: formatPosition(this.views.logId, at), at });
      await yieldIfDue();
    }
    return { changes, read };
  }
}
