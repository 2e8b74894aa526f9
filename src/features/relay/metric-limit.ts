import { Inject, Injectable } from '@nestjs/common';
import { Gauge, Registry } from 'prom-client';
import { metricRow, relayedRow } from '../../../projections/evidence-rows.js';
import type { Position } from '../../kernel/event.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type Action, METRICS_PER_ORGANIZATION, metricOf, relayerOf } from './domain/relay.js';

/** At most this many accepted metrics are remembered; the oldest are forgotten first. */
const REMEMBERED = 100_000;

/** A metric that this process has accepted and that the read models may not contain yet. */
interface Accepted {
  /** The identity and the organization that it counts for. */
  counted: string;
  /** Position of the action; Infinity until it is written. */
  at: Position;
}

/**
 * Limits the metrics of an identity, for each organization that relays about it, by the counts in the read models. What
 * this process has accepted since is added to them; what other processes have accepted is not known until it is applied.
 * While the read models are away or are being built, only what this process has accepted counts.
 */
@Injectable()
export class MetricLimit {
  private readonly accepted = new Map<string, Accepted>();
  /** By `Accepted.counted`: the number of accepted metrics. */
  private readonly numbers = new Map<string, number>();
  private readonly most: Gauge;
  private highest = 0;

  constructor(
    private readonly views: Views,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    registry: Registry,
  ) {
    this.most = new Gauge({
      name: 'credence_identity_metrics_most',
      help: `Most metrics of one identity by one organization that a relay to this process met (limit ${METRICS_PER_ORGANIZATION})`,
      aggregator: 'max',
      registers: [registry],
    });
  }

  /**
   * Records an action, unless its metric is one too many.
   * @param owner the organization that owns the platform
   * @param stream that of the action: if it exists, this is a retry
   * @throws Problem too_many_metrics
   */
  async within<T extends { position: Position }>(
    action: Action,
    owner: string | null,
    stream: string,
    record: () => Promise<T>,
  ): Promise<T> {
    const { tris_id } = action;
    const metric = metricOf(action);
    const relayer = relayerOf(action.platform_id, owner);
    const read = await this.views.readIfServed([
      { get: metricRow(tris_id, metric) },
      { get: relayedRow(tris_id, relayer) },
    ]);
    this.forgetUntil(read?.position ?? 0);
    if (read?.results[0] !== undefined) return record();
    const counted = `${tris_id} ${relayer}`;
    const key = `${counted} ${metric}`;
    if (this.accepted.has(key)) return record();
    const count = ((read?.results[1] as number | undefined) ?? 0) + (this.numbers.get(counted) ?? 0);
    if (count > this.highest) this.most.set((this.highest = count));
    if (count >= METRICS_PER_ORGANIZATION) {
      if ((await this.store.readStream(stream, { limit: 1 })).length > 0) return record();
      throw tooMany(action, metric, relayer, count);
    }
    const accepted: Accepted = { counted, at: Infinity };
    this.accepted.set(key, accepted);
    this.numbers.set(counted, (this.numbers.get(counted) ?? 0) + 1);
    try {
      const recorded = await record();
      accepted.at = recorded.position;
      return recorded;
    } catch (error) {
      if (this.accepted.get(key) === accepted) this.forget(key, accepted);
      throw error;
    }
  }

  /** Forgets the metrics that the read models contain, and the oldest if there are too many. */
  private forgetUntil(position: Position): void {
    for (const [key, accepted] of this.accepted) {
      if (accepted.at > position && this.accepted.size <= REMEMBERED) return;
      this.forget(key, accepted);
    }
  }

  private forget(key: string, { counted }: Accepted): void {
    this.accepted.delete(key);
    const left = this.numbers.get(counted)! - 1;
    if (left === 0) this.numbers.delete(counted);
    else this.numbers.set(counted, left);
  }
}

function tooMany({ tris_id }: Action, metric: string, relayer: string, count: number): Problem {
  const message =
    `${relayer} has relayed ${count} metrics of ${tris_id} first, and the limit is ${METRICS_PER_ORGANIZATION}: ` +
    `${metric} would be another one`;
  return new Problem('too_many_metrics', `${message}. Actions of metrics that are recorded are still accepted.`, {
    errors: [{ pointer: '/action_type', code: 'too_many_metrics', message }],
    members: { metrics: count, limit: METRICS_PER_ORGANIZATION },
  });
}
