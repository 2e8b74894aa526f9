import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Answer, CredenceClient } from '../../clients/typescript/src/client.js';
import { ACTION, Server, loseReadModels, unique } from './server.js';

/** What survives a restart and the loss of the read models. */

const folders: string[] = [];
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'credence-restart-'));
  folders.push(path);
  return path;
}
afterAll(() => Promise.all(folders.map((path) => rm(path, { recursive: true, force: true }))));

test('after a restart and a rebuild, equal coordinates give equal bytes', async () => {
  const data = await folder();
  let server = await Server.start({ data });
  const [id, org, platform_id] = [unique(), unique('tris:org'), unique('p')];
  const { client } = server;
  await client.post('/v1/organizations', { body: { tris_org: org, platform_ids: [platform_id] } });
  await client.post('/v1/organizations/{tris_id}/vet', { params: { path: { tris_id: org } } });
  const relay = (action: Partial<typeof ACTION>) =>
    client.post('/api/decision-relay', { body: { ...ACTION, tris_id: id, ...action } });
  const once = (by: CredenceClient) =>
    by.post('/api/decision-relay', {
      body: { ...ACTION, tris_id: id, platform_id, external_id: 'once' },
      params: { header: { 'Idempotency-Key': 'once' } },
    });
  const relayed = await once(client);
  await relay({ criticality: 'Low', occurred_at: '2024-05-01T00:00:00Z' });
  await relay({ action_type: 'default_flags', criticality: 'Minimal' });
  const identity = { params: { path: { tris_id: id } } };
  const grant = { status: 'zk-KYH', evidence_hash: '0'.repeat(64) } as const;
  await client.post('/v1/identities/{tris_id}/verifications', { ...identity, body: grant });
  const bad = { level: 5, reason_code: 'spam' } as const;
  await client.post('/v1/identities/{tris_id}/bad-status', { ...identity, body: bad });
  const { data: now } = await client.get('/v1/disc/score/{tris_id}', identity);

  const at = `as_of=${now.as_of}&as_of_position=${now.position}`;
  const addresses = [
    `/v1/disc/score/${id}?${at}`,
    `/v1/disc/score/${id}?as_of=2024-06-01T00:00:00Z&as_of_position=${now.position}`,
    `/v1/disc/score/${id}/history?${at}`,
    `/v1/disc/score/${id}/explain?${at}`,
    `/api/tris-validations/${id}`,
    `/api/disc-rank/${org}`,
    `/v1/organizations/${org}`,
    '/v1/organizations',
    '/v1/disc/changes',
    '/.well-known/jwks.json',
  ];
  const last = { headers: { 'credence-min-position': client.position! } };
  const read = async () => {
    const texts: string[] = [];
    for (const address of addresses) texts.push((await server.get(address, last)).text);
    const query = { as_of: now.as_of, as_of_position: now.position };
    const report = await server.client.get('/v1/disc/report/{tris_id}', { params: { path: { tris_id: id }, query } });
    return [...texts, report.data.report_id];
  };
  const before = await read();
  const { key } = server;

  expect(await server.stop()).toBe(0);
  server = await Server.start({ data });
  expect(server.key).toBe(key);
  expect(await read()).toEqual(before);

  expect(await server.stop()).toBe(0);
  await loseReadModels(data);
  server = await Server.start({ data });
  expect(await read()).toEqual(before);

  const same = ({ data, response }: Answer<unknown>) => ({
    status: response.status,
    data,
    position: response.headers.get('credence-position'),
  });
  expect(same(await once(server.client))).toEqual(same(relayed));
  await server.end();
});
