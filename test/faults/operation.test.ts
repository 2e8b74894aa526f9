import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeStores, openStores } from '../../src/stores/open.js';
import { eventually } from '../contracts/harness.js';
import { plantAction } from '../contracts/sample-events.js';
import { Ledger, reached } from '../e2e/ledger.js';
import { Server, unique } from '../e2e/server.js';
import { credence, credenceWith, longTest, verified } from './faults.js';
import { FaultyMachine, describeFaulty } from './faulty-machine.js';

/** What operators do to it, on purpose or not: commands beside it, a clock that is set, an older copy of the log. */

let data: string;
beforeEach(async () => void (data = await mkdtemp(join(tmpdir(), 'credence-operation-'))));
afterEach(() => rm(data, { recursive: true, force: true }));

/** By the version of the model without a limit per day, so that the TCT counts the actions. */
const total = async (server: Server, tris_id: string) =>
  (await server.get(`/v1/disc/score/${tris_id}?model=disc-1`)).json.total_tct;

longTest(
  'a server and commands on its folder: nothing is lost or doubled, also when the server is killed',
  async () => {
    const first = await Server.start({ data });
    const ledger = new Ledger('one');
    const writers = Array.from({ length: 16 }, () => ledger.write(first));
    const shared = { tris_id: 'tris:shared', external_id: 'shared' };
    const same = await Promise.all(Array.from({ length: 20 }, () => first.relay(shared)));
    expect(new Set(same.map(({ json }) => json.action_id)).size).toBe(1);
    for (const args of [['rebuild', 'all', '--swap'], ['verify'], ['rollback'], ['status']]) {
      const { code, stdout, stderr } = await credenceWith({}, data, ...args);
      expect([args, code, code === 0 ? '' : stdout + stderr]).toEqual([args, 0, '']);
    }
    await first.kill();
    await Promise.all(writers);
    const second = await Server.start({ data });
    await ledger.expectHistories(second, await ledger.retryAll(second));
    expect(await total(second, 'tris:shared')).toBe(100);
    expect(await second.stop()).toBe(0);
    await verified(data);
  },
  180_000,
);

describeFaulty('a clock that is set back by a day', () => {
  const DAY = 86_400_000;
  /** Is the lease on the read models one of a clock that is set back so far? */
  const leaseOf = async (server: Server, back: number) => {
    const [{ lease }] = (await server.get('/v1/ops/status')).json.generations;
    return lease !== null && Math.abs(Date.parse(lease.expires_at) - (Date.now() - back)) < DAY / 2;
  };
  test('while it serves: leases, retries and order stay correct', async () => {
    const machine = new FaultyMachine('');
    const server = await Server.start({ data, env: machine.env });
    const key = { 'idempotency-key': 'kept' };
    const action = { tris_id: unique(), external_id: unique('x') };
    const first = await server.relay(action, key);
    await reached(server, first);
    const before = Date.parse((await server.get('/health/live')).headers['date'] as string);
    machine.set('clock_ms', -DAY);
    const sees = async () => Date.parse((await server.get('/health/live')).headers['date'] as string);
    await eventually(async () => before - (await sees()) > DAY / 2, 'the server sees the other time');
    await eventually(() => leaseOf(server, DAY), 'the lease is one of that time');

    expect((await server.relay(action, key)).json).toEqual(first.json);
    const next = await server.relay({ tris_id: action.tris_id });
    await reached(server, next);
    // The clock of the next server is a day behind that of the one that is killed.
    machine.set('clock_ms', 0);
    await eventually(() => leaseOf(server, 0), 'the lease is one of the right time');
    await server.kill();
    machine.set('clock_ms', -DAY);
    const other = await Server.start({ data, env: machine.env });
    const last = await other.relay({ tris_id: action.tris_id });
    await reached(other, last);
    expect((await other.relay(action, key)).json).toEqual(first.json);
    // What the right clock has stamped counts also while it is still to come.
    expect(await total(other, action.tris_id)).toBe(300);
    machine.set('clock_ms', 0);
    expect(await total(other, action.tris_id)).toBe(300);
    const { entries } = (await other.get(`/v1/disc/score/${action.tris_id}/history`)).json;
    expect(entries.map(({ event_id }: any) => event_id)).toEqual([first, next, last].map(({ json }) => json.action_id));
    expect(await other.stop()).toBe(0);
    await verified(data);
    machine.remove();
  });
});

test('an older copy of the log is refused; after the documented step the service continues, and its read models agree', async () => {
  const server = await Server.start({ data });
  const kept = await server.relay({ tris_id: 'tris:kept', external_id: 'kept' });
  await reached(server, kept);
  const copy = join(data, 'copy');
  expect((await credence(data, 'backup', copy)).code).toBe(0);
  for (let n = 0; n < 5; n++) await reached(server, await server.relay({ tris_id: 'tris:lost' }));
  const head = await server.head();
  expect(await server.stop()).toBe(0);

  await rm(join(data, 'log'), { recursive: true });
  await cp(join(copy, 'log'), join(data, 'log'), { recursive: true });
  const refusal = new RegExp(
    `ends at position 3 but has reached ${head} before: restore a complete copy, or delete \\S+log\\.marker\\.json`,
  );
  await expect(Server.start({ data })).rejects.toThrow(refusal);
  expect((await credence(data, 'status')).stderr).toMatch(refusal);

  await rm(join(data, 'log.marker.json'));
  const again = await Server.start({ data });
  expect([await total(again, 'tris:kept'), await total(again, 'tris:lost')]).toEqual([100, undefined]);
  expect((await again.relay({ tris_id: 'tris:kept', external_id: 'kept' })).json).toEqual(kept.json);
  // Positions that the read models have seen before now belong to other events.
  for (let n = 0; n < 8; n++) await reached(again, await again.relay({ tris_id: 'tris:new' }));
  expect([await total(again, 'tris:new'), await total(again, 'tris:lost')]).toEqual([800, undefined]);
  expect(await again.stop()).toBe(0);
  await verified(data);
});

test('an undecodable event marks its identity, and everything else continues, also after kill -9 and a rebuild', async () => {
  let server = await Server.start({ data });
  const poisoned = 'tris:poisoned';
  await server.relay({ tris_id: poisoned });
  await server.stop();
  const stores = await openStores(data, Date.now);
  const id = await plantAction(stores.eventStore, { tris_id: poisoned, metric: 7 });
  await closeStores(stores);

  server = await Server.start({ data });
  await server.post('/v1/policies/ap', { policy_id: 'AP_ANY_V1', rules: { disc_min: 1 } });
  const look = async () => {
    const others = unique();
    await reached(server, await server.relay({ tris_id: others }));
    expect(await total(server, others)).toBe(100);
    const { json } = await server.get(`/v1/disc/score/${poisoned}`);
    const check = await server.post('/v1/policies/ap/check', { policy_id: 'AP_ANY_V1', subject_tris: poisoned });
    expect([json.incomplete, json.total_tct, check.json.granted]).toEqual([true, 100, false]);
    expect((await server.send('GET', '/metrics')).text).toMatch(/^credence_dead_letters 1$/m);
    expect((await server.send('GET', '/health/ready')).status).toBe(200);
  };
  await look();
  await server.kill();
  server = await Server.start({ data });
  await look();
  expect((await credence(data, 'rebuild', 'all', '--swap')).code).toBe(0);
  await look();
  expect((await credence(data, 'status')).stdout).toContain(`ActionRelayed ${id} of ${poisoned}`);
  expect(await server.stop()).toBe(0);
  await verified(data);
});
