import { setTimeout as sleep } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { Gauge, Histogram, type RegistryContentType, Registry } from 'prom-client';
import { OPEN_DEAD_LETTERS } from '../../projections/dead-letters.js';
import { disputeRow, disputesOf } from '../../projections/disputes.js';
import type { Dispute } from '../features/disputes/domain/dispute.js';
import { inTime } from '../kernel/turn.js';
import { type EventStore, StoreUnavailable } from '../stores/ports/event-store.js';
import { PROJECTIONS } from '../read-side/all-projections.js';
import {
  type Compared,
  type GenerationProgress,
  type GenerationState,
  type PresentGeneration,
  compareWithLog,
  generationProgress,
  generationStates,
  presentGenerations,
} from '../read-side/generations.js';
import { isReadable } from '../read-side/manifest.js';
import type { Checkpointer } from '../features/checkpoints/checkpointer.js';
import type { Projector } from '../read-side/projector.js';
import type { RangeRow, ReadModels, RowQuery, RowKey } from '../stores/ports/read-models.js';
import { MOST_SKEW_MS, skewOf } from '../stores/ports/clock-skew.js';
import type { Stores } from '../stores/open.js';
import { Writer } from '../commands/writer.js';
import { type CheckResult, Health } from './health.js';

/** Most rows that a scrape counts. */
const COUNTED = 1_000;
/** How long the service is not ready after a failed append, ms: the next append shows whether the log works again. */
const RECOVERY_MS = 10_000;
/** How long a scrape or a check waits for a store, ms. */
const ANSWER_MS = 1_000;

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

  /** To be called after each commit. */
  readonly observe = ({ events, milliseconds }: { events: number; milliseconds: number }): void => {
    this.commitSeconds.observe(milliseconds / 1000);
    this.commitEvents.observe(events);
  };

  /** @param projector that of this process, if it has one */
  register(
    app: INestApplicationContext,
    stores: Stores,
    projector: Projector | undefined,
    checkpointer?: Checkpointer,
  ): void {
    const registry = app.get(Registry);
    registry.registerMetric(this.commitSeconds);
    registry.registerMetric(this.commitEvents);
    const gauges = new Gauges(registry);
    const health = app.get(Health);
    registerGenerations(gauges, stores);
    registerStores(gauges, stores);
    registerConnections(gauges, stores);
    registerClock(gauges, health, stores);
    health.add('event_store', () => checkLog(stores, app.get(Writer)), ['writes']);
    health.add('projections', (purpose) => {
      return purpose === 'writes' ? checkFitness(stores) : checkServing(stores, projector);
    });
    if (checkpointer) {
      gauges.add(
        'credence_log_signing_stopped',
        'Whether no checkpoint of the log is signed, since one would contradict what was signed',
        () => Number(checkpointer.refusal !== null),
      );
      health.add('checkpoints', () => {
        const { refusal } = checkpointer;
        return { ok: true, detail: refusal === null ? 'nothing is wrong' : `warning: log_not_signed: ${refusal}` };
      });
    }
    const { connections } = stores;
    if (connections) health.add('redis', () => checkRedis(connections), []);
  }
}

type Labelled = readonly (readonly [label: string, value: number])[];

/** Gauges whose values are read at each scrape; one without a value is omitted. */
class Gauges {
  constructor(private readonly registry: Registry<RegistryContentType>) {}

  add(name: string, help: string, value: () => number | Promise<number | undefined>): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers: [this.registry],
      collect: async () => {
        const now = await value();
        if (now === undefined) gauge.remove();
        else gauge.set(now);
      },
    });
  }

  /** A gauge with a value for each value of one label. */
  addPer(label: string, name: string, help: string, values: () => Labelled | Promise<Labelled>): void {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.registry],
      async collect() {
        const entries = await values();
        gauge.reset();
        for (const [labelled, value] of entries) gauge.set({ [label]: labelled }, value);
      },
    });
  }
}

/** The progress of the generations of read models. */
function registerGenerations(gauges: Gauges, { eventStore, readModels }: Stores): void {
  const counted = shared(async () => (await generationProgress(eventStore, readModels, Date.now)).generations);
  const add = (name: string, help: string, measure: (generation: GenerationProgress) => number) =>
    gauges.addPer('generation', name, help, async () => {
      const generations = await Promise.race([counted().catch(noneWhileAway), sleep(ANSWER_MS, [], { ref: false })]);
      return generations.filter(isFollowed).map((generation) => [generation.id, measure(generation)] as const);
    });
  gauges.addPer(
    'generation',
    'credence_projection_lag_seconds',
    'Age of the oldest event that a serving generation has not applied yet; at most, while a store gives no answer',
    servingLag(() => generationStates(eventStore, readModels, Date.now)),
  );
  add('credence_projection_lag_events', 'Events a generation has not applied yet', ({ lag }) => lag);
  add(
    'credence_projection_applied_events',
    'Events a generation has applied, in any process; its rate is the rate of a rebuild',
    ({ applied }) => applied,
  );
}

