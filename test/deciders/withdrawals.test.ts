import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CommandContext, internalActor } from '../../src/commands/context.js';
import { Writer } from '../../src/commands/writer.js';
import { Platforms } from '../../src/features/organizations/platforms.js';
import { RecordedActions } from '../../src/features/relay/recorded-actions.js';
import { RelayMetrics } from '../../src/features/relay/relay-metrics.js';
import { type Action, decide } from '../../src/features/relay/domain/relay.js';
import { type ActionState, actionIn, decideChange, stateOf } from '../../src/features/relay/domain/withdrawal.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import type { Views } from '../../src/read-side/views.js';
import { closeStores, openStores } from '../../src/stores/open.js';
import { type Given, logOf, trove } from '../projections/log.js';

/** Withdrawals and reinstatements of actions: what is recorded of them, and when nothing is. */

const OCCURRED = '2025-06-01T00:00:00.000Z';
const action = (more: Partial<Action> = {}): Action => ({
  tris_id: 'tris:alice',
  action_type: 'loan_repayment',
  category: 'financial',
  criticality: 'High',
  platform_id: 'lender',
  occurred_at: Date.parse(OCCURRED),
  external_id: null,
  evidence_uri: 'https://lender.example/loan/18',
  ...more,
});
/** The events of a relay, in a stream. */
const relayed = (more: Partial<Action> = {}, owner: string | null = null): Given[] =>
  decide(action(more), owner, 'unvouched').map(({ type, schema, data }) => ({
    type,
    schema,
    data,
    occurred_at: OCCURRED,
  }));
/** What is decided after these events, by the id of an action. */
function changed(events: readonly Given[], to: ActionState, owner: string | null = null, id = 'e1') {
  return decideChange(actionIn(logOf(events), id)!, to, 'mistake', owner);
}
function after(events: readonly Given[], ...states: ActionState[]): Given[] {
  const log = [...events];
  for (const to of states) log.push({ ...changed(log, to)[0]!, occurred_at: OCCURRED });
  return log;
}

describe('an action is withdrawn', () => {
  test('with a copy of it and of its credonation, and occurs when it did', () => {
    expect(changed(relayed(), 'withdrawn')).toEqual([
      {
        type: 'ActionWithdrawn',
        schema: 1,
        occurredAt: Date.parse(OCCURRED),
        data: {
          tris_id: 'tris:alice',
          action_id: 'e1',
          metric: 'financial_loan_repayment',
          criticality: 'High',
          platform_id: 'lender',
          source: 'unvouched',
          endorser: 'tris:platform:lender',
          amount: 100,
          credonation_id: 'e2',
          reason: 'mistake',
        },
      },
    ]);
  });

  test.each<[string, Given[], string | null, string | undefined]>([
    ['the owner of the platform then', relayed(), 'tris:bank', 'tris:bank'],
    ['the counterparty', relayed({ counterparty: 'tris:bob' }), 'tris:bank', 'tris:bob'],
    ['nobody: a flag', relayed({ action_type: 'default_flags' }), 'tris:bank', undefined],
  ])('from %s', (_who, events, owner, endorser) => {
    const { data } = changed(events, 'withdrawn', owner)[0]!;
    expect(data['endorser']).toBe(endorser);
    expect(data['counterparty']).toBe(events[0]!.data['counterparty']);
    expect([data['amount'], data['credonation_id']]).toEqual(endorser ? [100, 'e2'] : [undefined, undefined]);
  });

  test('of an event of schema 1, which was vouched', () => {
    const [event] = relayed();
    const { source: _, ...data } = event!.data;
    expect(changed([{ ...event!, schema: 1, data }], 'withdrawn')[0]!.data).toMatchObject({ source: 'vouched' });
  });

  test('once, until it is reinstated', () => {
    const withdrawn = after(relayed(), 'withdrawn');
    expect(stateOf(actionIn(logOf(withdrawn), 'e1')!)).toBe('withdrawn');
    expect(changed(withdrawn, 'withdrawn')).toEqual([]);
    const [again] = changed(withdrawn, 'counted');
    expect(again).toEqual({ ...changed(relayed(), 'withdrawn')[0], type: 'ActionReinstated' });
    const counted = after(withdrawn, 'counted');
    expect(stateOf(actionIn(logOf(counted), 'e1')!)).toBe('counted');
    expect(changed(counted, 'counted')).toEqual([]);
    expect(changed(counted, 'withdrawn')).toEqual(changed(relayed(), 'withdrawn'));
  });

  test('and not reinstated if it never was withdrawn', () => {
    expect(() => changed(relayed(), 'counted')).toThrow(expect.objectContaining({ code: 'action_not_withdrawn' }));
  });

  test('and not guessed where its stream cannot be read', () => {
    const log = logOf([...relayed(), { type: 'ActionWithdrawn', data: { nothing: 'of it' }, stream: 'action-1' }]);
    expect(() => actionIn(log, 'e1')).toThrow(expect.objectContaining({ code: 'history_unreadable' }));
  });
});

