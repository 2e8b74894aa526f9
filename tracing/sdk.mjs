/**
 * Traces by the OpenTelemetry SDK. scripts/build.mjs bundles this file with the SDK into dist/tracing, and the service
 * loads it if it is to be traced (src/app/tracing.ts). The SDK itself reads the variables `OTEL_*`.
 */
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, diag, DiagLogLevel, trace } from '@opentelemetry/api';
import { TraceState, parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const KINDS = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL };

/** A span that is recorded and will be exported. Implements `Span` of src/kernel/tracing.ts. */
class RecordedSpan {
  constructor(span) {
    this.span = span;
    const { traceId, spanId } = span.spanContext();
    this.traceparent = `00-${traceId}-${spanId}-01`;
  }

  set(attributes) {
    this.span.setAttributes(attributes);
  }

  end(failure) {
    if (failure !== undefined) this.span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
    this.span.end();
  }
}

/** The span that a client says it is in; undefined if its headers are not valid. */
function remote(traceparent, tracestate) {
  const context = parseTraceParent(traceparent);
  if (!context) return undefined;
  return { ...context, isRemote: true, ...(tracestate && { traceState: new TraceState(tracestate) }) };
}

/** The span of a `traceparent` that RecordedSpan made, or another process of the service. */
const own = (traceparent) => ({
  traceId: traceparent.slice(3, 35),
  spanId: traceparent.slice(36, 52),
  traceFlags: TraceFlags.SAMPLED,
});

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
  const spanProcessors = [new BatchSpanProcessor(exporter)];
  const provider = new BasicTracerProvider({ resource, spanProcessors });
  const sampled = provider.getTracer('credence', version);
  // Spans with links begin traces of their own. All are recorded, as what they are linked to is: a sampler that takes a
  // part of the traces would drop most of what followed from a recorded command.
  const sampler = new AlwaysOnSampler();
  const linked = new BasicTracerProvider({ resource, spanProcessors, sampler }).getTracer('credence', version);
  return {
    start(name, { kind, parent, tracestate, links = [], attributes, startTime }) {
      const from = parent && (kind === 'server' ? remote(parent, tracestate) : own(parent));
      const context = from ? trace.setSpanContext(ROOT_CONTEXT, from) : ROOT_CONTEXT;
      const tracer = links.length > 0 ? linked : sampled;
      const options = { kind: KINDS[kind], links: links.map((link) => ({ context: own(link) })), startTime };
      const span = tracer.startSpan(name, options, context);
      if (!span.isRecording()) return undefined;
      // Not at the start: samplers would see them, but none that can be configured by variables uses them.
      if (attributes) span.setAttributes(attributes);
      return new RecordedSpan(span);
    },
    stop: () => provider.shutdown(),
  };
}
