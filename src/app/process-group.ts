import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { AggregatorRegistry, collectDefaultMetrics, Registry } from 'prom-client';
import type { Clock } from '../kernel/clock.js';
import { type Config, ConfigError } from '../kernel/config.js';
import { inTime } from '../kernel/turn.js';
import type { Logger } from '../kernel/logger.js';
import { Channel, type Counted, type Increment, type Refused, type Started } from './group-member.js';
import type { CheckResult } from './health.js';
import { closeStrandedConnections } from './stranded-connections.js';
import { welcome } from './welcome.js';

/** All processes end within this, ms. */
const SHUTDOWN_MS = 10_000;
/** How long the projector continues, for requests that wait for it, while the API processes stop. */
const DRAIN_MS = 5_000;
/** The pause before an ended process is started again: doubled each time it ends again. */
const BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 30_000;
/** A process that has run for this long begins at the shortest pause again. */
const STEADY_MS = 60_000;
/** How long a scrape waits for the metrics of a process. */
const METRICS_MS = 2_000;
const SWEEP_MS = 60_000;

type Metrics = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** One process of the group, and those that take its place when it ends. */
interface Place {
  /** `worker`: projections and jobs; `api`: answers requests. */
  role: 'worker' | 'api';
  worker: Worker | undefined;
  channel: Channel | undefined;
  /** When it became ready, by the monotonic clock; undefined: it is being started. */
  upSince: number | undefined;
  /** How often it has ended soon after its start. */
  endings: number;
  /** Its metrics, as it last reported them. */
  metrics: Metrics | undefined;
}

/**
 * The first process of `CREDENCE_PROCESSES` processes that answer requests on one port, and of one for projections and
 * jobs. It opens no store and answers no request: it starts the others, starts them again when they end, counts for the
 * rate limits, adds up the metrics, and stops all.
 */
export class ProcessGroup {
  private readonly places: Place[];
  private readonly counts = new SharedCounts(Date.now);
  private readonly registry = new Registry();
  /** Counters and histograms of processes that have ended, so that no sum falls. */
  private ended: Metrics = [];
  private isStopping = false;

  /** @throws ConfigError if no process would answer */
  constructor(
    private readonly config: Config,
    private readonly logger: Logger,
  ) {
    if (!config.has('api')) {
      throw new ConfigError(
        `CREDENCE_PROCESSES is the number of processes that answer requests: with CREDENCE_ROLES=worker it must be 1, not ${config.processes}.`,
      );
    }
    const roles = [
      ...(config.has('worker') ? (['worker'] as const) : []),
      ...Array.from({ length: config.processes }, () => 'api' as const),
    ];
    this.places = roles.map((role) => ({
      role,
      worker: undefined,
      channel: undefined,
      upSince: undefined,
      endings: 0,
      metrics: undefined,
    }));
  }

  /** Starts all processes. If one of them cannot start, none is left, and this process ends with the reason. */
  async start(): Promise<void> {
    cluster.setupPrimary({ exec: fileURLToPath(new URL('../main.js', import.meta.url)), args: [] });
    process.once('SIGTERM', (signal) => void this.stop(signal));
    process.once('SIGINT', (signal) => void this.stop(signal));
    collectDefaultMetrics({ register: this.registry });
    setInterval(() => this.counts.sweep(), SWEEP_MS).unref();
    try {
      // First the one that may create the log and the keys.
      const [projector] = await Promise.all(this.of('worker').map((place) => this.startOne(place)));
      const answering = await Promise.all(this.of('api').map((place) => this.startOne(place)));
      const created = [projector, ...answering].find((started) => started?.createdDevelopmentKey !== undefined);
      process.stdout.write(`${welcome(this.config, answering[0]!.url!, created?.createdDevelopmentKey)}\n`);
    } catch (error) {
      if (this.isStopping) return;
      this.isStopping = true;
      const { message, exitCode = 1 } = error as Partial<NotStarted>;
      process.stderr.write(`credence: ${message}\n`);
      await this.end('SIGTERM', this.places);
      process.exit(exitCode);
    }
  }

  private of(role: Place['role']): Place[] {
    return this.places.filter((place) => place.role === role);
  }

  /** Resolves once the process works. @throws NotStarted if it ends before */
  private startOne(place: Place): Promise<Started> {
    const worker = cluster.fork({ CREDENCE_ROLES: place.role });
    place.worker = worker;
    closeStrandedConnections(worker);
    let refusal: Refused | undefined;
    return new Promise((resolve, reject) => {
      place.channel = new Channel(worker, {
        started: (started: Started) => {
          place.upSince = performance.now();
          resolve(started);
        },
        refused: (refused: Refused) => void (refusal = refused),
        increment: (entries: Increment[]) => this.counts.increment(entries),
        metrics: () => this.metrics(),
        health: () => this.health(),
      });
      worker.on('error', ({ message }) => {
        // The fork failed: there is no process, and so no exit event.
        if (worker.process.pid !== undefined) return;
        place.worker = place.channel = undefined;
        reject(new NotStarted(`${nameOf(place)} cannot be started: ${message}`, 1, undefined));
      });
      worker.once('exit', (code, signal) => {
        const wasUp = place.upSince !== undefined;
        place.worker = place.channel = undefined;
        const how = signal ? `by ${signal}` : `with ${code}`;
        const message = refusal?.message ?? `${nameOf(place)} has ended ${how} before it had started.`;
        if (wasUp) void this.replace(place, worker.process.pid!, how);
        else reject(new NotStarted(message, refusal?.exitCode ?? 1, worker.process.pid));
      });
    });
  }

