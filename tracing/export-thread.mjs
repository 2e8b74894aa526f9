/** The thread that sdk.mjs passes ended spans to: the OpenTelemetry SDK batches, encodes and sends them. */
import { parentPort, workerData } from 'node:worker_threads';
import { DiagLogLevel, SpanStatusCode, TraceFlags, diag } from '@opentelemetry/api';
import { TraceState } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const { protocol, version } = workerData;
const NONE = [];
const { SAMPLED } = TraceFlags;

// The first part is often only the name of a part of the SDK, or the beginning of a sentence.
const report = (...parts) => parentPort.postMessage({ warning: parts.map(String).join(' ') });
diag.setLogger(
  { error: report, warn: report, info: () => undefined, debug: () => undefined, verbose: () => undefined },
  { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
);
/**
 * The SDK sends one batch after the other, and loses spans while its queue is full. Its defaults, 512 and 2,048 spans, are
 * too small for the 25,000 spans a second of the highest rate of relays.
 */
const { OTEL_BSP_MAX_QUEUE_SIZE, OTEL_BSP_MAX_EXPORT_BATCH_SIZE } = process.env;
const isConfigured = Boolean(OTEL_BSP_MAX_QUEUE_SIZE || OTEL_BSP_MAX_EXPORT_BATCH_SIZE);
const processor = new BatchSpanProcessor(
  protocol === 'http/json' ? new JsonExporter() : new ProtobufExporter(),
  isConfigured ? {} : { maxExportBatchSize: 2_048, maxQueueSize: 16_384 },
);
const resource = defaultResource()
  .merge(resourceFromAttributes({ 'service.name': 'credence', 'service.version': version }))
  .merge(detectResources({ detectors: [envDetector] }));
const instrumentationScope = { name: 'credence', version };

/** @returns ms as the SDK has times: seconds and nanoseconds */
function toHrTime(ms) {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}

/** @param traceparent of a span of the service */
const linkTo = (traceparent) => ({
  context: { traceId: traceparent.slice(3, 35), spanId: traceparent.slice(36, 52), traceFlags: SAMPLED },
});

/** @returns a span as `ReadableSpan` of the SDK, which its processor and exporters take */
function readable([
  name,
  kind,
  traceId,
  spanId,
  parent,
  isRemote,
  tracestate,
  links,
  attributes,
  start,
  took,
  failure,
]) {
  const traceState = tracestate ? new TraceState(tracestate) : undefined;
  const context = { traceId, spanId, traceFlags: SAMPLED, traceState };
  return {
    name,
    kind,
    spanContext: () => context,
    parentSpanContext: parent === undefined ? undefined : { traceId, spanId: parent, traceFlags: SAMPLED, isRemote },
    startTime: toHrTime(start),
    endTime: toHrTime(start + took),
    duration: toHrTime(took),
    ended: true,
    status: failure === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: failure },
    attributes,
    links: links ? links.map(linkTo) : NONE,
    events: NONE,
    resource,
    instrumentationScope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

parentPort.on('message', async ({ spans, isLast }) => {
  if (spans) {
    for (const span of spans) processor.onEnd(readable(span));
    parentPort.postMessage({ read: true });
  }
  if (!isLast) return;
  try {
    await processor.shutdown();
  } catch (error) {
    parentPort.postMessage({ failure: String(error) });
  }
  parentPort.close();
});
