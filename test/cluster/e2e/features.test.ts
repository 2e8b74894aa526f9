import { generateKeyPairSync, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PLATFORM_LENS_STREAM } from '../../../src/features/lenses/domain/lens-stream.js';
import { sha256Hex } from '../../../src/kernel/hash.js';
import { EventStoreDbEventStore } from '../../../src/stores/eventstoredb/eventstoredb-event-store.js';
import { becomes } from '../../contracts/harness.js';
import { ACTION, type Answer, Server } from '../../e2e/server.js';
import { Anvil } from '../../servers/anvil.js';
import { Cluster, describeOnOwnCluster } from '../../servers/cluster.js';
import { compile } from '../../../contracts/tools.mjs';
import {
  type Tokens,
  bearer,
  call,
  claim,
  codeOf,
  consent,
  newAccount,
  signIn,
  start,
  verify,
} from '../../sessions/wallet.js';
import { Receiver } from '../../webhooks/receiver.js';
import { bound, prove, schemeBody } from '../../verifications/proofs.fixture.js';

/** What keeps something between two requests, each sent to another API process; jobs run in a worker. */

const CHAIN = 31337;
/** ms; a time limit for a busy machine. */
const LONG = 180_000;

interface StreamEvent {
  event: string;
  id: string;
  data: any;
}

/** The events of a stream of changes, until the caller has enough. */
async function* eventsOf(
  server: Server,
  query: string,
  headers: Record<string, string> = {},
): AsyncGenerator<StreamEvent, undefined> {
  const url = `${server.url}/v1/disc/changes/stream${query}`;
  const response = await fetch(url, { headers: { 'x-api-key': server.key, ...headers } });
  let text = '';
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + chunk).split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)));
      if (fields.event) yield { ...fields, data: JSON.parse(fields.data) };
    }
  }
}