test('each approval of a record has an action of its own', () => {
  const approved = { ...trove('TroveRecordApproved'), schema: 1 };
  const log = [trove('TroveRecordSubmitted'), approved, ...relayed(), approved, ...relayed({ platform_id: 'shop' })];
  expect(actionIn(logOf(log), 'e1')).toBeUndefined();
  expect(changed(log, 'withdrawn', null, 'e3')[0]!.data).toMatchObject({ platform_id: 'lender', credonation_id: 'e4' });
  const data = changed(log, 'withdrawn', null, 'e6')[0]!.data;
  expect(data).toMatchObject({ endorser: 'tris:platform:shop', credonation_id: 'e7' });
  const second = logOf([...log, { type: 'ActionWithdrawn', data }]);
  expect(['e3', 'e6'].map((id) => stateOf(actionIn(second, id)!))).toEqual(['counted', 'withdrawn']);
});

describe('in the log', () => {
  const STREAM = 'action-1';
  let folder: string;
  let stores: Awaited<ReturnType<typeof openStores>>;
  let writer: Writer;
  let platforms: Platforms;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'credence-withdrawals-'));
    stores = await openStores(folder, Date.now);
    writer = new Writer(stores.eventStore, Date.now);
    platforms = new Platforms(writer);
  });
  afterEach(async () => {
    await closeStores(stores);
    await rm(folder, { recursive: true, force: true });
  });

  const context = (body: string, idempotency: string | null = null): CommandContext => ({
    actor: internalActor('key:lender'),
    correlation_id: 'test',
    idempotency,
    body_hash: body.padEnd(64, '0'),
  });
  const relay = (as = context('relay')) => writer.create(STREAM, decide(action(), null, 'vouched'), as);
  const changes = (of = writer) =>
    new RecordedActions(of, platforms, new RelayMetrics(), {} as Views, stores.eventStore);
  const history = () => stores.eventStore.readStream(STREAM);
  async function change(to: ActionState, id: string, as = context(`${to} it`), of = changes()) {
    return of.change({ action: actionIn(await history(), id)!, to, reason: 'mistake', context: as });
  }

  test('asked again, the first answer is given again, also once the action is in the other state', async () => {
    const [{ id }] = (await relay()).events as [RecordedEvent];
    const first = await change('withdrawn', id, context('a', 'key'));
    const head = await stores.eventStore.head();
    expect(await change('withdrawn', id, context('b'))).toEqual(first);
    expect(first).toBe(head);
    const reinstated = await change('counted', id);
    expect(reinstated).toBe(await stores.eventStore.head());
    expect(await change('counted', id, context('c'))).toEqual(reinstated);
    // The claim of the key is the other event.
    expect(await history()).toHaveLength(4);
    expect(await change('withdrawn', id, context('a', 'key'))).toEqual(first);
  });

  test('the owner of the platform is the one at the time of the credonation', async () => {
    const [{ id }] = (await relay()).events as [RecordedEvent];
    await platforms.register('lender', 'tris:bank', context('owner'), '/platform_id');
    await change('withdrawn', id);
    expect((await history()).at(-1)!.data).toMatchObject({ endorser: 'tris:platform:lender' });
    const second = await writer.create('action-2', decide(action(), 'tris:bank', 'vouched'), context('second'));
    const other = () => stores.eventStore.readStream('action-2');
    const given = actionIn(await other(), second.events[0]!.id)!;
    await changes().change({ action: given, to: 'withdrawn', reason: 'mistake', context: context('other') });
    expect((await other()).at(-1)!.data).toMatchObject({ endorser: 'tris:bank' });
  });

  test('of two at once in two processes, one is recorded and the other gets its answer', async () => {
    const [{ id }] = (await relay()).events as [RecordedEvent];
    const processes = Array.from({ length: 8 }, () => changes(new Writer(stores.eventStore, Date.now)));
    const answers = await Promise.all(processes.map((of, n) => change('withdrawn', id, context(`w${n}`), of)));
    expect(new Set(answers).size).toBe(1);
    expect(await history()).toHaveLength(3);
    // With reinstatements among them, each of which is decided on what was there.
    const both = processes.map((of, n) => change(n % 2 ? 'withdrawn' : 'counted', id, context(`b${n}`), of));
    await Promise.all(both);
    const types = (await history()).slice(2).map(({ type }) => type);
    for (const [n, type] of types.entries()) expect(type).toBe(n % 2 ? 'ActionReinstated' : 'ActionWithdrawn');
  });

  test('a relay that is tried again gets the answer of the relay', async () => {
    const first = await relay(context('relay', 'key'));
    await change('withdrawn', first.events[0]!.id);
    expect((await relay(context('relay', 'key'))).position).toBe(first.position);
    // Decided otherwise now, as after a change of the vetting: its events have other ids.
    const again = await writer.create(STREAM, decide(action(), null, 'unvouched'), context('relay', 'key'));
    expect([again.position, again.events[0]!.id]).toEqual([first.position, first.events[0]!.id]);
  });
});
