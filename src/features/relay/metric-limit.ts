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
  key: string;
  /** The identity and the organization that it counts for. */
  counted: string;
  /** Position of its first action; Infinity until one is written. */
  at: Position;
  /** Its actions that are being recorded: it is forgotten once all of them have failed. */
  open: number;
}

interface Counted {
  tris_id: string;
  metric: string;
  relayer: string;
}

/** An action to be recorded. */
interface Relay {
  action: Action;
  /** The organization that owns the platform. */
  owner: string | null;
  /** That of the action: if it exists, this is a retry. */
  stream: string;
}

/**
 * Limits the metrics of an identity, for each organization that relays about it, by the counts in the read models. What
 * this process has accepted since is added to them; what other processes have accepted is not known until it is applied.
 * While the read models are unavailable or are being built, only what this process has accepted counts.
 */
@Injectable()
export class MetricLimit {
  private readonly accepted = new Map<string, Accepted>();
  /** By `Accepted.counted`: the number of accepted metrics. */
  private readonly numbers = new Map<string, number>();
  /** The first of `accepted`, once it was looked at. */
  private oldest: Accepted | undefined;
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
   * Records actions, except those whose metric is one too many.
   * @param record returns the outcome of each, in order
   * @returns the outcome of each, in order: Problem too_many_metrics if it was not recorded for that
   */
  async withinEach<R extends Relay, T extends { position: Position }>(
    relays: readonly R[],
    record: (relays: readonly R[]) => Promise<readonly (T | Error)[]>,
  ): Promise<(T | Error)[]> {
    const keys = relays.map(({ action: { tris_id, ...action }, owner }) => {
      return { tris_id, metric: metricOf(action), relayer: relayerOf(action.platform_id, owner) };
    });
    const read = await this.views.readIfServed(
      keys.flatMap(({ tris_id, metric, relayer }) => [
        { get: metricRow(tris_id, metric) },
        { get: relayedRow(tris_id, relayer) },
      ]),
    );
    this.forgetUntil(read?.position ?? 0);
    const accepted = keys.map((key, n) => {
      const [isKnown, count] = [read?.results[2 * n] !== undefined, read?.results[2 * n + 1]];
      return isKnown ? undefined : this.accept(key, (count as number | undefined) ?? 0);
    });
    const outcomes: (T | Error)[] = [];
    try {
      const refusals = await Promise.all(
        relays.map(({ stream }, n) => {
          const refusal = accepted[n];
          return refusal instanceof Problem ? this.ifNew(stream, refusal) : undefined;
        }),
      );
      const left: number[] = [];
      for (const [n, refusal] of refusals.entries()) {
        if (refusal) outcomes[n] = refusal;
        else left.push(n);
      }
      const recorded = left.length === 0 ? [] : await record(left.map((n) => relays[n]!));
      for (const [i, n] of left.entries()) outcomes[n] = recorded[i]!;
      return outcomes;
    } finally {
      for (const [n, metric] of accepted.entries()) {
        if (metric === undefined || metric instanceof Problem) continue;
        const outcome = outcomes[n];
        if (outcome && !(outcome instanceof Error)) metric.at = Math.min(metric.at, outcome.position);
        const isFailed = --metric.open === 0 && metric.at === Infinity;
        if (isFailed && this.accepted.get(metric.key) === metric) this.forget(metric);
      }
    }
  }

  /** @returns the refusal, unless the stream exists; or why that cannot be known */
  private async ifNew(stream: string, refusal: Problem): Promise<Error | undefined> {
    try {
      const isNew = (await this.store.readStream(stream, { limit: 1 })).length === 0;
      return isNew ? refusal : undefined;
    } catch (error) {
      return error as Error;
    }
  }

  private accept({ tris_id, metric, relayer }: Counted, recorded: number): Accepted | Problem {
    const counted = `${tris_id} ${relayer}`;
    const key = `${counted} ${metric}`;
    const earlier = this.accepted.get(key);
    if (earlier) {
      earlier.open++;
      return earlier;
    }
    const number = this.numbers.get(counted) ?? 0;
    const count = recorded + number;
    if (count > this.highest) this.most.set((this.highest = count));
    if (count >= METRICS_PER_ORGANIZATION) return tooMany(tris_id, metric, relayer, count);
    const accepted: Accepted = { key, counted, at: Infinity, open: 1 };
    this.accepted.set(key, accepted);
    this.numbers.set(counted, number + 1);
    return accepted;
  }

  /** Forgets the metrics that the read models contain, and the oldest if there are too many. */
  private forgetUntil(position: Position): void {
    const isLater = ({ at }: Accepted) => at > position && this.accepted.size <= REMEMBERED;
    // To find the first of a Map, all that were deleted from its beginning are passed over.
    if (this.oldest && isLater(this.oldest)) return;
    for (const accepted of this.accepted.values()) {
      this.oldest = accepted;
      if (isLater(accepted)) return;
      this.forget(accepted);
    }
  }

  private forget(accepted: Accepted): void {
    const { key, counted } = accepted;
    this.accepted.delete(key);
    if (accepted === this.oldest) this.oldest = undefined;
    const left = this.numbers.get(counted)! - 1;
    if (left === 0) this.numbers.delete(counted);
    else this.numbers.set(counted, left);
  }
}

function tooMany(tris_id: string, metric: string, relayer: string, count: number): Problem {
  const message =
    `${relayer} has relayed ${count} metrics of ${tris_id} first, and the limit is ${METRICS_PER_ORGANIZATION}: ` +
    `${metric} would be another one`;
  return new Problem('too_many_metrics', `${message}. Actions of metrics that are recorded are still accepted.`, {
    errors: [{ pointer: '/action_type', code: 'too_many_metrics', message }],
    members: { metrics: count, limit: METRICS_PER_ORGANIZATION },
  });
}
