import { existsSync } from 'node:fs';
import type { CommandBus } from '@nestjs/cqrs';
import type { Config } from '../kernel/config.js';
import { decorated } from '../kernel/decorated.js';
import type { Logger } from '../kernel/logger.js';
import { Problem } from '../kernel/problems.js';
import type { Span, Tracing } from '../kernel/tracing.js';
import { inTime } from '../kernel/turn.js';
import { VERSION } from '../kernel/version.js';
import type { Stores } from '../stores/open.js';
import type { EventStore } from '../stores/ports/event-store.js';
import type { JobHandler, Jobs } from '../stores/ports/jobs.js';
import type { ReadModels } from '../stores/ports/read-models.js';

/** Made of tracing/sdk.mjs by the build, with the SDK in it. */
const SDK = new URL('../../tracing/sdk.mjs', import.meta.url);
const PROTOCOLS = ['http/protobuf', 'http/json'];
/** As many links as the SDK keeps of a span. */
const MAX_LINKS = 128;
/** A collector that is unavailable loses the last spans, and must not delay the end of the service for longer, ms. */
const STOP_MS = 3_000;
/** Traced commands that have been read and may not be applied yet. */
const KEPT = 4_096;

/**
 * Tracing, if the variables of OpenTelemetry ask for it. These may be meant for others on the same machine, so a value
 * that is not supported is no reason to refuse to start: it is logged, and the service is not traced.
 */
export async function openTracing({ openTelemetry }: Config, logger: Logger): Promise<Tracing | null> {
  const variable = (...names: string[]) => names.map((name) => openTelemetry.get(name)).find((value) => value);
  const endpoint = variable('EXPORTER_OTLP_TRACES_ENDPOINT', 'EXPORTER_OTLP_ENDPOINT');
  const exporter = variable('TRACES_EXPORTER') ?? (endpoint === undefined ? 'none' : 'otlp');
  if (exporter === 'none' || variable('SDK_DISABLED')?.toLowerCase() === 'true') return null;
  const refuse = (why: string) => {
    logger.warn(`tracing is off: ${why}`);
    return null;
  };
  const protocol = variable('EXPORTER_OTLP_TRACES_PROTOCOL', 'EXPORTER_OTLP_PROTOCOL') ?? PROTOCOLS[0]!;
  if (exporter !== 'otlp') return refuse(`OTEL_TRACES_EXPORTER must be otlp or none, not "${exporter}"`);
  if (!PROTOCOLS.includes(protocol)) {
    return refuse(`OTEL_EXPORTER_OTLP_PROTOCOL must be ${PROTOCOLS.join(' or ')}, not "${protocol}"`);
  }
  if (!existsSync(SDK)) {
    return refuse(
      'this build has no OpenTelemetry SDK; run "node scripts/install.mjs tracing" and "npm run build" where it is built',
    );
  }
  const { startTracing } = (await import(SDK.href)) as {
    startTracing(options: { protocol: string; version: string; warn(message: string): void }): Tracing;
  };
  let logged: string | undefined;
  // An exporter that cannot send reports it with every batch.
  const warn = (error: string) => {
    if (error !== logged) logger.warn('tracing', { error: (logged = error) });
  };
  const tracing = startTracing({ protocol, version: VERSION, warn });
  return {
    start: tracing.start,
    stop: () => inTime(tracing.stop(), STOP_MS).catch((error) => warn(`the last spans were not sent: ${error}`)),
  };
}

/** The same stores, with traces of appends, jobs and the application of events. */
export function tracedStores(stores: Stores, tracing: Tracing): Stores {
  const { eventStore, readModels, jobs } = stores;
  const { subscribe, apply } = tracedProjections(eventStore, readModels, tracing);
  return {
    ...stores,
    eventStore: decorated(eventStore, { append: tracedAppend(eventStore, tracing), subscribe }),
    readModels: decorated(readModels, { apply }),
    jobs: decorated(jobs, { handle: tracedHandle(jobs, tracing) }),
  };
}

/** Appends of one command that are under way. */
const appendsOf = (span: Span | undefined) => {
  return { span, appends: 0, events: 0, open: 0, position: 0, failure: undefined as Error | undefined };
};

