import type { IdentityState } from '../../../projections/identities.js';
import { type IdentityEvent, isOfAction, signOf } from '../../../projections/identity-events.js';
import { hashOf } from '../../kernel/hash.js';
import { decodeCursor } from '../../kernel/cursor.js';
import { formatPosition } from '../../kernel/positions.js';
import { Days, dayOf } from '../../scoring/evidence.js';
import { tctOf } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/names.js';
import { CRITICALITIES, MODEL } from '../../scoring/model.js';
import type { Scoring } from '../../scoring/models/all.js';
import { RunningLedger, standingOf } from '../../scoring/score.js';
import type { BadStatus } from '../identity/domain/identity.js';
import type { Coordinates } from './coordinates.js';
import type { HistoryEntryDto } from './disc.dto.js';
import { badStatusOf } from './score.js';

/** An identity's standing while its events are applied one by one, in log order. */
export class RunningStanding {
  readonly ledger: RunningLedger;
  badStatus: BadStatus | null = null;

  constructor(private readonly lens: Scoring) {
    this.ledger = new RunningLedger(lens.model.earnedPerDay(lens));
  }

  /** The standing of an identity in this state. */
  static of({ evidence, bad_status }: Pick<IdentityState, 'evidence' | 'bad_status'>, lens: Scoring): RunningStanding {
    const running = new RunningStanding(lens);
    running.badStatus = bad_status;
    for (const metric in evidence) {
      for (const days = new Days(metric, evidence[metric]!, lens); !days.done; days.next()) {
        if (isFlags(metric)) running.ledger.flagged += days.tct;
        else running.ledger.earn(days.day, days.tct);
      }
    }
    return running;
  }

  /** Applies an event. @returns the change of net TCT */
  apply(event: IdentityEvent): number {
    if (event.type === 'BadStatusSet') {
      const { level, reason_code } = event.data;
      this.badStatus = { level, reason_code, since: event.recorded_at };
    }
    if (event.type === 'BadStatusCleared') this.badStatus = null;
    if (!isOfAction(event)) return 0;
    const { metric } = event.data;
    const tct = signOf(event) * tctOf(this.lens, metric, CRITICALITIES.indexOf(event.data.criticality));
    if (!isFlags(metric)) return this.ledger.earn(dayOf(event.occurred_at), tct);
    this.ledger.flagged += tct;
    return -MODEL.forfeit_factor * tct;
  }

  get standing() {
    return standingOf(this.ledger, this.badStatus?.level ?? null);
  }
}

/** An entry of a history: an event and the identity's standing after it. */
export function historyEntry(event: IdentityEvent, running: RunningStanding, logId: string): HistoryEntryDto {
  const tct_delta = running.apply(event);
  const { total_tct, score, score_rating } = running.standing;
  const action = isOfAction(event) ? event.data : null;
  return {
    position: formatPosition(logId, event.position),
    occurred_at: new Date(event.occurred_at).toISOString(),
    recorded_at: new Date(event.recorded_at).toISOString(),
    event_id: event.id,
    event_type: event.type,
    metric: action?.metric ?? null,
    platform_id: action?.platform_id ?? null,
    ...(action?.counterparty !== undefined && { counterparty: action.counterparty }),
    ...(action?.source === 'unvouched' && { source: action.source }),
    ...(action && 'action_id' in action && { action_id: action.action_id, reason: action.reason }),
    tct_delta,
    total_tct,
    score,
    score_rating,
    ...badStatusOf(running.badStatus),
  };
}

/**
 * The position in a cursor `{p, t}`: that of the entry before it.
 * @param tag what the numbers of the entries belong to, see `tagOf`
 * @throws Problem validation_failed for a malformed cursor, or one of another identity, lens or time
 */
export function positionIn(cursor: string, tag: string): number {
  const isCursor = (state: unknown): state is { p: number; t: string } => {
    const { p, t } = (state ?? {}) as { p: number; t: string };
    return Number.isSafeInteger(p) && p >= 0 && t === tag;
  };
  return decodeCursor(cursor, isCursor).p;
}

/** Uses the requested time, not the resolved one: a history without a time continues with events relayed meanwhile. */
export function tagOf(trisId: string, lens: Scoring, { as_of, known_at, as_of_position }: Coordinates): string {
  const asked = [as_of, known_at, as_of_position].map((part) => String(part ?? ''));
  return hashOf(trisId, lens.content_hash, lens.model.hash, ...asked).slice(0, 12);
}
