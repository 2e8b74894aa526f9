import type { IdentityEvent } from '../../../projections/identity-events.js';
import { hashOf } from '../../kernel/hash.js';
import { decodeCursor, encodeCursor, unknownCursor } from '../../kernel/cursor.js';
import { formatPosition } from '../../kernel/positions.js';
import { type Lens, netOf, tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/metrics.js';
import { CRITICALITIES } from '../../scoring/model.js';
import { type Ledger, standingOf } from '../../scoring/score.js';
import type { Coordinates } from './coordinates.js';
import type { HistoryEntryDto } from './disc.dto.js';

/** An identity's standing while its events are applied one by one, in log order. */
export class RunningStanding {
  constructor(
    private readonly lens: Lens,
    readonly ledger: Ledger = { earned: 0, flagged: 0 },
    public badLevel: number | null = null,
  ) {}

  /** Applies an event. @returns the change of net TCT */
  apply(event: IdentityEvent): number {
    if (event.type === 'BadStatusSet') this.badLevel = event.data.level;
    if (event.type === 'BadStatusCleared') this.badLevel = null;
    if (event.type !== 'ActionRelayed') return 0;
    const { metric } = event.data;
    const criticality = CRITICALITIES.indexOf(event.data.criticality);
    this.ledger[isFlags(metric) ? 'flagged' : 'earned'] += tctOf(this.lens, metric, criticality);
    return netOf(this.lens, metric, criticality);
  }

  get standing() {
    return standingOf(this.ledger, this.badLevel);
  }

  /** The cursor at the end of a page: contains what the next page needs to continue without the earlier events. */
  cursorAt(position: number, trisId: string, coordinates: Coordinates): string {
    const { earned, flagged } = this.ledger;
    return encodeCursor({
      p: position,
      e: earned,
      f: flagged,
      b: this.badLevel,
      t: tagOf(trisId, this.lens, coordinates),
    });
  }

  /** @throws Problem validation_failed for a malformed cursor, or one of another identity, lens or time */
  static resume(
    cursor: string | undefined,
    trisId: string,
    lens: Lens,
    coordinates: Coordinates,
  ): { running: RunningStanding; after: number } {
    if (cursor === undefined) return { running: new RunningStanding(lens), after: 0 };
    const { p, e, f, b, t } = decodeCursor(cursor, isCursor);
    if (t !== tagOf(trisId, lens, coordinates)) throw unknownCursor();
    return { running: new RunningStanding(lens, { earned: e, flagged: f }, b), after: p };
  }
}

/** An entry of a history: an event and the identity's standing after it. */
export function historyEntry(event: IdentityEvent, running: RunningStanding, logId: string): HistoryEntryDto {
  const tct_delta = running.apply(event);
  const { total_tct, score, score_rating } = running.standing;
  const action = event.type === 'ActionRelayed' ? event.data : null;
  return {
    position: formatPosition(logId, event.position),
    occurred_at: new Date(event.occurred_at).toISOString(),
    recorded_at: new Date(event.recorded_at).toISOString(),
    event_id: event.id,
    event_type: event.type,
    metric: action?.metric ?? null,
    platform_id: action?.platform_id ?? null,
    tct_delta,
    total_tct,
    score,
    score_rating,
  };
}

interface CursorState {
  p: number;
  e: number;
  f: number;
  b: number | null;
  /** Identifies what the numbers belong to, see `tagOf`. */
  t: string;
}

function isCursor(state: unknown): state is CursorState {
  if (typeof state !== 'object' || state === null) return false;
  const { p, e, f, b, t } = state as CursorState;
  const isCount = (n: unknown) => Number.isSafeInteger(n) && (n as number) >= 0;
  return isCount(p) && isCount(e) && isCount(f) && (b === null || isCount(b)) && typeof t === 'string';
}

/** Uses the requested time, not the resolved one: a history without a time continues with events relayed meanwhile. */
function tagOf(trisId: string, lens: Lens, { as_of, known_at, as_of_position }: Coordinates): string {
  const asked = [as_of, known_at, as_of_position].map((part) => String(part ?? ''));
  return hashOf(trisId, lens.content_hash, ...asked).slice(0, 12);
}