/**
 * By serving generation: its lag in seconds. Without an answer in time it is what it was, and as much longer as that is
 * ago: whatever is not known to be applied counts.
 */
function servingLag(states: () => Promise<GenerationState[]>): () => Promise<[string, number][]> {
  let known: { at: number; lags: [string, number][] } = { at: 0, lags: [] };
  const look = shared(async () => {
    const at = performance.now();
    const serving = (await states()).filter(({ serves }) => serves.length > 0);
    known = { at, lags: serving.map(({ id, behind }) => [id, behind ?? 0]) };
    return true;
  });
  return async () => {
    const isKnown = await Promise.race([look().catch(unknownWhileAway), sleep(ANSWER_MS, false, { ref: false })]);
    const since = isKnown ? 0 : (performance.now() - known.at) / 1_000;
    return known.lags.map(([id, seconds]) => [id, seconds + since]);
  };
}

/** Jobs and dead letters. */
function registerStores(gauges: Gauges, stores: Stores): void {
  gauges.addPer('kind', 'credence_jobs_waiting', 'Jobs that wait to be run', () =>
    stores.jobs.waiting().then(Object.entries<number>, noneWhileAway),
  );
  gauges.add(
    'credence_dead_letters',
    `Events that could not be decoded and are not acknowledged (at most ${COUNTED} are counted)`,
    () => openRows(stores.readModels, OPEN_DEAD_LETTERS).then(({ length }) => length, unknownWhileAway),
  );
  const disputes = shared(async () => {
    const open = await openRows(stores.readModels, disputesOf(null, true));
    const [first] = open.map(({ value }) => ({ get: disputeRow(value as string) }));
    const oldest = first && ((await readServing(stores.readModels, first)) as Dispute | undefined);
    return { open: open.length, seconds: oldest ? (Date.now() - oldest.opened_at) / 1_000 : 0 };
  });
  gauges.add('credence_disputes_open', `Disputes that wait for an answer (at most ${COUNTED} are counted)`, () =>
    disputes().then(({ open }) => open, unknownWhileAway),
  );
  gauges.add('credence_disputes_oldest_seconds', 'How long the oldest open dispute has waited; 0 if none is open', () =>
    disputes().then(({ seconds }) => seconds, unknownWhileAway),
  );
}

/** How busy the log is, and whether the servers respond; nothing for stores in this process. */
function registerConnections(gauges: Gauges, { eventStore, connections }: Stores): void {
  const addLoad = (name: string, help: string, part: 'window' | 'appends' | 'requests') =>
    gauges.add(name, help, () => eventStore.load![part]);
  if (eventStore.load) {
    addLoad('credence_append_window', 'Appends that may be in flight to the log', 'window');
    addLoad('credence_appends_waiting', 'Appends to the log without an outcome', 'appends');
    addLoad('credence_requests_waiting', 'Requests that wait until the log can take what they append', 'requests');
  }
  if (!connections) return;
  type Connection = ReturnType<typeof connections>[string];
  const add = (name: string, help: string, measure: (connection: Connection) => number) =>
    gauges.addPer('server', name, help, () =>
      Object.entries(connections()).map(([server, connection]) => [server, measure(connection)] as const),
    );
  add('credence_store_connected', 'Whether a server responds: 1 or 0', ({ isUnavailable }) => (isUnavailable ? 0 : 1));
  add(
    'credence_store_reconnections',
    'How often this process has connected to a server again',
    ({ reconnections }) => reconnections,
  );
}

/** Whether the log accepts appends, as far as this process has seen. */
async function checkLog({ eventStore }: Stores, writer: Writer): Promise<CheckResult> {
  const detail = `at position ${await eventStore.head()}`;
  if (writer.lastFailure === null) return { ok: true, detail };
  const { message, at } = writer.lastFailure;
  return { ok: performance.now() - at >= RECOVERY_MS, detail: `${detail}; the last append failed: ${message}` };
}

/** Whether every view is served, by this build and from this log. Reads go on while the log gives no answer. */
async function checkServing(
  { eventStore, readModels }: Stores,
  projector: Projector | undefined,
): Promise<CheckResult> {
  const { manifest, generations } = await presentGenerations(readModels);
  const serving = generations.filter(({ serves }) => serves.length > 0);
  const compared = await Promise.all(serving.map((each) => comparison(each, eventStore)));
  const isServed =
    serving.length > 0 &&
    serving.every(({ status }, n) => status === 'ready' && compared[n]!.isOwn && compared[n]!.isInLog);
  const details = serving.map((each, n) => detailOf({ ...each, ...compared[n]! }));
  if (projector && projector.halted !== null) details.unshift(`halted: ${projector.halted}`);
  if (serving.length === 0) details.push('no generation serves yet: a worker builds the first one');
  const isOwn = !manifest || PROJECTIONS.every(({ name }) => isReadable(manifest, name));
  if (!isOwn) details.unshift('another build of Credence, with other projections, serves');
  return { ok: isServed && isOwn, detail: details.join('; ') };
}

