import fc from 'fast-check';
import { Server } from '../e2e/server.js';
import { OpenApi } from '../e2e/openapi.js';
import { Progress, SEED, limit, repeated, verified } from './faults.js';
import { type FuzzRequest, Memory, requests } from './requests.js';

/** Whatever is sent to whichever documented address: no answer is 5xx, and every answer is as its document says. */

const RUNS = repeated(400, 3_000);

let server: Server;
beforeAll(async () => void (server = await Server.start()));

test(
  `${RUNS} requests made from the OpenAPI document are answered as it says, and none with 5xx`,
  async () => {
    const { json: document } = await server.send('GET', '/openapi.json');
    const openApi = new OpenApi(document);
    const memory = new Memory();
    await seed(memory);
    const statuses = new Map<number, number>();
    const progress = new Progress('fuzz', RUNS);

    const property = fc.asyncProperty(requests(document), async (template) => {
      const request = template(memory);
      const { method, path, headers, body, key } = request;
      let answer: Answer;
      try {
        answer = await server.send(method, path, { headers, body, ...(!key && { key: false as const }) });
        judge(openApi, request, answer);
      } catch (error) {
        throw new Error(`${shown(request)}\n${(error as Error).message}`, { cause: error });
      }
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      if (answer.status < 300) memory.learn(answer.json);
      const position = answer.headers['credence-position'];
      if (typeof position === 'string') memory.add('credence-position', position);
      progress.step();
    });
    // No shrinking: what an earlier request left behind is part of the finding, and the request is shown whole.
    await fc.assert(property, { numRuns: RUNS, seed: SEED, endOnFailure: true });
    progress.end(
      [...statuses]
        .sort(([a], [b]) => a - b)
        .map(([status, count]) => `${status}: ${count}`)
        .join(', '),
    );

    // Of each kind enough to mean something.
    for (const status of [200, 201, 202, 400, 404])
      expect([status, statuses.get(status) ?? 0]).toEqual([status, expect.any(Number)]);
    expect((await server.send('GET', '/health/ready')).status).toBe(200);
    expect(server.errors.join('')).not.toContain('"level":"error"');
    await verified(server.data);
  },
  limit(600_000),
);

type Answer = Awaited<ReturnType<Server['send']>>;

function judge(openApi: OpenApi, { method, path }: FuzzRequest, answer: Answer): void {
  if (answer.status >= 500) throw new Error(`answered ${answer.status}: ${answer.text}`);
  if (!answer.headers['x-request-id']) throw new Error('has no X-Request-Id');
  if (/node_modules|\bat .+\.[jt]s:\d+/.test(answer.text)) throw new Error(`tells its inside: ${answer.text}`);
  if (answer.status === 304 || method === 'HEAD' || (method === 'OPTIONS' && answer.status === 204)) {
    if (answer.text !== '') throw new Error(`has a body: ${answer.text}`);
    return;
  }
  if (openApi.expectAnswer(method, path, answer)) return;
  if (/^\/(?:$|\?|console|docs|metrics|openapi\.json)/.test(path)) return;
  if (![400, 401, 403, 404, 405, 413, 414, 415].includes(answer.status))
    throw new Error(`is no refusal: ${answer.status} ${answer.text}`);
  openApi.expectProblem(answer);
}

const shorten = (text: string) => (text.length > 2_000 ? `${text.slice(0, 2_000)}… (${text.length} characters)` : text);
const shown = ({ method, path, headers, body, key }: FuzzRequest) =>
  shorten(`${method} ${path} ${JSON.stringify({ ...headers, ...(!key && { key: 'none' }) })} ${body ?? ''}`);

/** Something to ask about. */
async function seed(memory: Memory): Promise<void> {
  const metadata = { total_weight: 1, visibility: 'public', version: 'v1.0' };
  const inputs = [{ metric: 'social_vouch', criticality: 'High', weight: 0.1 }];
  const bodies: [path: string, body: object][] = [
    ['/v1/organizations', { tris_org: 'tris:org', platform_ids: ['org-app'] }],
    [
      '/api/decision-relay',
      { tris_id: 'tris:a', action_type: 'vouch', category: 'social', criticality: 'High', platform_id: 'org-app' },
    ],
    [
      '/api/decision-relay',
      { tris_id: 'tris:b', action_type: 'loan', category: 'finance', criticality: 'Low', platform_id: 'other' },
    ],
    ['/v1/policies/vp', { policy_id: 'VP_A_V1', tris_org: 'tris:org', inputs, metadata }],
    ['/v1/policies/ap', { policy_id: 'AP_A_V1', rules: { disc_min: 5 } }],
    ['/v1/policies/ap/check', { policy_id: 'AP_A_V1', subject_tris: 'tris:a' }],
  ];
  for (const [path, body] of bodies) {
    memory.learn(body);
    memory.learn((await server.post(path, body)).json);
  }
}
