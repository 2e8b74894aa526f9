/**
 * Traces by the OpenTelemetry SDK. tracing/build.mjs bundles this file and export-thread.mjs with the SDK into
 * dist/tracing, and the service loads it if it is to be traced (src/app/tracing.ts). The SDK itself reads the variables
 * `OTEL_*`. Its sampler decides here which traces are recorded; batching, encoding and sending the spans takes more time
 * than making them, and is done in a thread. The spans are made here, since those of the SDK cost several times as much:
 * the service needs no events, no limits and no checks of values that it sets itself.
 */
import { randomFillSync } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { TraceState, parseTraceParent } from '@opentelemetry/core';
import { SamplingDecision } from '@opentelemetry/sdk-trace-base';
// The package does not export the sampler of OTEL_TRACES_SAMPLER.
import { buildSamplerFromEnv } from '@opentelemetry/sdk-trace-base/build/src/config.js';

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };
/** Spans that are passed to the thread together, at most. */
const TOGETHER = 256;
/** How long an ended span waits for others, ms. */
const WAIT_MS = 50;
/** Messages to the thread that it has not read yet, at most. The spans that end meanwhile are lost. */
const MOST_UNREAD = 64;

/** Random bytes as hexadecimal digits, taken from a text of many: a call for each id would cost more than the rest of it. */
const bytes = Buffer.alloc(4_096);
let digits = '';
let used = 0;
function randomDigits(count) {
  if (used + count > digits.length) {
    digits = randomFillSync(bytes).toString('hex');
    used = 0;
  }
  return digits.slice(used, (used += count));
}

/** A span that is recorded and will be exported. Implements `Span` of src/kernel/tracing.ts. */
class RecordedSpan {
  #exports;
  #span;
  #attributes;
  #startTime;
  #started;

  constructor(exports, name, kind, { traceId, spanId, isRemote, tracestate }, links, attributes, startTime) {
    const id = randomDigits(16);
    this.#exports = exports;
    this.#attributes = attributes;
    this.#startTime = startTime ?? Date.now();
    // The clock that is not set while the span lasts measures how long it lasts.
    this.#started = startTime === undefined ? performance.now() : undefined;
    // In the order in which export-thread.mjs takes them. An array, since names of fields would be copied with each span.
    this.#span = [name, kind, traceId, id, spanId, isRemote, tracestate, links, attributes, this.#startTime];
    this.traceparent = `00-${traceId}-${id}-01`;
  }

  set(attributes) {
    Object.assign(this.#attributes, attributes);
  }

  end(failure) {
    if (!this.#exports) return;
    const took = this.#started === undefined ? Date.now() - this.#startTime : performance.now() - this.#started;
    this.#span.push(Math.max(0, took), failure);
    this.#exports.add(this.#span);
    this.#exports = undefined;
  }
}

/** Passes ended spans to the thread that exports them. */
class Exports {
  #thread;
  #warn;
  #spans = [];
  #timer;
  #unread = 0;
  #hasFailed = false;
  #outcome;

  constructor(protocol, version, warn) {
    this.#warn = warn;
    this.#thread = new Worker(new URL('export-thread.mjs', import.meta.url), { workerData: { protocol, version } });
    this.#thread.unref();
    this.#outcome = new Promise((resolve, reject) => {
      this.#thread.once('error', (error) => {
        this.#hasFailed = true;
        warn(`the thread that exports spans has ended: ${error}`);
        reject(error);
      });
      this.#thread.on('message', ({ read, warning, failure }) => {
        if (read) this.#unread--;
        if (warning !== undefined) warn(warning);
        if (failure !== undefined) reject(new Error(failure));
      });
      this.#thread.once('exit', resolve);
    });
    // `stop` says it.
    this.#outcome.catch(() => undefined);
  }

  add(span) {
    if (this.#spans.push(span) === TOGETHER) this.#pass();
    else this.#timer ??= setTimeout(() => this.#pass(), WAIT_MS).unref();
  }

  #pass() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const spans = this.#spans;
    this.#spans = [];
    if (this.#hasFailed) return;
    if (this.#unread === MOST_UNREAD) {
      this.#warn('spans are lost, since more of them end than can be exported');
      return;
    }
    this.#unread++;
    this.#thread.postMessage({ spans });
  }

  /** @throws if the last spans cannot be exported */
  async stop() {
    this.#pass();
    this.#thread.postMessage({ isLast: true });
    await this.#outcome;
  }
}

/** The span that a client says it is in; undefined if its headers are not valid. */
function remote(traceparent, tracestate) {
  const context = parseTraceParent(traceparent);
  return context && { ...context, isRemote: true, tracestate };
}

/** The span of a `traceparent` that RecordedSpan made, or another process of the service. */
const own = (traceparent) => ({ traceId: traceparent.slice(3, 35), spanId: traceparent.slice(36, 52) });

/**
 * @param {{ protocol: string, version: string, warn: (message: string) => void }} options
 * @returns an implementation of `Tracing` of src/kernel/tracing.ts
 */
export function startTracing({ protocol, version, warn }) {
  const exports = new Exports(protocol, version, warn);
  const sampler = buildSamplerFromEnv();
  const isSampled = (traceId, from, name, kind) => {
    const traceState = from?.tracestate && new TraceState(from.tracestate);
    const context = from ? trace.setSpanContext(ROOT_CONTEXT, { ...from, traceState }) : ROOT_CONTEXT;
    const { decision } = sampler.shouldSample(context, traceId, name, kind, {}, []);
    return decision === SamplingDecision.RECORD_AND_SAMPLED;
  };
  return {
    start(name, { kind, parent, tracestate, links, attributes = {}, startTime }) {
      const from = parent && (kind === 'server' ? remote(parent, tracestate) : own(parent));
      // What is a part of, or is linked to, a recorded span is recorded: a sampler that takes a part of the traces would
      // drop most of what followed from it.
      const isDecided = links !== undefined || (from && !from.isRemote);
      const context = from ?? { traceId: randomDigits(32) };
      if (!isDecided && !isSampled(context.traceId, from, name, KINDS[kind])) return undefined;
      return new RecordedSpan(exports, name, KINDS[kind], context, links, attributes, startTime);
    },
    stop: () => exports.stop(),
  };
}
