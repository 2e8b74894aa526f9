import { setTimeout as sleep } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { Gauge, Histogram, type RegistryContentType, Registry } from 'prom-client';
import { OPEN_DEAD_LETTERS } from '../../projections/dead-letters.js';
import { StoreUnavailable } from '../stores/ports/event-store.js';
import { type GenerationState, generationProgress, generationStates } from '../read-side/generations.js';
import type { Projector } from '../read-side/projector.js';
import type { RangeRow, ReadModels } from '../stores/ports/read-models.js';
import { MOST_SKEW_MS, skewOf } from '../stores/ports/clock-skew.js';
import type { Stores } from '../stores/open.js';
import { Writer } from '../commands/writer.js';
import { Health } from './health.js';

const COUNTED_DEAD_LETTERS = 1_000;
/**
 * For this many ms after a failed append the service is not ready. After that, the next append shows whether the log
 * works again.
 */
const RECOVERY_MS = 10_000;
/** If counting events means reading them, a scrape omits the counts rather than wait longer than this, in ms. */
const COUNT_MS = 1_000;

/** Metrics and readiness of the log and the read models. */
export class StoreMetrics {
  private readonly commitSeconds = new Histogram({
    name: 'credence_commit_seconds',
    help: 'Time from the start of a commit to its disk sync',
    buckets: [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1],
    registers: [],
  });
  private readonly commitEvents = new Histogram({
    name: 'credence_commit_events',
    help: 'Events that shared one commit',
    buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    registers: [],
  });

  observe({ events, milliseconds }: { events: number; milliseconds: number }): void {
    this.commitSeconds.observe(milliseconds / 1000);
    this.commitEvents.observe(events);
  }

  /** @param projector that of this process, if it has one */
  register(app: INestApplicationContext, stores: Stores, projector: Projector | undefined): void {
    const registry = app.get(Registry);
    registry.registerMetric(this.commitSeconds);
    registry.registerMetric(this.commitEvents);
    const { eventStore, readModels } = stores;
    const look = () => generationStates(eventStore, readModels, Date.now);
    const states = shared(look);
    const counted = shared(() => generationProgress(eventStore, readModels, Date.now));
    const perGeneration = <G extends GenerationState>(
      source: () => Promise<G[]>,
      name: string,
      help: string,
      measure: (generation: G) => number,
    ) => {
      const gauge = new Gauge({
        name,
        help,
        labelNames: ['generation'],
        registers: [registry],
        async collect() {
          gauge.reset();
          const generations = await Promise.race([source().catch(noneWhileAway), sleep(COUNT_MS, [], { ref: false })]);
          for (const generation of generations.filter(isFollowed)) {
            gauge.set({ generation: generation.id }, measure(generation));
          }
        },
      });
    };
    perGeneration(
      counted,
      'credence_projection_lag_events',
      'Events a generation has not applied yet',
      ({ lag }) => lag.events,
    );
    perGeneration(
      states,
      'credence_projection_lag_seconds',
      'Age of the oldest event a generation has not applied yet',
      ({ behind }) => behind ?? 0,
    );
    perGeneration(
      counted,
      'credence_projection_applied_events',
      'Events a generation has applied, in any process; its rate is the rate of a rebuild',
      ({ applied }) => applied,
    );
    const readers = new Gauge({
      name: 'credence_reader_age_seconds',
      help: 'How long the oldest reader of an environment has been on a superseded snapshot',
      labelNames: ['environment'],
      registers: [registry],
      collect() {
        readers.reset();
        for (const [environment, seconds] of Object.entries(stores.readerAges?.() ?? {})) {
          readers.set({ environment }, seconds);
        }
      },
    });
    registerConnections(registry, stores);
    const waiting = new Gauge({
      name: 'credence_jobs_waiting',
      help: 'Jobs that wait to be run',
      labelNames: ['kind'],
      registers: [registry],
      async collect() {
        waiting.reset();
        const counts = await stores.jobs.waiting().catch((error: unknown) => Object.fromEntries(noneWhileAway(error)));
        for (const [kind, jobs] of Object.entries(counts)) waiting.set({ kind }, jobs);
      },
    });
    registerClock(registry, app.get(Health), stores);
    const letters = new Gauge({
      name: 'credence_dead_letters',
      help: `Events that could not be decoded and are not acknowledged (at most ${COUNTED_DEAD_LETTERS} are counted)`,
      registers: [registry],
      async collect() {
        const open = await openDeadLetters(readModels).catch(noneWhileAway);
        letters.set(open.length);
      },
    });

    const health = app.get(Health);
    const writer = app.get(Writer);
    health.add('event_store', async () => {
      const detail = `at position ${await eventStore.head()}`;
      if (writer.lastFailure === null) return { ok: true, detail };
      const { message, at } = writer.lastFailure;
      return { ok: performance.now() - at >= RECOVERY_MS, detail: `${detail}; the last append failed: ${message}` };
    });
    health.add('projections', async () => {
      // Without counting, which may take longer than a check is allowed to.
      const serving = (await look()).filter(({ serves }) => serves.length > 0);
      const isServed = serving.length > 0 && serving.every(({ status, isInLog }) => status === 'ready' && isInLog);
      const details = serving.map(detailOf);
      if (projector && projector.halted !== null) details.unshift(`halted: ${projector.halted}`);
      if (serving.length === 0) details.push('no generation serves yet: a worker builds the first one');
      return { ok: isServed, detail: details.join('; ') };
    });
  }
}

