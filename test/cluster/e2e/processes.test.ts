import { type IncomingMessage, get } from 'node:http';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import type { Body, CredenceClient, Data } from '../../../clients/typescript/src/client.js';
import { eventually } from '../../contracts/harness.js';
import { ACTION, type Answer, Server, expectProblem, expectRefusal, unique } from '../../e2e/server.js';
import { configuration } from '../../policies/configuration.js';
import { Cluster, describeOnOwnCluster } from '../../servers/cluster.js';
import { Receiver } from '../../webhooks/receiver.js';

/** Several API processes are one service: whatever holds in one process holds across them. */

const LIMIT = 60;
/** ms; a time limit for a busy machine. */
const LONG = 240_000;

describeOnOwnCluster('several API processes and a worker', () => {
  let cluster: Cluster;
  let worker: Server;
  let members: Server[];
  let a: Server;
  let b: Server;
  beforeAll(async () => {
    cluster = await Cluster.start();
    const env = {
      ...cluster.env,
      CREDENCE_RATE_LIMIT: String(LIMIT),
      // So each test can be a client of its own.
      CREDENCE_TRUST_PROXY: 'on',
      CREDENCE_WEBHOOK_LOOPBACK: 'on',
      // Sessions see the feed where everyone does.
      CREDENCE_PUBLIC_READS: 'all',
    };
    const roles = ['worker', 'api', 'api'];
    const servers = await Promise.all(
      roles.map((CREDENCE_ROLES) => Server.process({ ...env, CREDENCE_ROLES }, cluster.key)),
    );
    [worker, a, b] = servers as [Server, Server, Server];
    members = [a, b];
  }, LONG);
  afterAll(async () => {
    await Promise.all([worker, ...(members ?? [])].map((server) => server?.stop()));
    await cluster?.stop();
  }, LONG);

  /** The same request to all processes at once, several times to each. */
  const toAll = (request: (member: Server) => Promise<Answer>): Promise<Answer[]> =>
    Promise.all([...members, ...members, ...members, ...members].map(request));
  const about = (tris_id: string) => ({ params: { path: { tris_id } } });
  const relay = ({ client }: Server, action: Partial<typeof ACTION>) =>
    client.post('/api/decision-relay', { body: { ...ACTION, ...action } });
  /** The reader's client, whose requests see what the writer's has done. */
  const afterwards = (writer: Server, { client }: Server) => {
    client.position = writer.client.position;
    return client;
  };
  const statusesOf = (answers: Answer[]): number[] => answers.map(({ status }) => status).sort();

  test('records one action for one idempotency key or external id, whichever processes get it', async () => {
    for (const [action, headers] of [
      [{ external_id: unique('external') }, {}],
      [{}, { 'idempotency-key': unique('key') }],
      [{ external_id: unique('external') }, { 'idempotency-key': unique('key') }],
    ] as [object, Record<string, string>][]) {
      const tris_id = unique();
      const answers = await toAll((member) => member.relay({ tris_id, ...action }, headers));
      expect(statusesOf(answers)).toEqual(Array(8).fill(202));
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
      const { json } = await a.getAfter(answers[0]!, `/v1/disc/score/${tris_id}/history`);
      expect(json.entries).toHaveLength(1);
      const other = await b.relay({ tris_id, ...action, criticality: 'low' }, headers);
      expect([409, 422]).toContain(other.status);
    }
  });

  test('decides once where two processes decide at once', async () => {
    const platform_id = unique('platform');
    const claims = await toAll((member) =>
      member.post('/v1/organizations', { tris_org: unique('tris:org'), platform_ids: [platform_id] }),
    );
    expect(statusesOf(claims)).toEqual([201, ...Array(7).fill(409)]);

    const relays = Array.from({ length: 40 }, (_, n) => members[n % 2]!.relay({ tris_id: 'tris:crowded' }));
    const answers = await Promise.all(relays);
    expect(statusesOf(answers)).toEqual(Array(40).fill(202));
    const positions = answers.map(({ headers }) => headers['credence-position']);
    expect(new Set(positions).size).toBe(40);
  });

  test('reads what another process has acknowledged, at the position of its answer', async () => {
    for (let n = 1; n <= 10; n++) {
      const [writer, reader] = n % 2 === 0 ? [a, b] : [b, a];
      await relay(writer, { tris_id: 'tris:seen', criticality: 'Low' });
      const seen = await afterwards(writer, reader).get('/v1/disc/score/{tris_id}/history', about('tris:seen'));
      expect(seen.data.entries).toHaveLength(n);
    }
  });

  test('sees policies, retirements and switched lenses of another process', async () => {
    const tris_id = unique();
    await relay(a, { tris_id });
    const body = {
      policy_id: 'VP_SHARED_V1',
      tris_org: 'tris:lender',
      inputs: configuration([{ metric: 'finance_loan_repayment', criticality: 'Critical', weight: 0.14 }]),
      metadata: { total_weight: 1, visibility: 'public', version: 'v1.0' },
    } as Body<'post', '/v1/policies/vp'>;
    const vp = { params: { path: { policy_id: 'VP_SHARED_V1' } } };
    expect((await a.client.post('/v1/policies/vp', { body })).response.status).toBe(201);
    expect((await b.client.get('/v1/policies/vp/{policy_id}', vp)).data).toMatchObject({ policy_id: 'VP_SHARED_V1' });
    const lens = async (client: CredenceClient) =>
      (await client.get('/v1/disc/score/{tris_id}', about(tris_id))).data.lens.policy_id;
    expect(await lens(b.client)).toBeNull();
    await a.client.post('/v1/policies/vp/{policy_id}/promote', { ...vp, body: { scope: 'platform' } });
    expect(await lens(afterwards(a, b))).toBe('VP_SHARED_V1');
    await b.client.post('/v1/policies/vp/{policy_id}/rollback', { ...vp, body: { scope: 'platform' } });
    expect(await lens(afterwards(b, a))).toBeNull();

    const [policy_id, rules] = ['AP_SHARED_V1', { disc_min: 1 }];
    expect((await a.client.post('/v1/policies/ap', { body: { policy_id, rules } })).response.status).toBe(201);
    const check = ({ client }: Server) =>
      client.post('/v1/policies/ap/check', { body: { policy_id, subject_tris: tris_id } });
    for (const member of members) expect((await check(member)).data).toMatchObject({ policy_id });
    await a.client.post('/v1/policies/ap/{policy_id}/retire', { params: { path: { policy_id } } });
    for (const member of members) await expectRefusal(check(member), 409, 'policy_not_active');
  });

  test('sees an organization and its platforms as soon as another process has answered', async () => {
    const [tris_org, platform_id] = [unique('tris:org'), unique('platform')];
    const body = { tris_org, platform_ids: [platform_id] };
    expect((await a.client.post('/v1/organizations', { body })).response.status).toBe(201);
    const organization = async (client: CredenceClient) =>
      (await client.get('/v1/organizations/{tris_id}', about(tris_org))).data;
    expect(await organization(b.client)).toMatchObject({ platform_ids: [platform_id] });
    await b.client.post('/v1/organizations/{tris_id}/vet', about(tris_org));
    expect(await organization(afterwards(b, a))).toMatchObject({ vetted: true });
  });

  test('lets no process change the keys, whose file is shared with other machines', async () => {
    for (const member of members) {
      const answer = await member.post('/v1/ops/keys', { key_id: unique('key'), scopes: ['relay:write'] });
      expectProblem(answer, 409, 'keys_read_only');
    }
  });

  test('limits the requests of a client to all processes together', async () => {
    const from = { 'x-forwarded-for': '198.51.100.1' };
    const each = Array.from({ length: LIMIT + 20 }, (_, n) =>
      members[n % 2]!.send('GET', '/v1/disc/score/tris:nobody', { headers: from, key: false }),
    );
    const answers = await Promise.all(each);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20);
    const left = answers
      .filter(({ status }) => status !== 429)
      .map(({ headers }) => Number(headers['ratelimit-remaining']));
    expect(left.sort((x, y) => x - y)).toEqual(Array.from({ length: LIMIT }, (_, n) => n));
  });

  test('takes a sign-in that another process began, once, and knows its session everywhere', async () => {
    const wallet = privateKeyToAccount(generatePrivateKey());
    const from = { 'x-forwarded-for': '198.51.100.2' };
    const anyone = (member: Server, path: string, body: object) =>
      member.send('POST', path, { headers: from, body, key: false });
    const { message } = (await anyone(a, '/v1/tris/auth/siwe/start', { address: wallet.address, chain_id: 1 })).json;
    const signature = await wallet.signMessage({ message });
    const answers = await toAll((member) => anyone(member, '/v1/tris/auth/siwe/verify', { message, signature }));
    const accepted = answers.filter(({ status }) => status === 200);
    expect(accepted).toHaveLength(1);

    const first = accepted[0]!.json.refresh_token;
    const refresh = (member: Server, refresh_token: string) =>
      anyone(member, '/v1/tris/token/refresh', { refresh_token });
    const second = (await refresh(b, first)).json.refresh_token;
    // Within the time of grace the first token gets the same successor, also from another process.
    expect((await refresh(a, first)).json.refresh_token).toBe(second);
    const headers = { ...from, authorization: `Bearer ${accepted[0]!.json.access_token}` };
    const open = ({ url }: Server) =>
      new Promise<IncomingMessage>((opened, failed) => {
        get(`${url}/v1/disc/changes/stream`, { headers, agent: false }, opened).on('error', failed);
      });
    const streams = await Promise.all(members.map(open));
    const ended = streams.map((stream) => new Promise((resolve) => stream.once('end', resolve).resume()));
    expect(streams.map(({ statusCode }) => statusCode)).toEqual(streams.map(() => 200));
    expect((await anyone(a, '/v1/tris/token/revoke', { refresh_token: second })).status).toBeLessThan(300);
    await Promise.all(ended);
    expectProblem(await refresh(b, second), 401, 'refresh_revoked');
  });

  test('streams the changes that another process writes', async () => {
    const texts = ['', ''];
    const streams = members.map(
      (member, n) =>
        new Promise<() => void>((opened, failed) => {
          const headers = { 'x-api-key': member.key };
          const request = get(`${member.url}/v1/disc/changes/stream`, { headers, agent: false }, (response) => {
            response.on('error', () => undefined);
            response.on('data', (chunk: Buffer) => {
              texts[n] += chunk.toString();
              opened(() => request.destroy());
            });
          });
          request.on('error', failed);
        }),
    );
    const close = await Promise.all(streams);
    const ids = members.map(() => unique('tris:streamed'));
    await Promise.all(members.map((member, n) => member.relay({ tris_id: ids[n] })));
    for (const id of ids) await eventually(() => texts.every((text) => text.includes(id)), `${id} in both streams`);
    for (const end of close) end();
  });

  test('delivers a webhook once, whichever process recorded what it tells', async () => {
    const receiver = new Receiver();
    await receiver.start();
    try {
      const ids = Array.from({ length: 8 }, () => unique('tris:told'));
      const body: Body<'post', '/v1/webhooks'> = {
        url: receiver.url,
        events: ['bad_status.changed'],
        filter: { tris_ids: ids },
      };
      const { data: webhook } = await a.client.post('/v1/webhooks', { body });
      const bad = { level: 3, reason_code: 'fraud' };
      await Promise.all(
        ids.map((id, n) =>
          members[n % 2]!.client.post('/v1/identities/{tris_id}/bad-status', { ...about(id), body: bad }),
        ),
      );
      const path = { webhook_id: webhook.webhook_id };
      await eventually(async () => {
        const { data } = await b.client.get('/v1/webhooks/{webhook_id}/deliveries', { params: { path } });
        return data.deliveries.filter(({ status }) => status === 'delivered').length === ids.length;
      }, 'all deliveries');
      const told = receiver.verified(webhook.secret, 'bad_status.changed').map(({ tris_id }) => tris_id);
      expect(told.sort()).toEqual([...ids].sort());
    } finally {
      await receiver.stop();
    }
  });

  test('runs a job once, and every process knows of it', async () => {
    const header = { 'Idempotency-Key': 'rebuild-1' };
    const started = await Promise.all(
      members.map(({ client }) => client.post('/v1/ops/rebuild', { body: {}, params: { header } })),
    );
    expect(started.map(({ response }) => response.status)).toEqual([202, 202]);
    const [job_id, same] = started.map(({ data }) => data.job_id) as [string, string];
    expect(same).toBe(job_id);
    let jobs: Data<'get', '/v1/jobs/{job_id}'>[] = [];
    await eventually(async () => {
      const asked = members.map(({ client }) => client.get('/v1/jobs/{job_id}', { params: { path: { job_id } } }));
      jobs = (await Promise.all(asked)).map(({ data }) => data);
      return jobs.every(({ status }) => status === 'completed');
    }, 'the job');
    expect(jobs[0]).toEqual(jobs[1]);
    const { data: status } = await b.client.get('/v1/ops/status');
    expect(status.generations.map(({ id }) => id)).toEqual(['g1', 'g2']);
  });
});
