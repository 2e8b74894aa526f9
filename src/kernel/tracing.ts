/**
 * The port to distributed tracing (OpenTelemetry). Without tracing there is none, so nothing is loaded and nothing is
 * done for it. Contexts are passed on as values of the `traceparent` header (W3C Trace Context, section 3.2), and only of
 * spans that are recorded: what has no context takes part in no trace.
 */
export interface Span {
  readonly traceparent: string;
  set(attributes: Attributes): void;
  /** @param failure why what it describes failed */
  end(failure?: string): void;
}

export type Attributes = Record<string, string | number | boolean>;

export interface SpanOptions {
  kind: 'server' | 'client' | 'internal';
  /** The `traceparent` of what this is a part of. Without one, a new trace begins. */
  parent?: string | undefined;
  /** The `tracestate` that came with it. */
  tracestate?: string | undefined;
  /** The `traceparent` of each thing that led to this, but did not wait for it. */
  links?: readonly string[];
  /** The span keeps this object, and adds to it. */
  attributes?: Attributes;
  /** ms since the epoch; default: now. */
  startTime?: number;
}

export interface Tracing {
  /** Undefined if the span is not recorded, by the decision of the sampler. */
  start(name: string, options: SpanOptions): Span | undefined;
  /** Sends what has not been sent. */
  stop(): Promise<void>;
}

/** For injection: a Tracing, or null without tracing. */
export const TRACING = Symbol('Tracing');