/** `behind` is undefined while the log gives no answer. */
type ComparedIfKnown = Omit<Compared, 'behind'> & { behind: number | null | undefined };

/** A generation compared with the log, or what can be said while the log gives no answer. */
async function comparison(generation: PresentGeneration, store: EventStore): Promise<ComparedIfKnown> {
  try {
    return await inTime(compareWithLog(generation, store, Date.now), ANSWER_MS);
  } catch (error) {
    if (error instanceof StoreUnavailable && error.code === 'log_replaced') throw error;
    return { isOwn: generation.checkpoint.log === store.logId, isInLog: true, behind: undefined };
  }
}

/** Whether commands are accepted: unless the read models are those of another log, or have lost rows. */
async function checkFitness({ eventStore, readModels }: Stores): Promise<CheckResult> {
  // Without an answer nothing speaks against writes. One that comes too late for a check counts as none.
  const { generations } = await inTime(presentGenerations(readModels), ANSWER_MS).catch(() => ({ generations: [] }));
  const unfit = generations
    .filter(({ serves }) => serves.length > 0)
    .map((each) => ({ ...each, isOwn: each.checkpoint.log === eventStore.logId, isInLog: true, behind: undefined }))
    .filter(({ isOwn, status }) => !isOwn || status === 'damaged');
  return { ok: unfit.length === 0, detail: unfit.map(detailOf).join('; ') || 'they do not stop writes' };
}

/** Jobs, sign-ins and rate limits need Redis. */
function checkRedis(connections: NonNullable<Stores['connections']>): CheckResult {
  const ok = !connections()['redis']!.isUnavailable;
  return { ok, detail: ok ? 'responds' : 'does not respond, is full or a replica, or may evict keys' };
}

/** The clock of this process compared with that of PostgreSQL. A difference is only a warning: everything works. */
function registerClock(gauges: Gauges, health: Health, { clockSkew }: Stores): void {
  if (!clockSkew) return;
  gauges.add(
    'credence_clock_skew_seconds',
    'How far the clock of this process is ahead of that of PostgreSQL; negative: behind',
    () => clockSkew() / 1000,
  );
  health.add('clock', () => {
    const skew = clockSkew();
    if (Math.abs(skew) <= MOST_SKEW_MS) return { ok: true, detail: `within ${MOST_SKEW_MS / 1000} s of PostgreSQL` };
    return { ok: true, detail: `warning: ${skewOf(skew)} PostgreSQL; synchronize the clocks of all machines` };
  });
}

function detailOf(generation: PresentGeneration & ComparedIfKnown): string {
  const { id, status, damage, isOwn, isInLog, behind, checkpoint } = generation;
  if (!isOwn) return `read_models_foreign: ${id} belongs to another log, ${checkpoint.log}`;
  if (status === 'damaged') return `read_models_damaged: ${id}: ${damage ?? 'it has lost rows'}`;
  if (!isInLog) return `log_replaced: ${id} has applied position ${checkpoint.position}, which the log does not have`;
  if (behind === undefined) return `${id} ${status}, and the log gives no answer`;
  return `${id} ${status}, ${behind === null ? 'at the head' : `${behind.toFixed(1)} s behind`}`;
}

/** Whether its lag is reported: a generation that is frozen, or whose build was interrupted, lags on purpose. */
function isFollowed({ serves, lease }: GenerationState): boolean {
  return serves.length > 0 || lease !== null;
}

/** Concurrent callers share one request. */
function shared<T>(work: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined;
  return () => (underWay ??= work().finally(() => (underWay = undefined)));
}

async function openRows(readModels: ReadModels, list: RowKey): Promise<RangeRow[]> {
  return ((await readServing(readModels, { range: { ...list, limit: COUNTED } })) as RangeRow[] | undefined) ?? [];
}

/** From the generation that serves the projection of the row. */
async function readServing(readModels: ReadModels, read: RowQuery): Promise<unknown> {
  const { view } = 'get' in read ? read.get : read.range;
  const manifest = await readModels.manifest();
  return (await readModels.read(manifest?.views[view.split('.')[0]!] ?? '', [read]))?.results[0];
}

/** The other metrics are returned while the read models' server is unavailable; readiness reports that it is. */
function noneWhileAway(error: unknown): never[] {
  unknownWhileAway(error);
  return [];
}

function unknownWhileAway(error: unknown): undefined {
  if (!(error instanceof StoreUnavailable)) throw error;
}
