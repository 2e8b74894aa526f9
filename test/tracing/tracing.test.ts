import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { type Server as HttpServer, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../contracts/harness.js';
import { Server } from '../e2e/server.js';
import { runCommand } from '../servers/launch.js';
import { Receiver } from '../webhooks/receiver.js';

/** Tracing as an operator turns it on: by the variables of OpenTelemetry, with a collector that is told of spans. */

interface SpanSent {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  attributes: { key: string; value: Record<string, unknown> }[];
  links?: { traceId: string; spanId: string }[];
  status: { code?: number };
}

/** Takes spans by OTLP over HTTP, as JSON. */
class Collector {
  readonly requests: string[] = [];
  readonly spans: SpanSent[] = [];
  readonly resources: Record<string, unknown>[] = [];
  /** Requests are answered after this. */
  held: Promise<void> = Promise.resolve();
  private readonly server: HttpServer = createServer((request, response) => {
    this.requests.push(request.url!);
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { resourceSpans } = JSON.parse(body);
      for (const { resource, scopeSpans } of resourceSpans) {
        this.resources.push(valuesOf(resource.attributes));
        for (const { spans } of scopeSpans) this.spans.push(...spans);
      }
      void this.held.then(() => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));
    });
  });

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The span of this name that is a part of, or is linked to, another. */
  of(name: string, { traceId, spanId }: Pick<SpanSent, 'traceId' | 'spanId'>): SpanSent | undefined {
    return this.spans.find(
      (span) =>
        span.name === name &&
        ((span.traceId === traceId && span.parentSpanId === spanId) ||
          span.links?.some((link) => link.traceId === traceId && link.spanId === spanId)),
    );
  }

  /** The same, once it has been sent. */
  async seen(name: string, other: Pick<SpanSent, 'traceId' | 'spanId'>): Promise<SpanSent> {
    await eventually(() => this.of(name, other) !== undefined);
    return this.of(name, other)!;
  }

  /** Accepts requests from now on, but answers none. */
  hang(): void {
    this.server.removeAllListeners('request');
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

const valuesOf = (attributes: SpanSent['attributes']) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

const ACTION = {
  tris_id: 'tris:alice',
  action_type: 'loan_repayment',
  category: 'financial',
  criticality: 'critical',
  platform_id: 'lender',
};
const traceparent = (digit: string, flags = '01') => `00-${digit.repeat(32)}-${digit.repeat(16)}-${flags}`;

const collector = new Collector();
const receiver = new Receiver();
beforeAll(() => Promise.all([collector.start(), receiver.start()]));
afterAll(() => Promise.all([collector.stop(), receiver.stop()]));

const variables = () => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  OTEL_SERVICE_NAME: 'scores',
  OTEL_BSP_SCHEDULE_DELAY: '50',
});