  private async replace(place: Place, pid: number | undefined, how: string): Promise<void> {
    const steady = performance.now() - place.upSince! >= STEADY_MS;
    place.upSince = undefined;
    await this.keepCounts(place);
    if (steady) place.endings = 0;
    while (!this.isStopping) {
      const ms = Math.min(BACKOFF_MS * 2 ** place.endings++, MAX_BACKOFF_MS);
      this.logger.error(`${nameOf(place)} has ended ${how}: another is started in ${ms} ms`, { ended: pid });
      await sleep(ms, undefined, { ref: false });
      if (this.isStopping) return;
      try {
        await this.startOne(place);
        this.logger.info(`${nameOf(place)} works again`, { started: place.worker?.process.pid });
        return;
      } catch (error) {
        this.logger.error((error as NotStarted).message);
        pid = (error as NotStarted).pid;
        how = 'while it started';
      }
    }
  }

  private health(): CheckResult {
    const isUp = ({ upSince }: Place) => upSince !== undefined;
    const answering = this.of('api');
    const details = [`${answering.filter(isUp).length} of ${answering.length} processes answer requests`];
    const [projector] = this.of('worker');
    if (projector)
      details.push(isUp(projector) ? 'one does the rest' : 'that of projections and jobs is being started');
    return { ok: !projector || isUp(projector), detail: details.join('; ') };
  }

  /** The sum of all processes. One that does not answer in time counts with what it last reported. */
  private async metrics(): Promise<string> {
    const asked = this.places.map(async (place) => {
      const answer = place.upSince === undefined ? undefined : place.channel?.ask<Metrics>('metrics');
      const reported = answer && (await inTime(answer, METRICS_MS).catch(() => undefined));
      // It may have ended meanwhile, and counts as ended then.
      if (reported && place.upSince !== undefined) place.metrics = reported;
    });
    const own = await this.registry.getMetricsAsJSON();
    await Promise.all(asked);
    // Looked at together, since a process that ends meanwhile must not count twice.
    const reports = this.places.map(({ metrics }) => metrics ?? []);
    return AggregatorRegistry.aggregate([own, ...reports, this.ended]).metrics();
  }

  /** Adds what a process that has ended counted to the counts of the ended ones. */
  private async keepCounts(place: Place): Promise<void> {
    const counts = (place.metrics ?? []).filter(({ type }) => COUNTING.has(String(type)));
    this.ended = await AggregatorRegistry.aggregate([this.ended, counts]).getMetricsAsJSON();
    place.metrics = undefined;
  }

  private async stop(signal: string): Promise<void> {
    if (this.isStopping) return;
    this.isStopping = true;
    this.logger.info('stopping', { signal });
    const late = setTimeout(() => {
      this.logger.error(`not stopped within ${SHUTDOWN_MS} ms; exiting`);
      for (const { worker } of this.places) worker?.process.kill('SIGKILL');
      process.exit(1);
    }, SHUTDOWN_MS);
    await Promise.race([this.end('SIGTERM', this.of('api')), sleep(DRAIN_MS, undefined, { ref: false })]);
    await this.end('SIGTERM', this.places);
    clearTimeout(late);
    this.logger.info('stopped');
    process.exit(0);
  }

  /** Sends a signal to processes; resolves when they have ended. */
  private async end(signal: NodeJS.Signals, places: readonly Place[]): Promise<void> {
    const ending = places.flatMap(({ worker }) => (worker && !worker.isDead() ? [worker] : []));
    await Promise.all(
      ending.map((worker) => {
        const exit = once(worker, 'exit');
        worker.process.kill(signal);
        return exit;
      }),
    );
  }
}

const COUNTING = new Set(['counter', 'histogram']);

class NotStarted extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
    /** undefined: there was no process. */
    readonly pid: number | undefined,
  ) {
    super(message);
  }
}

const nameOf = ({ role }: Place): string =>
  role === 'worker' ? 'the process of projections and jobs' : 'a process that answers requests';

/** Counts with a time to live, in memory: they need not outlive the group. */
class SharedCounts {
  private readonly counts = new Map<string, Counted>();

  constructor(private readonly clock: Clock) {}

  increment(entries: readonly Increment[]): Counted[] {
    const now = this.clock();
    return entries.map(([key, ttlMs, by]) => {
      const known = this.counts.get(key);
      // Also if the clock was set back: clients must not be locked out until it catches up.
      const isValid = known && known.resets_at > now && known.resets_at <= now + ttlMs;
      const next = isValid ? { ...known, count: known.count + by } : { count: by, resets_at: now + ttlMs };
      this.counts.set(key, next);
      return next;
    });
  }

  sweep(): void {
    const now = this.clock();
    for (const [key, { resets_at }] of this.counts) if (resets_at <= now) this.counts.delete(key);
  }
}
