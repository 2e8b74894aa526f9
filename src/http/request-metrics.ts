import { Counter, Histogram, type Registry, type RegistryContentType } from 'prom-client';

export type RequestMetrics = ReturnType<typeof requestMetrics>;

/** Metrics of requests. Routes are patterns, never paths, so the number of routes bounds the number of series. */
export function requestMetrics(registry: Registry<RegistryContentType>) {
  const registers = [registry];
  return {
    durations: new Histogram({
      name: 'http_request_duration_seconds',
      help: 'Duration of HTTP requests in seconds',
      labelNames: ['method', 'route', 'status'],
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers,
    }),
    problems: new Counter({
      name: 'credence_problems_total',
      help: 'Answers that were problems, by code',
      labelNames: ['code'],
      registers,
    }),
  };
}
