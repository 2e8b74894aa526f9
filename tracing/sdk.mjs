/**
 * Traces by the OpenTelemetry SDK. scripts/build.mjs bundles this file with the SDK into dist/tracing, and the service
 * loads it if it is to be traced (src/app/tracing.ts). The SDK itself reads the variables `OTEL_*`: it decides which
 * traces are recorded, batches the spans and sends them. The spans are made here, since those of the SDK cost several
 * times as much: the service needs no events, no limits and no checks of values that it sets itself.
 */
import { randomFillSync } from 'node:crypto';
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, diag, DiagLogLevel, trace } from '@opentelemetry/api';
import { TraceState, parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, SamplingDecision } from '@opentelemetry/sdk-trace-base';
// The package does not export the sampler of OTEL_TRACES_SAMPLER.
import { buildSamplerFromEnv } from '@opentelemetry/sdk-trace-base/build/src/config.js';

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };
const NONE = [];
const UNSET = { code: SpanStatusCode.UNSET };

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

/** @returns ms as the SDK has times: seconds and nanoseconds */
function toHrTime(ms) {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}

/**
 * A span that is recorded and will be exported. Implements `Span` of src/kernel/tracing.ts and, for the exporter,
 * `ReadableSpan` of the SDK.
 */
class RecordedSpan {
  endTime = undefined;
  status = UNSET;

  constructor(recorder, name, kind, context, parent, links, attributes, startTime) {
    this.recorder = recorder;
    this.name = name;
    this.kind = kind;
    this.context = context;
    this.parentSpanContext = parent;
    this.links = links;
    this.attributes = attributes;
    this.startMs = startTime ?? Date.now();
    this.startTime = toHrTime(this.startMs);
    // The clock that is not set while the span lasts measures how long it lasts.
    this.started = startTime === undefined ? performance.now() : undefined;
    this.traceparent = `00-${context.traceId}-${context.spanId}-01`;
  }

  set(attributes) {
    Object.assign(this.attributes, attributes);
  }

  end(failure) {
    if (this.ended) return;
    if (failure !== undefined) this.status = { code: SpanStatusCode.ERROR, message: failure };
    const took = this.started === undefined ? Date.now() - this.startMs : performance.now() - this.started;
    this.endTime = toHrTime(this.startMs + Math.max(0, took));
    this.recorder.processor.onEnd(this);
  }

  spanContext() {
    return this.context;
  }

  get ended() {
    return this.endTime !== undefined;
  }

  get resource() {
    return this.recorder.resource;
  }

  get instrumentationScope() {
    return this.recorder.scope;
  }

  get events() {
    return NONE;
  }

  get droppedAttributesCount() {
    return 0;
  }

  get droppedEventsCount() {
    return 0;
  }

  get droppedLinksCount() {
    return 0;
  }
}

/** The span that a client says it is in; undefined if its headers are not valid. */
function remote(traceparent, tracestate) {
  const context = parseTraceParent(traceparent);
  if (!context) return undefined;
  return { ...context, isRemote: true, traceState: tracestate ? new TraceState(tracestate) : undefined };
}

/** The span of a `traceparent` that RecordedSpan made, or another process of the service. */
const own = (traceparent) => ({
  traceId: traceparent.slice(3, 35),
  spanId: traceparent.slice(36, 52),
  traceFlags: TraceFlags.SAMPLED,
});

const linkTo = (traceparent) => ({ context: own(traceparent) });

/**
 * @param {{ protocol: string, version: string, warn: (message: string) => void }} options
 * @returns an implementation of `Tracing` of src/kernel/tracing.ts
 */
export function startTracing({ protocol, version, warn }) {
  // The first is often only the name of a part of the SDK, or the beginning of a sentence.
  const report = (...parts) => warn(parts.map(String).join(' '));
  diag.setLogger(
    { error: report, warn: report, info: () => undefined, debug: () => undefined, verbose: () => undefined },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const exporter = protocol === 'http/json' ? new JsonExporter() : new ProtobufExporter();
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'credence', 'service.version': version }))
    .merge(detectResources({ detectors: [envDetector] }));
  const processor = new BatchSpanProcessor(exporter);
  const recorder = { resource, processor, scope: { name: 'credence', version } };
  const sampler = buildSamplerFromEnv();
  const isSampled = (traceId, from, name, kind) => {
    const context = from ? trace.setSpanContext(ROOT_CONTEXT, from) : ROOT_CONTEXT;
    const { decision } = sampler.shouldSample(context, traceId, name, kind, {}, NONE);
    return decision === SamplingDecision.RECORD_AND_SAMPLED;
  };
  return {
    start(name, { kind, parent, tracestate, links, attributes = {}, startTime }) {
      const from = parent && (kind === 'server' ? remote(parent, tracestate) : own(parent));
      const traceId = from ? from.traceId : randomDigits(32);
      // What is a part of, or is linked to, a recorded span is recorded: a sampler that takes a part of the traces would
      // drop most of what followed from it.
      const isDecided = links !== undefined || (from && !from.isRemote);
      if (!isDecided && !isSampled(traceId, from, name, KINDS[kind])) return undefined;
      const context = {
        traceId,
        spanId: randomDigits(16),
        traceFlags: TraceFlags.SAMPLED,
        traceState: from?.traceState,
      };
      const linked = links ? links.map(linkTo) : NONE;
      return new RecordedSpan(recorder, name, KINDS[kind], context, from, linked, attributes, startTime);
    },
    stop: () => processor.shutdown(),
  };
}