/** A command has one span for all of its appends that are under way at the same time: a batch has many. */
function tracedAppend(store: EventStore, tracing: Tracing): EventStore['append'] {
  /** By the `traceparent` of the command. */
  const underWay = new Map<string, ReturnType<typeof appendsOf>>();
  return (stream, expected, events) => {
    const parent = events[0]?.metadata.traceparent;
    if (parent === undefined) return store.append(stream, expected, events);
    let all = underWay.get(parent);
    if (!all) {
      const attributes = { 'credence.stream': stream };
      const span = tracing.start('append', { kind: 'client', parent, attributes });
      underWay.set(parent, (all = appendsOf(span)));
    }
    const shared = all;
    shared.appends++;
    shared.events += events.length;
    shared.open++;
    const appended = store.append(stream, expected, events);
    void appended
      .then(
        ({ position }) => void (shared.position = Math.max(shared.position, position)),
        (error: Error) => void (shared.failure = error),
      )
      .then(() => {
        if (--shared.open > 0) return;
        underWay.delete(parent);
        const { span, appends, events, position, failure } = shared;
        if (!span) return;
        span.set({ 'credence.appends': appends, 'credence.events': events });
        if (position > 0) span.set({ 'credence.position': position });
        if (failure) endFailed(span, failure);
        else span.end();
      });
    return appended;
  };
}

/** A refusal of the client's request is not marked as an error. */
function endFailed(span: Span, error: Error): void {
  const isRefusal = error instanceof Problem && error.status < 500;
  span.set({ 'error.type': error instanceof Problem ? error.code : error.name });
  span.end(isRefusal ? undefined : error.message);
}

/** The spans of batches are linked to the commands of their events, which did not wait for them. */
function tracedProjections(store: EventStore, readModels: ReadModels, tracing: Tracing) {
  /** Traced commands by the position of their last event, in order. */
  const read: { position: number; traceparent: string; at: number }[] = [];
  const subscribe: EventStore['subscribe'] = async function* (after, options) {
    for await (const slice of store.subscribe(after, options)) {
      const at = Date.now();
      for (const { position, metadata } of slice) {
        const { traceparent } = metadata;
        // Each generation has a reader of its own.
        const last = read.at(-1);
        if (traceparent === undefined || position <= (last?.position ?? 0)) continue;
        if (last?.traceparent === traceparent && last.at === at) last.position = position;
        else read.push({ position, traceparent, at });
      }
      if (read.length > KEPT) read.splice(0, read.length - KEPT);
      yield slice;
    }
  };
  const apply: ReadModels['apply'] = (id, batch) => {
    const { base, next } = batch;
    const end = read.findLastIndex(({ position }) => position <= next.position) + 1;
    const begin = read.findLastIndex(({ position }) => position <= base.position) + 1;
    if (begin === end) return readModels.apply(id, batch);
    const commands = read.slice(begin, end);
    const span = tracing.start('project', {
      kind: 'internal',
      links: commands.slice(0, MAX_LINKS).map(({ traceparent }) => traceparent),
      startTime: commands[0]!.at,
      attributes: { 'credence.generation': id, 'credence.position': next.position },
    });
    return traced(span, () => readModels.apply(id, batch));
  };
  return { subscribe, apply };
}

function tracedHandle(jobs: Jobs, tracing: Tracing): Jobs['handle'] {
  return (kind, handler, options) => {
    const run: JobHandler = (job) => {
      const attributes = { 'credence.job': job.id, 'credence.attempt': job.attempt };
      return traced(tracing.start(`job ${kind}`, { kind: 'internal', attributes }), () => handler(job));
    };
    jobs.handle(kind, run, options);
  };
}

/**
 * Lets the commands of traced requests be traced. What they append becomes a part of them. The bus of Nest has no hook
 * around a command, so its public method is replaced; test/tracing fails if commands no longer pass through it.
 */
export function traceCommands(bus: CommandBus, tracing: Tracing): void {
  const execute = bus.execute.bind(bus) as (command: object) => Promise<unknown>;
  type Traced = { trace?: string };
  bus.execute = ((command: { input?: { context?: Traced; request?: Traced } }) => {
    const context = command.input?.context ?? command.input?.request;
    if (context?.trace === undefined) return execute(command);
    const span = tracing.start(command.constructor.name, { kind: 'internal', parent: context.trace });
    if (span) context.trace = span.traceparent;
    return traced(span, () => execute(command));
  }) as CommandBus['execute'];
}

/** Ends the span with the work. */
async function traced<T>(span: Span | undefined, work: () => Promise<T>): Promise<T> {
  if (!span) return work();
  try {
    const result = await work();
    span.end();
    return result;
  } catch (error) {
    endFailed(span, error as Error);
    throw error;
  }
}
