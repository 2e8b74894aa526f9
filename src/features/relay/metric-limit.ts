import { Inject, Injectable } from '@nestjs/common';
import { Gauge, Registry } from 'prom-client';
import { metricRow, relayedRow } from '../../../projections/evidence-rows.js';
import { BoundedMap } from '../../kernel/bounded-map.js';
import { Problem } from '../../kernel/problems.js';
import { SharedLookUps } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { type Action, METRICS_PER_ORGANIZATION, metricOf, relayerOf } from './domain/relay.js';

/** At most this many metrics of identities, and as many numbers of metrics, are remembered; the oldest are forgotten first. */
const REMEMBERED = 100_000;

/** A metric of an identity that was not recorded when it was looked up. */
interface NewMetric {
  key: string;
  /** The identity and the organization that it counts for. */
  counted: string;
  /** Its accepted actions that have not failed: it counts if there are any. */
  open: number;
}

/** An action to be recorded. */
interface Relay {
  action: Action;
  /** The organization that owns the platform. */
  owner: string | null;
}

/**
 * Limits the metrics of an identity, for each organization that relays about it. A metric that is not remembered is
 * looked up in the read models, with the number of metrics there. What this process has accepted since is added; what
 * other processes have accepted is not known until it is applied. While the read models are unavailable or are being
 * built, only what this process has accepted counts.
 */
@Injectable()
export class MetricLimit {
  /** By identity, organization and metric; null if the metric is recorded. */
  private readonly metrics = new BoundedMap<string, NewMetric | null>(REMEMBERED);
  /** By identity and organization: the number of metrics. */
  private readonly numbers = new BoundedMap<string, number>(REMEMBERED);
  /** Relays whose metrics are looked up at the end of this turn. */
  private readonly asked: Relay[] = [];
  private readonly lookUps = new SharedLookUps<void>();
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
      registers: [registry],
    });
  }

  /**
   * Accepts the metric of an action before the action is recorded.
   * @param stream that of the action: if it exists, this is a retry, which is not limited
   * @returns the metric if it is new; then call `recorded` or `failed` with it
   * @throws Problem too_many_metrics
   */
  async accept(relay: Relay, stream: string): Promise<NewMetric | null> {
    const { key, counted } = keysOf(relay);
    if (!this.isKnown(relay)) {
      // One look-up for all relays of this turn of the event loop (docs/benchmarks.md, parts of a request).
      this.asked.push(relay);
      await this.lookUps.of('', () => this.lookUp(this.asked.splice(0)));
    }
    const metric = this.metrics.get(key) ?? null;
    if (metric === null) return null;
    if (metric.open === 0) {
      const number = this.numbers.get(counted) ?? 0;
      if (number > this.highest) this.most.set((this.highest = number));
      if (number >= METRICS_PER_ORGANIZATION) {
        // Another organization or an import may have recorded it meanwhile.
        const { tris_id } = relay.action;
        const read = await this.views.readIfServed([{ get: metricRow(tris_id, metricOf(relay.action)) }]);
        if (read?.results[0] !== undefined) this.metrics.set(key, null);
        else if ((await this.store.readStream(stream, { limit: 1 })).length === 0) throw tooMany(relay, number);
        return null;
      }
      this.numbers.set(counted, number + 1);
    }
    metric.open++;
    return metric;
  }

  recorded({ key }: NewMetric): void {
    this.metrics.set(key, null);
  }

  failed(metric: NewMetric): void {
    metric.open--;
    const number = this.numbers.get(metric.counted);
    if (metric.open === 0 && number !== undefined) this.numbers.set(metric.counted, number - 1);
  }

  /** Whether a relay needs no look-up. The number of metrics may be forgotten before a metric. */
  private isKnown(relay: Relay): boolean {
    const { key, counted } = keysOf(relay);
    const metric = this.metrics.get(key);
    return metric === null || (metric !== undefined && (metric.open > 0 || this.numbers.has(counted)));
  }

  /** Looks up the metrics of actions that are not remembered. */
  async lookUp(relays: readonly Relay[]): Promise<void> {
    const unknown = relays.filter((relay) => !this.isKnown(relay));
    if (unknown.length === 0) return;
    const read = await this.views.readIfServed(
      unknown.flatMap(({ action, owner }) => [
        { get: metricRow(action.tris_id, metricOf(action)) },
        { get: relayedRow(action.tris_id, relayerOf(action.platform_id, owner)) },
      ]),
    );
    for (const [n, relay] of unknown.entries()) {
      const { key, counted } = keysOf(relay);
      // Another action has asked for it meanwhile, and may have been accepted.
      if (this.isKnown(relay)) continue;
      if (read?.results[2 * n] !== undefined) {
        this.metrics.set(key, null);
        continue;
      }
      const number = (read?.results[2 * n + 1] as number | undefined) ?? 0;
      if (!this.metrics.has(key)) this.metrics.set(key, { key, counted, open: 0 });
      this.numbers.set(counted, Math.max(number, this.numbers.get(counted) ?? 0));
    }
  }
}

function keysOf({ action, owner }: Relay): { key: string; counted: string } {
  const counted = `${action.tris_id} ${relayerOf(action.platform_id, owner)}`;
  return { key: `${counted} ${metricOf(action)}`, counted };
}

function tooMany({ action, owner }: Relay, count: number): Problem {
  const relayer = relayerOf(action.platform_id, owner);
  const message =
    `${relayer} has relayed ${count} metrics of ${action.tris_id} first, and the limit is ${METRICS_PER_ORGANIZATION}: ` +
    `${metricOf(action)} would be another one`;
  return new Problem('too_many_metrics', `${message}. Actions of metrics that are recorded are still accepted.`, {
    errors: [{ pointer: '/action_type', code: 'too_many_metrics', message }],
    members: { metrics: count, limit: METRICS_PER_ORGANIZATION },
  });
}