describe('with tracing', () => {
  let server: Server;
  beforeAll(async () => {
    server = await Server.start({ env: { ...variables(), CREDENCE_WEBHOOK_LOOPBACK: 'on' } });
    const body = { url: receiver.url, events: ['score.crossed'], filter: { score_above: 7.5 } };
    expect((await server.request('POST', '/v1/webhooks', { body })).status).toBe(201);
  });

  const relay = (parent: string, headers = {}, action: object = ACTION) =>
    server.request('POST', '/api/decision-relay', { body: action, headers: { traceparent: parent, ...headers } });

  test('a relay is one trace from the request to the append, to which its projection and its webhook are linked', async () => {
    const key = { 'idempotency-key': 'k1' };
    const answer = await relay(traceparent('a'), key);
    expect(answer.status).toBe(202);
    const sent = { traceId: 'a'.repeat(32), spanId: 'a'.repeat(16) };
    const request = await collector.seen('POST /api/decision-relay', sent);
    const command = await collector.seen('RelayAction', request);
    const append = await collector.seen('append', command);
    const projection = await collector.seen('project', command);
    const delivery = await collector.seen('deliver webhook', command);
    for (const part of [request, command, append]) expect(part.traceId).toBe(sent.traceId);
    for (const part of [projection, delivery]) expect(part).not.toHaveProperty('parentSpanId');
    expect(valuesOf(request.attributes)).toMatchObject({
      'http.request.method': 'POST',
      'http.route': '/api/decision-relay',
      'http.response.status_code': 202,
      'credence.request_id': answer.headers['x-request-id'],
    });
    expect(collector.resources[0]).toMatchObject({ 'service.name': 'scores' });
    // What the receiver does next becomes a part of the delivery.
    const [received] = receiver.received;
    expect(received!.headers['traceparent']).toBe(`00-${delivery.traceId}-${delivery.spanId}-01`);

    // A retry in another trace finds the same event.
    const again = await relay(traceparent('b'), key);
    expect(again.json.action_id).toBe(answer.json.action_id);
    const { stdout } = await runCommand(['export', 'tris:alice'], { CREDENCE_DATA: server.data });
    const relayed = stdout.split('\n').filter((line) => line.includes('"ActionRelayed"'));
    expect(relayed).toHaveLength(1);
    expect(JSON.parse(relayed[0]!)).toMatchObject({
      id: answer.json.action_id,
      metadata: { traceparent: `00-${command.traceId}-${command.spanId}-01` },
    });
  });

  test('the actions of a batch that are appended together have one span of their appends', async () => {
    const actions = Array.from({ length: 40 }, (_, n) => ({ ...ACTION, tris_id: `tris:of-a-batch-${n}` }));
    const headers = { traceparent: traceparent('9') };
    const answer = await server.request('POST', '/v1/decision-relay/batch', { body: { actions }, headers });
    expect(answer.status).toBe(200);
    const sent = { traceId: '9'.repeat(32), spanId: '9'.repeat(16) };
    const request = await collector.seen('POST /v1/decision-relay/batch', sent);
    const command = await collector.seen('RelayActions', request);
    const append = await collector.seen('append', command);
    expect(collector.spans.filter(({ name, traceId }) => name === 'append' && traceId === sent.traceId)).toHaveLength(
      1,
    );
    // As JSON, OTLP has integers of 64 bits as texts.
    expect(valuesOf(append.attributes)).toMatchObject({ 'credence.appends': 40, 'credence.events': 80 });
  });

  test('a refusal is not a failure of the service, and says which it was', async () => {
    expect((await relay(traceparent('c'), {}, { ...ACTION, criticality: 'none' })).status).toBe(400);
    const sent = { traceId: 'c'.repeat(32), spanId: 'c'.repeat(16) };
    const request = await collector.seen('POST /api/decision-relay', sent);
    expect(valuesOf(request.attributes)).toMatchObject({
      'http.response.status_code': 400,
      'error.type': 'unknown_criticality',
    });
    expect(request.status.code ?? 0).toBe(0);
  });

  test('follows the decision of the caller, and ignores what is no traceparent', async () => {
    await relay(traceparent('d', '00'), {}, { ...ACTION, external_id: 'd' });
    await relay('00-abc', {}, { ...ACTION, external_id: 'e' });
    await server.request('GET', '/health/live', { headers: { traceparent: traceparent('f') } });
    await relay(traceparent('9'), {}, { ...ACTION, external_id: 'last' });
    const last = { traceId: '9'.repeat(32), spanId: '9'.repeat(16) };
    await collector.seen('POST /api/decision-relay', last);
    expect(collector.spans.filter(({ traceId }) => /^(d|f)\1+$/.test(traceId))).toEqual([]);
    const roots = collector.spans.filter(
      ({ name, parentSpanId }) => name === 'POST /api/decision-relay' && !parentSpanId,
    );
    expect(roots).toHaveLength(1);
  });
});

