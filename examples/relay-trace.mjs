// `npm run demo:trace`: one relay from its request to the webhook that it causes, as the spans that a collector receives.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { CredenceClient } from '../clients/typescript/dist/client.js';
import { startService } from './service.mjs';

/** A server that takes whatever is posted to it. @returns its address */
async function listen(take) {
  const server = createServer(async (request, response) => {
    take(JSON.parse(Buffer.concat(await request.toArray())));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  await once(server.listen(0, '127.0.0.1').unref(), 'listening');
  return `http://127.0.0.1:${server.address().port}`;
}

const spans = [];
const collector = await listen(({ resourceSpans }) => {
  for (const { scopeSpans } of resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans);
});
/** By identity: what is called once the webhook has told of it. */
const waiting = new Map();
const receiver = await listen(({ data }) => waiting.get(data.tris_id)?.());
const service = await startService({
  env: {
    CREDENCE_WEBHOOK_LOOPBACK: 'on',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  },
});
const credence = new CredenceClient({ baseUrl: service.url, apiKey: service.key });
await credence.post('/v1/webhooks', {
  body: { url: receiver, events: ['score.crossed'], filter: { score_above: 7.5 } },
});

const ACTION = { action_type: 'loan_repayment', category: 'finance', criticality: 'Critical', platform_id: 'lender' };
/** @param isTraced the decision of the caller, which the service follows. @returns once the webhook has told of it */
async function relay(tris_id, isTraced) {
  const told = new Promise((resolve) => waiting.set(tris_id, resolve));
  const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-0${isTraced ? 1 : 0}`;
  await credence.post('/api/decision-relay', { body: { ...ACTION, tris_id }, headers: { traceparent } });
  await told;
}
// The first ones take longer: the code is compiled while it runs.
for (let n = 0; n < 10; n++) await Promise.all(Array.from({ length: 20 }, (_, i) => relay(`tris:${n}-${i}`, false)));
await relay('tris:ann', true);
await service.stop();

const root = spans.find(({ parentSpanId }) => parentSpanId === 'b'.repeat(16));
const since = (time) => Number(BigInt(time) - BigInt(root.startTimeUnixNano)) / 1e6;
const partsOf = ({ spanId }) => spans.filter(({ parentSpanId }) => parentSpanId === spanId);
const linkedTo = ({ spanId }) => spans.filter(({ links = [] }) => links.some((link) => link.spanId === spanId));

/** Each line: when it began, after the request, and how long it took, ms; what it is a part of, or (⇢) is linked to. */
function print(span, depth, sign) {
  const times = [since(span.startTimeUnixNano), since(span.endTimeUnixNano) - since(span.startTimeUnixNano)];
  console.log(`${times.map((ms) => ms.toFixed(1).padStart(7)).join('')}  ${'  '.repeat(depth)}${sign} ${span.name}`);
  for (const part of partsOf(span)) print(part, depth + 1, '└');
  for (const linked of linkedTo(span)) print(linked, depth + 1, '⇢');
}
console.log('  start   took');
print(root, 0, ' ');
