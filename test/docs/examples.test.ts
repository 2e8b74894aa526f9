import { setTimeout as sleep } from 'node:timers/promises';
import { SCOPES } from '../../src/credentials/caller.js';
import { send } from '../http/client.js';
import { as, type Service, startServiceWithKeys } from '../policies/service.fixture.js';

/** Every request example of the OpenAPI document, sent as it stands to a new service with the credential it names. */

interface Operation {
  operationId: string;
  security: Record<string, string[]>[];
  parameters: { in: string; name: string; example?: string; schema: { example?: string } }[];
  requestBody?: { content: Record<string, { example?: object }> };
}

/** Their bodies contain what only an earlier answer, a wallet, a prover or a chain has. */
const WITHOUT_EXAMPLE = [
  'Eligibility_revoke',
  'Ingestion_ingest',
  'Sessions_end',
  'Sessions_refresh',
  'Sessions_verify',
  'Verifications_addRoot',
  'Verifications_register',
  'Verifications_submit',
  'Wallets_link',
];
/** About something that a new service does not have. */
const NOTHING_THERE = [
  'DeadLetters_acknowledge',
  'Ingestion_get',
  'ValidationPolicies_promotion',
  'Verifications_get',
  'Verifications_removeRoot',
  'Verifications_retire',
];
/** What others need, in this order. */
const FIRST = [
  'Organizations_register',
  'Organizations_vet',
  'Relay_relay',
  'AccessPolicies_create',
  'ValidationPolicies_create',
  'Issuers_register',
];
const ENDS = /retire|revoke|withdraw|unlink|rollBack|clear|cancel/;

let service: Service;
let operations: (Operation & { method: string; path: string })[];
beforeAll(async () => {
  service = await startServiceWithKeys([
    { id: 'operator', scopes: SCOPES },
    { id: 'reviewer', scopes: ['trove:review'] },
  ]);
  const document = (await service.get('/openapi.json')).json as { paths: Record<string, Record<string, Operation>> };
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
});
afterAll(() => service.close());

const exampleOf = ({ requestBody }: Operation) => requestBody?.content['application/json']?.example;

test('every operation with a body has an example, apart from those whose bodies nobody can write down', () => {
  const without = operations.filter((operation) => operation.requestBody && !exampleOf(operation));
  expect(without.map(({ operationId }) => operationId).sort()).toEqual(WITHOUT_EXAMPLE);
});

test('each succeeds', async () => {
  const phase = ({ operationId, method }: (typeof operations)[number]): number => {
    if (FIRST.includes(operationId)) return FIRST.indexOf(operationId);
    if (method === 'DELETE' || ENDS.test(operationId)) return 102;
    return method === 'POST' ? 100 : 101;
  };
  const left = new Set([...WITHOUT_EXAMPLE, ...NOTHING_THERE]);
  const sent = operations.filter(({ operationId }) => !left.has(operationId)).sort((a, b) => phase(a) - phase(b));
  const known: Record<string, string> = {};
  let position: string | undefined;
  const wrong: string[] = [];
  for (const operation of sent) {
    const { method, operationId, security, parameters } = operation;
    const path = operation.path.replace(/\{(\w+)\}/g, (_all, name: string) => {
      const parameter = parameters.find((one) => one.in === 'path' && one.name === name)!;
      return known[name] ?? parameter.example ?? parameter.schema.example ?? `no-example-of-${name}`;
    });
    const body = exampleOf(operation);
    const needsKey = security.length > 0 && security.every((way) => Object.keys(way).length > 0);
    // Nobody reviews what the same key submitted.
    const key = operationId === 'Trove_review' ? 'reviewer' : 'operator';
    const headers = {
      ...(needsKey && as(key)),
      ...(body && { 'content-type': 'application/json' }),
      ...(position &&
        parameters.some(({ name }) => name === 'Credence-Min-Position') && { 'credence-min-position': position }),
    };
    let answer = await send(service.port, method, path, { headers, body: body && JSON.stringify(body) });
    // Another promotion is refused until the read models have switched.
    for (let tries = 0; answer.json?.code === 'promotion_conflict' && tries < 200; tries++) {
      await sleep(50);
      answer = await send(service.port, method, path, { headers, body: body && JSON.stringify(body) });
    }
    position = (answer.headers['credence-position'] as string | undefined) ?? position;
    if (answer.json?.replay_id) known['replay_id'] ??= answer.json.replay_id;
    if (answer.status < 200 || answer.status > 299) wrong.push(`${operationId} ${method} ${path}: ${answer.text}`);
  }
  expect(wrong).toEqual([]);
  expect(sent.length).toBeGreaterThan(60);
});