test('with a ratio of traces, whatever follows from a recorded one is recorded, too', async () => {
  const env = { ...variables(), OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' };
  const server = await Server.start({ env });
  const before = collector.spans.length;
  await server.request('POST', '/api/decision-relay', { body: { ...ACTION, external_id: '1' } });
  const headers = { traceparent: traceparent('7') };
  await server.request('POST', '/api/decision-relay', { body: { ...ACTION, external_id: '2' }, headers });
  const request = await collector.seen('POST /api/decision-relay', {
    traceId: '7'.repeat(32),
    spanId: '7'.repeat(16),
  });
  const command = await collector.seen('RelayAction', request);
  await collector.seen('project', command);
  await server.end();
  const names = collector.spans.slice(before).map(({ name }) => name);
  expect(names.sort()).toEqual(['POST /api/decision-relay', 'RelayAction', 'append', 'project']);
});

test('of requests without a traceparent, the ratio is recorded, each as a trace of its own', async () => {
  const env = { ...variables(), OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.5' };
  const server = await Server.start({ env });
  const before = collector.spans.length;
  await Promise.all(Array.from({ length: 400 }, (_, n) => server.request('GET', `/api/disc-score/tris:nobody-${n}`)));
  await server.end();
  const recorded = collector.spans.slice(before);
  expect(recorded.length).toBeGreaterThan(100);
  expect(recorded.length).toBeLessThan(300);
  expect(new Set(recorded.map(({ traceId }) => traceId)).size).toBe(recorded.length);
  expect(new Set(recorded.map(({ spanId }) => spanId)).size).toBe(recorded.length);
  for (const { traceId, spanId } of recorded) expect(`${traceId}-${spanId}`).toMatch(/^[0-9a-f]{32}-[0-9a-f]{16}$/);
});

test('no spans are lost while the collector is slow to answer', async () => {
  const slow = new Collector();
  await slow.start();
  let release = () => {};
  slow.held = new Promise((resolve) => (release = resolve));
  const patient = { OTEL_EXPORTER_OTLP_TIMEOUT: '120000', OTEL_BSP_EXPORT_TIMEOUT: '120000' };
  const server = await Server.start({ env: { ...variables(), ...patient, OTEL_EXPORTER_OTLP_ENDPOINT: slow.url } });
  const together = 200;
  // More than the SDK keeps by default, with the batch that it sends: 2,048 and 512.
  for (let asked = 0; asked < 3_000; asked += together) {
    await Promise.all(Array.from({ length: together }, () => server.request('GET', '/api/disc-score/tris:nobody')));
  }
  release();
  await eventually(() => slow.spans.length === 3_000 || server.errors.join('').includes('Dropped'));
  await server.end();
  expect(slow.spans.length).toBe(3_000);
  await slow.stop();
});

test('by default, spans are sent as protobuf', async () => {
  const received: { type: string | undefined; body: Buffer }[] = [];
  const accepting = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      received.push({ type: request.headers['content-type'], body: Buffer.concat(chunks) });
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  await new Promise<void>((resolve) => accepting.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(accepting.address() as AddressInfo).port}`;
  const { OTEL_EXPORTER_OTLP_PROTOCOL: _, ...env } = { ...variables(), OTEL_EXPORTER_OTLP_ENDPOINT: url };
  const server = await Server.start({ env });
  const sent = { traceparent: traceparent('6'), tracestate: 'vendor=value' };
  const relayed = await server.request('POST', '/api/decision-relay', { body: ACTION, headers: sent });
  await server.getAfter(relayed, '/v1/disc/score/tris:alice');
  await server.end();
  expect(new Set(received.map(({ type }) => type))).toEqual(new Set(['application/x-protobuf']));
  const text = Buffer.concat(received.map(({ body }) => body)).toString('latin1');
  // Texts and ids are in it as they are.
  const values = [
    'POST /api/decision-relay',
    'RelayAction',
    'append',
    'project',
    'http.route',
    'vendor=value',
    'scores',
  ];
  for (const value of values) expect(text).toContain(value);
  expect(text).toContain(Buffer.from('6'.repeat(32), 'hex').toString('latin1'));
  expect(server.errors.join('')).not.toContain('tracing');
  accepting.closeAllConnections();
  await new Promise((resolve) => accepting.close(resolve));
});

test('without tracing, no module of it is loaded and nothing is sent', async () => {
  const coverage = await mkdtemp(join(tmpdir(), 'credence-loaded-'));
  const before = collector.requests.length;
  for (const env of [{ ...variables(), OTEL_SDK_DISABLED: 'true' }, { OTEL_SERVICE_NAME: 'scores' }]) {
    const server = await Server.start({ env: { ...env, NODE_V8_COVERAGE: coverage } });
    const headers = { traceparent: traceparent('8') };
    const body = { ...ACTION, external_id: '1' };
    expect((await server.request('POST', '/api/decision-relay', { body, headers })).status).toBe(202);
    const { stdout } = await runCommand(['export', 'tris:alice'], { CREDENCE_DATA: server.data });
    expect(stdout).not.toContain('traceparent');
    await server.end();
  }
  const files = await readdir(coverage);
  expect(files).toHaveLength(2);
  const loaded = await Promise.all(files.map((file) => readFile(join(coverage, file), 'utf8')));
  for (const text of loaded) {
    expect(text).toContain('dist/src/serve.js');
    expect(text).not.toContain('dist/tracing/');
  }
  expect(collector.requests).toHaveLength(before);
  await rm(coverage, { recursive: true });
});

test('variables that are not supported are said, and the service starts without tracing', async () => {
  const server = await Server.start({ env: { ...variables(), OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' } });
  expect(server.errors.join('')).toContain(
    'tracing is off: OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or http/json, not \\"grpc\\"',
  );
});

test('what a collector says of spans that it did not take is logged', async () => {
  const partialSuccess = { rejectedSpans: 1, errorMessage: 'too many spans' };
  const refusing = createServer((request, response) => {
    const answer = JSON.stringify({ partialSuccess });
    request.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end(answer));
  });
  await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`;
  const server = await Server.start({ env: { ...variables(), OTEL_EXPORTER_OTLP_ENDPOINT: url } });
  await server.request('POST', '/api/decision-relay', { body: ACTION });
  await eventually(() => server.errors.join('').includes('too many spans'));
  await server.end();
  refusing.closeAllConnections();
  await new Promise((resolve) => refusing.close(resolve));
});

test.each([
  ['is gone', (collector: Collector) => collector.stop()],
  ['does not answer', async (collector: Collector) => collector.hang()],
])('a service whose collector %s at its end says so, and ends in time as any other', async (_, disturb) => {
  const failing = new Collector();
  await failing.start();
  const env = { ...variables(), OTEL_EXPORTER_OTLP_ENDPOINT: failing.url, OTEL_BSP_SCHEDULE_DELAY: '60000' };
  const server = await Server.start({ env });
  expect((await server.request('POST', '/api/decision-relay', { body: ACTION })).status).toBe(202);
  await disturb(failing);
  expect(await server.stop()).toBe(0);
  await server.end();
  expect(server.errors.join('')).toContain('the last spans were not sent');
  await failing.stop();
});
