import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Answer, Server, loseReadModels, unique } from './server.js';

/** What survives a restart and the loss of the read models, and what several servers of one store see of each other. */

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
  await server.post('/v1/organizations', { tris_org: org, platform_ids: [platform_id] });
  await server.post(`/v1/organizations/${org}/vet`);
  const external = { tris_id: id, platform_id, external_id: 'once' };
  const headers = { 'idempotency-key': 'once' };
  const relayed = await server.relay(external, headers);
  await server.relay({ tris_id: id, criticality: 'low', occurred_at: '2024-05-01T00:00:00Z' });
  await server.relay({ tris_id: id, action_type: 'default_flags', criticality: 'minimal' });
  await server.post(`/v1/identities/${id}/verifications`, { status: 'zk-KYH', evidence_hash: '0'.repeat(64) });
  const write = await server.post(`/v1/identities/${id}/bad-status`, { level: 5, reason_code: 'spam' });
  const { json: now } = await server.getAfter(write, `/v1/disc/score/${id}`);

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
  const read = async () => {
    const texts: string[] = [];
    for (const address of addresses) texts.push((await server.getAfter(write, address)).text);
    const { report_id } = (await server.get(`/v1/disc/report/${id}?${at}`)).json;
    return [...texts, report_id];
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

  const same = ({ status, json, headers }: Answer) => ({ status, json, position: headers['credence-position'] });
  expect(same(await server.relay(external, headers))).toEqual(same(relayed));
  await server.end();
});

test('a second server on the same folder sees what the first one writes', async () => {
  const data = await folder();
  const first = await Server.start({ data });
  const second = await Server.start({ data });
  const action = { tris_id: unique(), external_id: 'shared' };
  const write = await first.relay(action);
  expect((await second.getAfter(write, `/api/disc-score/${action.tris_id}`)).json.total_tct).toBe(100);
  expect((await second.relay(action)).json).toEqual(write.json);
  await second.stop();
  await first.end();
});