/** How busy the log is, and whether the servers respond; nothing for stores in this process. */
function registerConnections(registry: Registry<RegistryContentType>, { eventStore, connections }: Stores): void {
  const gauges = [
    ['credence_append_window', 'Appends that may be in flight to the log', 'window'],
    ['credence_appends_waiting', 'Appends to the log without an outcome', 'appends'],
    ['credence_requests_waiting', 'Requests that wait until the log can take what they append', 'requests'],
  ] as const;
  for (const [name, help, part] of eventStore.load ? gauges : []) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: () => gauge.set(eventStore.load![part]),
    });
  }
  if (!connections) return;
  const perServer = (
    name: string,
    help: string,
    measure: (of: { isAway: boolean; reconnections: number }) => number,
  ) => {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: ['server'],
      registers: [registry],
      collect() {
        for (const [server, connection] of Object.entries(connections())) gauge.set({ server }, measure(connection));
      },
    });
  };
  perServer('credence_store_connected', 'Whether a server responds: 1 or 0', ({ isAway }) => (isAway ? 0 : 1));
  perServer(
    'credence_store_reconnections',
    'How often this process has connected to a server again',
    ({ reconnections }) => reconnections,
  );
}

/** The clock of this process beside that of the others. A difference is a warning: everything works. */
function registerClock(registry: Registry<RegistryContentType>, health: Health, { clockSkew }: Stores): void {
  if (!clockSkew) return;
  const gauge: Gauge = new Gauge({
    name: 'credence_clock_skew_seconds',
    help: 'How far the clock of this process is ahead of that of Redis; negative: behind',
    registers: [registry],
    collect: () => gauge.set(clockSkew() / 1000),
  });
  health.add('clock', () => {
    const skew = clockSkew();
    if (Math.abs(skew) <= MOST_SKEW_MS) return { ok: true, detail: `within ${MOST_SKEW_MS / 1000} s of Redis` };
    return { ok: true, detail: `warning: ${skewOf(skew)} Redis; synchronize the clocks of all machines` };
  });
}

function detailOf({ id, status, damage, isOwn, isInLog, behind, checkpoint }: GenerationState): string {
  if (!isOwn) return `read_models_foreign: ${id} belongs to another log, ${checkpoint.log}`;
  if (status === 'damaged') return `read_models_damaged: ${id}: ${damage ?? 'it has lost rows'}`;
  if (!isInLog) return `log_replaced: ${id} has applied position ${checkpoint.position}, which the log does not have`;
  return `${id} ${status}, ${behind === null ? 'at the head' : `${behind.toFixed(1)} s behind`}`;
}

/** Whether its lag concerns anybody: a generation that is frozen, or whose build was interrupted, lags by intention. */
function isFollowed({ serves, lease }: GenerationState): boolean {
  return serves.length > 0 || lease !== null;
}

/** Concurrent callers share one request. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined;
  return () => (underWay ??= work().finally(() => (underWay = undefined)));
}

async function openDeadLetters(readModels: ReadModels): Promise<RangeRow[]> {
  const manifest = await readModels.manifest();
  const range = { ...OPEN_DEAD_LETTERS, limit: COUNTED_DEAD_LETTERS };
  const read = await readModels.read(manifest?.views['dead_letters'] ?? '', [{ range }]);
  return (read?.results[0] as RangeRow[] | undefined) ?? [];
}

/** The other metrics are returned while the read models' server is unavailable; readiness reports that it is. */
function noneWhileAway(error: unknown): never[] {
  if (error instanceof StoreUnavailable) return [];
  throw error;
}
