import { Injectable } from '@nestjs/common';
import { withdrawnOf } from '../../../projections/actions.js';
import type { DomainEvent } from '../../../projections/events.js';
import type { Position } from '../../kernel/event.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { AffectedDecisions, type ReviewedDecision, differs } from '../access/affected-decisions.js';
import { countedAt } from '../relay/domain/withdrawal.js';
import { RecordedActions } from '../relay/recorded-actions.js';
import { withdrawnAction } from './affected-decisions.handlers.js';

/** Older decisions are reported only while their token is valid. */
const RECENT_MS = 90 * 86_400_000;
/** Withdrawn actions of one identity that are left out together. */
const MOST_ACTIONS = 1_000;
/** Decisions about one identity that are derived again, the latest ones: other webhooks wait meanwhile. */
const MOST_DECISIONS = 1_000;

type Withdrawal = Extract<DomainEvent, { type: 'ActionWithdrawn' }>;

/** Decisions that would differ without the withdrawn actions of an identity. */
@Injectable()
export class DifferingDecisions {
  constructor(
    private readonly views: Views,
    private readonly actions: RecordedActions,
    private readonly decisions: AffectedDecisions,
  ) {}

  /**
   * The decisions that would differ since one of some events, and would not before it.
   * @param before the position before the first of them
   * @param owners of each organization, the decisions by its policies; null: all decisions
   * @returns by owner, and by the id of the withdrawal that makes the difference
   */
  async of(events: readonly DomainEvent[], before: Position, owners: ReadonlySet<string | null>) {
    const byIdentity = new Map<string, Withdrawal[]>();
    for (const event of owners.size > 0 ? events : []) {
      if (event.type !== 'ActionWithdrawn') continue;
      const { tris_id } = event.data;
      byIdentity.set(tris_id, [...(byIdentity.get(tris_id) ?? []), event]);
    }
    const found = new Map<string | null, Map<string, ReviewedDecision[]>>();
    for (const owner of owners) {
      const decisions = new Map<string, ReviewedDecision[]>();
      for (const [trisId, withdrawals] of byIdentity) await this.find(trisId, withdrawals, before, owner, decisions);
      found.set(owner, decisions);
    }
    return found;
  }

  private async find(
    trisId: string,
    withdrawals: readonly Withdrawal[],
    before: Position,
    owner: string | null,
    found: Map<string, ReviewedDecision[]>,
  ): Promise<void> {
    const withdrawn = await this.withdrawn(trisId, withdrawals);
    const differsAt = async (jti: string, position: Position) => {
      const review = await this.decisions.review(jti, withdrawn(position));
      return review !== undefined && differs(review);
    };
    const { position, recorded_at } = withdrawals.at(-1)!;
    let reviewed = 0;
    for await (const page of this.decisions.of(trisId, withdrawn(position), owner)) {
      for (const decision of page) {
        const { jti, checked_at, expires_at } = decision;
        if (checked_at < recorded_at - RECENT_MS && 1_000 * (expires_at ?? 0) < recorded_at) continue;
        if (!differs(decision) || (await differsAt(jti, before))) continue;
        let [low, first] = [0, withdrawals.length - 1];
        while (low < first) {
          const middle = (low + first) >> 1;
          if (await differsAt(jti, withdrawals[middle]!.position)) first = middle;
          else low = middle + 1;
        }
        const { id } = withdrawals[first]!;
        found.set(id, [...(found.get(id) ?? []), decision]);
      }
      reviewed += page.length;
      if (reviewed >= MOST_DECISIONS) return;
    }
  }

  /** The actions of an identity that were withdrawn as of a position. */
  private async withdrawn(trisId: string, withdrawals: readonly Withdrawal[]) {
    const rows = await this.views.range({ ...withdrawnOf(trisId), limit: MOST_ACTIONS });
    const all = new Set([...withdrawals.map(({ data }) => data.action_id), ...rows.map(({ sort }) => sort)]);
    const actions = await mapInParts([...all], async (id) => (await this.actions.find(id)).action);
    return (position: Position) => actions.filter((action) => !countedAt(action, position)).map(withdrawnAction);
  }
}
