import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SCOPES } from '../../src/credentials/caller.js';
import { sha256Hex } from '../../src/kernel/hash.js';
import { eventually } from '../contracts/harness.js';
import { Server } from './server.js';

/** Every request example of the OpenAPI document, sent as it stands to a new service with the credential it names. */

interface Operation {
  operationId: string;
  method: string;
  path: string;
  security: Record<string, string[]>[];
  parameters: { in: string; name: string; example?: string; schema: { example?: string } }[];
  requestBody?: { content: Record<string, { example?: object }> };
  responses: Record<string, { content?: object }>;
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
  'Webhooks_replay',
];
/** About something that a new service does not have. */
const NOTHING_THERE = [
  'DeadLetters_acknowledge',
  'Decisions_get',
  'Decisions_notice',
  'Disputes_answer',
  'Disputes_open',
  'Ingestion_get',
  'Jobs_result',
  'Operations_drop',
  'Operations_rollback',
  'Person_export',
  'ValidationPolicies_promotion',
  'Verifications_get',
  'Verifications_removeRoot',
  'Verifications_retire',
  'Webhooks_redeliver',
  'Webhooks_test',
  'Withdrawals_affected',
  'Withdrawals_get',
  'Withdrawals_reinstate',
  'Withdrawals_withdraw',
];
/** They need a parameter that an example does not have. */
const NEEDS_PARAMETER = ['Audit_consistency', 'Audit_inclusion'];
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

let folder: string;
let server: Server;
let operations: Operation[];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'credence-examples-'));
  const keys = join(folder, 'keys.json');
  const keyOf = (id: string, scopes: readonly string[]) => ({ id, sha256: sha256Hex(id), scopes });
  writeFileSync(keys, JSON.stringify([keyOf('operator', SCOPES), keyOf('reviewer', ['trove:review'])]));
  server = await Server.start({ env: { CREDENCE_API_KEYS: keys } });
  const { paths } = (await server.send('GET', '/openapi.json')).json as {
    paths: Record<string, Record<string, Operation>>;
  };
  operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
});
afterAll(async () => {
  await server.end();
  rmSync(folder, { recursive: true, force: true });
});

const exampleOf = ({ requestBody }: Operation) => requestBody?.content['application/json']?.example;
const isPublic = ({ security }: Operation) =>
  security.length === 0 || security.some((way) => Object.keys(way).length === 0);

test('every operation with a body has an example, apart from those whose bodies nobody can write down', () => {
  const without = operations.filter((operation) => operation.requestBody && !exampleOf(operation));
  expect(without.map(({ operationId }) => operationId).sort()).toEqual(WITHOUT_EXAMPLE);
});

test('each succeeds, is known by its ETag, and what it created is at its Location', async () => {
  const phase = ({ operationId, method }: Operation): number => {
    if (FIRST.includes(operationId)) return FIRST.indexOf(operationId);
    if (method === 'DELETE' || ENDS.test(operationId)) return 102;
    return method === 'POST' ? 100 : 101;
  };
  const left = new Set([...WITHOUT_EXAMPLE, ...NOTHING_THERE, ...NEEDS_PARAMETER]);
  // A stream of events has no end.
  const isEndless = ({ responses }: Operation) => 'text/event-stream' in (responses['200']?.content ?? {});
  const sent = operations
    .filter((operation) => !left.has(operation.operationId) && !isEndless(operation))
    .sort((a, b) => phase(a) - phase(b));
  const known: Record<string, string> = {};
  let position: string | undefined;
  const wrong: string[] = [];
  for (const operation of sent) {
    const { method, operationId, parameters, responses } = operation;
    const path = operation.path.replace(/\{(\w+)\}/g, (_all, name: string) => {
      const parameter = parameters.find((one) => one.in === 'path' && one.name === name);
      return known[name] ?? parameter?.example ?? parameter?.schema.example ?? `no-example-of-${name}`;
    });
    // Nobody reviews what the same key submitted.
    const key = isPublic(operation) ? (false as const) : operationId === 'Trove_review' ? 'reviewer' : 'operator';
    const waits = position !== undefined && parameters.some(({ name }) => name === 'Credence-Min-Position');
    const headers: Record<string, string> = waits ? { 'credence-min-position': position! } : {};
    const ask = (more: Record<string, string> = {}) =>
      server.request(method, path, { key, body: exampleOf(operation), headers: { ...headers, ...more } });
    let answer = await ask();
    // Another promotion is refused until the read models have switched.
    if (answer.json?.code === 'promotion_conflict') {
      const isTaken = async () => (answer = await ask()).json?.code !== 'promotion_conflict';
      await eventually(isTaken, 'the end of the other promotion');
    }
    position = (answer.headers['credence-position'] as string | undefined) ?? position;
    for (const name of ['replay_id', 'webhook_id']) if (answer.json?.[name]) known[name] ??= answer.json[name];
    if (known['replay_id']) known['job_id'] ??= known['replay_id'];
    if (answer.status < 200 || answer.status > 299) wrong.push(`${operationId} ${method} ${path}: ${answer.text}`);
    if ('304' in responses && (await ask({ 'if-none-match': String(answer.headers.etag) })).status !== 304) {
      wrong.push(`${operationId} does not know its ETag ${answer.headers.etag}`);
    }
    if (answer.status === 201) {
      const location = String(answer.headers.location);
      const after = { 'credence-min-position': String(position) };
      const created = await server.send('GET', location, { key: 'operator', headers: after });
      if (created.status !== 200) wrong.push(`${operationId} has the Location ${location}: ${created.text}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(sent.length).toBeGreaterThan(60);
});