describeOnOwnCluster('two API processes and a worker', () => {
  let cluster: Cluster;
  let anvil: Anvil;
  let env: Record<string, string>;
  let lender: `0x${string}`;
  let servers: Server[];
  let apis: { port: number; server: Server }[];
  const { History } = compile('test/ingestion/history.sol');

  beforeAll(async () => {
    [cluster, anvil] = await Promise.all([Cluster.start(), Anvil.start(CHAIN)]);
    lender = await anvil.deploy(History!);
    const contracts = join(cluster.folder, 'contracts.json');
    writeFileSync(contracts, JSON.stringify({ [CHAIN]: [{ address: lender, protocol: 'aave-v3' }] }));
    env = {
      ...cluster.env,
      CREDENCE_PUBLIC_URL: 'https://credence.example',
      // Sessions see the feed where everyone does.
      CREDENCE_PUBLIC_READS: 'all',
      CREDENCE_CHAIN_CONTRACTS: contracts,
      [`CREDENCE_RPC_${CHAIN}`]: anvil.url,
      CREDENCE_WEBHOOK_LOOPBACK: 'on',
    };
    const roles = ['worker', 'api', 'api'];
    servers = await Promise.all(roles.map((CREDENCE_ROLES) => Server.process({ ...env, CREDENCE_ROLES }, cluster.key)));
    apis = servers.slice(1).map((server) => ({ server, port: Number(new URL(server.url).port) }));
  }, LONG);
  afterAll(async () => {
    await Promise.all((servers ?? []).map((server) => server.stop()));
    await Promise.all([cluster?.stop(), anvil?.stop()]);
  }, LONG);

  const refresh = (n: number, { refresh_token }: Tokens) => call(apis[n]!, '/v1/tris/token/refresh', { refresh_token });
  const after = (write: { headers: Record<string, unknown> }) => ({
    'credence-min-position': String(write.headers['credence-position']),
  });

  test('webhooks are delivered by a worker, and by the next one when it has ended', async () => {
    const receiver = new Receiver();
    await receiver.start();
    try {
      const [api, other] = apis.map(({ server }) => server) as [Server, Server];
      const created = await api.post('/v1/webhooks', { url: receiver.url, events: ['bad_status.changed'] });
      expect(created.status).toBe(201);
      const { webhook_id, secret } = created.json;
      const setBad = (level: number) =>
        other.post('/v1/identities/tris:told/bad-status', { level, reason_code: 'fraud' });
      const levels = async (count: number) => {
        await becomes(
          async () => receiver.received.length,
          (received) => received >= count,
        );
        return receiver.verified(secret, 'bad_status.changed').map(({ level }) => level);
      };
      await setBad(6);
      expect(await levels(1)).toEqual([6]);
      await servers[0]!.stop();
      await setBad(5);
      servers[0] = await Server.process({ ...env, CREDENCE_ROLES: 'worker' }, cluster.key);
      expect(await levels(2)).toEqual([6, 5]);
      const listed = await becomes(
        () => other.get(`/v1/webhooks/${webhook_id}/deliveries`, { key: cluster.key }),
        ({ json }) => json.deliveries.every(({ status }: { status: string }) => status === 'delivered'),
      );
      expect(listed.json.deliveries).toHaveLength(2);
    } finally {
      await receiver.stop();
    }
  });

  test('a batch relayed at one process is streamed by the other, and the stream goes on at the first', async () => {
    const [api, other] = apis.map(({ server }) => server) as [Server, Server];
    const tris = Array.from({ length: 20 }, (_, n) => `tris:streamed-${n}`);
    const relayAll = async () => {
      const actions = tris.map((tris_id) => ({ ...ACTION, tris_id }));
      const { status, json } = await api.post('/v1/decision-relay/batch', { actions });
      expect([status, json.results.map((result: Answer) => result.status)]).toEqual([200, tris.map(() => 202)]);
    };
    /** The identities of the next changes, and the id of the last. */
    const next = async (stream: AsyncIterator<StreamEvent>, count: number) => {
      const changes: StreamEvent[] = [];
      while (changes.length < count) {
        const { value } = await stream.next();
        if (value.event === 'change') changes.push(value);
      }
      return { seen: changes.map(({ data }) => data.tris_id).sort(), last: changes.at(-1)!.id };
    };
    const first = eventsOf(other, `?tris_ids=${tris.join(',')}`);
    expect((await first.next()).value).toMatchObject({ event: 'heartbeat' });
    await relayAll();
    const { seen, last } = await next(first, tris.length);
    expect(seen).toEqual([...tris].sort());
    await first.return(undefined);
    // What happens meanwhile is not lost.
    await relayAll();
    const second = eventsOf(api, `?tris_ids=${tris.join(',')}`, { 'last-event-id': last });
    expect((await next(second, tris.length)).seen).toEqual([...tris].sort());
    await second.return(undefined);
  });

  test('a stream at one process ends when its session is ended at the other', async () => {
    const [api, other] = apis as [(typeof apis)[0], (typeof apis)[0]];
    const tokens: Tokens = (await signIn(api, newAccount())).json;
    const headers = bearer(tokens);
    const stream = await fetch(`${other.server.url}/v1/disc/changes/stream`, { headers });
    expect(stream.status).toBe(200);
    const { refresh_token } = tokens;
    expect((await call(api, '/v1/tris/token/revoke', { refresh_token })).status).toBe(200);
    expect(await stream.text()).toMatch(/: the session of this stream has ended\n\n$/);
    expect((await fetch(`${other.server.url}/v1/disc/changes/stream`, { headers })).status).toBe(401);
  });

  test('processes started at once begin the log once; a switch of the model at one is served by the other', async () => {
    const log = await EventStoreDbEventStore.open({ url: cluster.eventStored.url });
    const begun = await log.readStream(PLATFORM_LENS_STREAM).finally(() => log.close());
    expect(begun.map(({ type }) => type)).toEqual(['ModelActivated']);

    const [api, other] = apis.map(({ server }) => server) as [Server, Server];
    const action = { tris_id: 'tris:switched', criticality: 'critical' };
    await api.relay(action);
    const seen = async (at: Server, write: Answer) => {
      const { json } = await at.getAfter(write, `/v1/disc/score/${action.tris_id}`);
      return [json.model.id, json.total_tct];
    };
    expect(await seen(other, await api.relay(action))).toEqual(['disc-2', 140]);
    expect(await seen(other, await api.post('/v1/models/disc-2/rollback'))).toEqual(['disc-1', 280]);
    const { replay_id } = (await api.post('/v1/models/disc-2/replay')).json;
    const replay = async () => (await other.get(`/v1/replays/${replay_id}`)).json;
    const { result } = await becomes(replay, ({ status }) => !['queued', 'running'].includes(status));
    expect(result).toMatchObject({ before: { model: { id: 'disc-1' } }, after: { model: { id: 'disc-2' } } });
    const promoted = await other.post('/v1/models/disc-2/promote', { replay_id });
    expect([promoted.status, await seen(api, promoted)]).toEqual([200, ['disc-2', 140]]);
  });

  test('a sign-in started at one process is completed at the other, once', async () => {
    const wallet = newAccount();
    const { message } = await start(apis[0]!, wallet.address);
    const signature = await wallet.signMessage({ message });
    const answers = await Promise.all(
      apis.flatMap((api) => [verify(api, message, signature), verify(api, message, signature)]),
    );
    expect(answers.map(codeOf).sort()).toEqual([
      [200, undefined],
      [401, 'nonce_used'],
      [401, 'nonce_used'],
      [401, 'nonce_used'],
    ]);
  });

  test('a session is refreshed at either process, and a reused token ends it at both', async () => {
    const first = await claim(apis[0]!, newAccount());
    const [one, other] = await Promise.all([refresh(1, first), refresh(0, first)]);
    expect([one.status, other.status, one.json.refresh_token]).toEqual([200, 200, other.json.refresh_token]);
    const third = (await refresh(0, one.json)).json as Tokens;
    expect(codeOf(await refresh(1, first))).toEqual([401, 'refresh_reused']);
    expect(codeOf(await refresh(0, third))).toEqual([401, 'refresh_revoked']);
  });

  test('a wallet linked at one process signs in to its TRIS at the other, until it is unlinked', async () => {
    const owner = await claim(apis[0]!, newAccount());
    const second = newAccount();
    const linked = await call(
      apis[0]!,
      '/v1/wallets/link',
      await consent(apis[1]!, second, owner.tris_id),
      bearer(owner),
    );
    expect([linked.status, linked.json.tris_id]).toEqual([200, owner.tris_id]);
    expect((await signIn(apis[1]!, second)).json.tris_id).toBe(owner.tris_id);
    const unlinked = await call(apis[1]!, '/v1/wallets/unlink', { wallet: second.address }, bearer(owner));
    expect(unlinked.status).toBe(200);
    expect((await signIn(apis[0]!, second)).json.tris_id).toBeNull();
  });

  test('a record of the trove with a proof is verified by the worker', async () => {
    const [api, other] = apis.map(({ server }) => server) as [Server, Server];
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const ed25519 = (publicKey.export({ format: 'jwk' }) as { x: string }).x;
    await api.post('/v1/organizations', { tris_org: 'tris:university', platform_ids: ['university.example'] });
    await api.post('/v1/trove-issuers', { issuer_id: 'lab', platform_id: 'university.example', ed25519 });
    const record = {
      tris_id: 'tris:maker',
      record_type: 'milestone',
      metric: 'creative_code_contribution',
      criticality: 'high',
      title: 'Release 1',
      content_hash: sha256Hex('release 1'),
      uri: 'https://example.com/releases/1',
      occurred_at: '2026-01-31T12:00:00Z',
    };
    expect((await api.post('/v1/trove/submit', record)).json.status).toBe('Pending');
    const read = async () => (await other.get(`/v1/trove/${record.content_hash}`)).json;
    const signature = sign(null, Buffer.from((await read()).statement), privateKey).toString('base64url');
    const proof = { type: 'signature', issuer: 'lab', signature };
    expect((await other.post('/v1/trove/submit', { ...record, proof })).status).toBe(202);
    const { decision } = await becomes(read, ({ status }) => status !== 'Pending');
    expect(decision).toMatchObject({ method: 'signature' });
    const score = () => other.get(`/api/disc-score/${record.tris_id}`);
    expect((await becomes(score, ({ status }) => status === 200)).json.total_tct).toBe(100);
  });

  test(
    'a proof of zero knowledge is taken by one; its nullifier is spent at the other',
    async () => {
      const members = [{ secret: '11', expires_at: '1900000000' }];
      const human = (tris: string) => ({ circuit: 'kyh', members, holder: 0, ...bound('humans', tris) }) as const;
      const [alice, mallory] = await prove([human('tris:alice'), human('tris:mallory')]);
      const scheme = {
        scheme: 'humans',
        status: 'zk-KYH',
        issuer: 'tris:registry',
        scope: 'humans',
        roots: [alice!.root],
      };
      const [api, other] = apis.map(({ server }) => server) as [Server, Server];
      expect((await api.post('/v1/verification-schemes', schemeBody('kyh', scheme))).status).toBe(201);
      const submit = (at: Server, tris_id: string, { proof, public_signals }: NonNullable<typeof alice>) =>
        at.post('/v1/tris/verifications', { scheme: 'humans', proof, public_signals, tris_id });
      const granted = await submit(other, 'tris:alice', alice!);
      expect([granted.status, (await submit(api, 'tris:alice', alice!)).status]).toEqual([201, 200]);
      const { status, json } = await submit(api, 'tris:mallory', mallory!);
      expect([status, json.code]).toEqual([409, 'nullifier_used']);
      const seen = await api.get('/v1/disc/score/tris:alice', { headers: after(granted) });
      expect(seen.json.verification).toMatchObject([{ status: 'zk-KYH', scheme: 'humans' }]);
    },
    LONG,
  );

  test('a linked wallet’s history on a chain is read by the worker', async () => {
    const wallet = newAccount();
    const owner = await claim(apis[0]!, wallet);
    const { abi } = History!;
    const call31337 = { address: lender, abi, functionName: 'repay', args: [wallet.address, 3n] };
    const hash = await anvil.writer.writeContract(call31337 as never);
    await anvil.mined(hash);
    await anvil.mine(64); // until it is final
    const ingest = { wallet: wallet.address, chain_id: CHAIN };
    const { status, json } = await call(apis[0]!, '/v1/wallets/ingest', ingest, bearer(owner));
    expect(status).toBe(202);
    const other = apis[1]!.server;
    const job = async () => (await other.get(`/v1/wallets/ingest/${json.job_id}`)).json;
    const done = await becomes(job, (seen) => !['queued', 'running'].includes(seen.status));
    expect(done).toMatchObject({ status: 'completed', result: { recorded: 3 } });
    const score = () => other.get(`/v1/disc/score/${owner.tris_id}?model=disc-1`);
    expect((await becomes(score, (seen) => seen.json.total_tct >= 300)).json.total_tct).toBe(300);
  });
});
