import type { ProblemCode } from '../kernel/problems.js';

/** Upper bounds in seconds. */
const BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const NAME = 'http_request_duration_seconds';

interface Series {
  labels: { method: string; route: string; status: string };
  /** Observations per bucket, not cumulative; the last is +Inf. */
  buckets: Float64Array;
  sum: number;
}

/**
 * Durations of requests by method, route pattern and status, as a Prometheus histogram. prom-client's own hashes the
 * labels on every observation; here an observation is three look-ups and an addition. Routes are patterns, never paths,
 * so the number of series is bounded by the routes there are.
 */
export class RequestMetrics {
  readonly name = NAME;
  /** Answers that were problems, by code. */
  readonly problems = new Map<ProblemCode, number>();
  private readonly routes = new Map<string, Map<string, Map<number, Series>>>();

  observe(method: string, route: string, status: number, milliseconds: number): void {
    const series = this.routes.get(route)?.get(method)?.get(status) ?? this.begin(method, route, status);
    const seconds = milliseconds / 1000;
    let bucket = 0;
    while (bucket < BOUNDS.length && seconds > BOUNDS[bucket]!) bucket++;
    series.buckets[bucket]!++;
    series.sum += seconds;
  }

  /** Counts an answer that is a problem. */
  refused(code: ProblemCode): void {
    this.problems.set(code, (this.problems.get(code) ?? 0) + 1);
  }

  private begin(method: string, route: string, status: number): Series {
    const labels = { method, route, status: String(status) };
    const series = { labels, buckets: new Float64Array(BOUNDS.length + 1), sum: 0 };
    const methods = this.routes.get(route) ?? new Map<string, Map<number, Series>>();
    const statuses = methods.get(method) ?? new Map<number, Series>();
    this.routes.set(route, methods.set(method, statuses.set(status, series)));
    return series;
  }

  reset(): void {
    this.routes.clear();
  }

  /** The shape prom-client's registry collects from each metric. */
  async get() {
    const values: { metricName: string; labels: Record<string, string | number>; value: number }[] = [];
    const all = [...this.routes.values()].flatMap((methods) => [...methods.values()].flatMap((by) => [...by.values()]));
    for (const { labels, buckets, sum } of all) {
      let count = 0;
      buckets.forEach((inBucket, index) => {
        count += inBucket;
        const le = index < BOUNDS.length ? BOUNDS[index]! : '+Inf';
        values.push({ metricName: `${NAME}_bucket`, labels: { le, ...labels }, value: count });
      });
      values.push({ metricName: `${NAME}_sum`, labels, value: sum });
      values.push({ metricName: `${NAME}_count`, labels, value: count });
    }
    return { name: NAME, help: 'Duration of HTTP requests in seconds', type: 'histogram', values, aggregator: 'sum' };
  }
}
