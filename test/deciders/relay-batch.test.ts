import { Registry } from 'prom-client';
import { internalActor } from '../../src/commands/context.js';
import {
  type ActionOutcome,
  RelayActions,
  RelayActionsHandler,
} from '../../src/features/relay/relay-batch.handlers.js';
import { RelayAction, RelayActionHandler } from '../../src/features/relay/relay.handlers.js';
import { MetricLimit } from '../../src/features/relay/metric-limit.js';
import { type Action, METRICS_PER_ORGANIZATION } from '../../src/features/relay/domain/relay.js';
import { Problem } from '../../src/kernel/problems.js';
import type { Views } from '../../src/read-side/views.js';
import { type EventStore, StoreUnavailable } from '../../src/stores/ports/event-store.js';

/** What a batch does with its actions, each of which a single relay records. */

const action = (external_id: string | null, action_type = 'loan'): Action => ({
  tris_id: 'tris:alice',
  action_type,
  category: 'financial',
  criticality: 'High',
  platform_id: 'lender',
  occurred_at: null,
  external_id,
  evidence_uri: null,
});
const actions = (count: number) => Array.from({ length: count }, (_, n) => action(`x${n}`));
const request = (idempotency: string | null = null) => ({
  actor: internalActor('key:test'),
  correlation_id: 'test',
  idempotency,
});
const busy = () => new StoreUnavailable('busy', { code: 'store_busy' });

/** A handler whose single relays are done by `relay`. */
function handlerOf(relay: (command: RelayAction, nth: number) => Promise<unknown>, store: Partial<EventStore> = {}) {
  let nth = 0;
  const executeEach = (commands: readonly RelayAction[]) =>
    Promise.all(commands.map((command) => relay(command, nth++).catch((error: Error) => error)));
  return new RelayActionsHandler({ executeEach } as unknown as RelayActionHandler, store as EventStore);
}
const recorded = async (command: RelayAction, nth: number) => ({
  action_id: `${command.action.external_id}`,
  position: nth,
});
const summary = (outcomes: readonly ActionOutcome[]) =>
  outcomes.map((outcome) => (outcome instanceof Error ? (outcome as Problem).code : outcome.action_id));

test('a refused action affects no other, and results are in the order of the actions', async () => {
  const refused = new Problem('validation_failed', 'wrong');
  const handler = handlerOf(async (command, nth) => {
    await new Promise((resolve) => setTimeout(resolve, nth % 3));
    if (command.action.external_id === 'x2') throw new Problem('platform_not_owned', 'no');
    return recorded(command, nth);
  });
  const [a, b, c, d] = actions(4);
  const outcomes = await handler.execute(new RelayActions([a!, refused, b!, c!, d!], request()));
  expect(summary(outcomes)).toEqual(['x0', 'validation_failed', 'x1', 'platform_not_owned', 'x3']);
});

const unreadable = new Problem('history_unreadable', 'the stream of a platform is damaged');

/** A handler of single relays that knows no owners; reading that of the platform `damaged` fails. */
function singleOf(store: Partial<EventStore> = {}, recordedTogether: string[][] = []): RelayActionHandler {
  const parts = [
    { ownerOf: async (id: string) => (id === 'damaged' ? Promise.reject(unreadable) : null) },
    {
      recordEach: async (of: { action: Action }[]) => {
        const ids = of.map(({ action: { external_id } }) => external_id!);
        recordedTogether.push(ids);
        return ids.map((action_id) => ({ action_id }));
      },
    },
    { withinEach: (relays: unknown[], record: (relays: unknown[]) => unknown) => record(relays) },
    store,
  ];
  return new RelayActionHandler(...(parts as unknown as ConstructorParameters<typeof RelayActionHandler>));
}

test('what is damaged for one action of a group affects no other', async () => {
  const [a, b, c] = actions(3);
  const handler = new RelayActionsHandler(singleOf(), {} as EventStore);
  const outcomes = await handler.execute(new RelayActions([a!, { ...b!, platform_id: 'damaged' }, c!], request()));
  expect(summary(outcomes)).toEqual(['x0', 'history_unreadable', 'x2']);
});

describe('single relays that arrive in one turn of the event loop', () => {
  const relayOf = (of: Action, idempotency: string | null = null) =>
    new RelayAction(of, { ...request(idempotency), body_hash: '' });
  const [a, b, c, d] = actions(4) as [Action, Action, Action, Action];

  test('are recorded together; what one is refused for affects no other', async () => {
    const together: string[][] = [];
    const single = singleOf({}, together);
    const relays = [relayOf(a), relayOf({ ...b, platform_id: 'damaged' }), relayOf(c)];
    const outcomes = await Promise.allSettled(relays.map((relay) => single.execute(relay)));
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(outcomes[1]).toMatchObject({ reason: unreadable });
    expect(together).toEqual([['x0', 'x2']]);
  });

  test('do not wait for those that record their Idempotency-Key or a text first', async () => {
    const together: string[][] = [];
    const single = singleOf({}, together);
    const withText = { ...c, evidence_uri: 'ipfs://evidence' };
    await Promise.all(
      [relayOf(a), relayOf(b, 'key'), relayOf(withText), relayOf(d)].map((each) => single.execute(each)),
    );
    expect(together.sort()).toEqual([
      ['x0', 'x3'],
      ['x1', 'x2'],
    ]);
  });

  test('are recorded one by one in a log that answers each append at its own time', async () => {
    const together: string[][] = [];
    const admission = { refuseIfFull: () => undefined, enter: () => undefined, leave: () => undefined };
    const single = singleOf({ admission }, together);
    await Promise.all([relayOf(a), relayOf(b)].map((each) => single.execute(each)));
    expect(together).toEqual([['x0'], ['x1']]);
  });
});

test('a metric counts once its second action is recorded, although its first one failed', async () => {
  const recorded = METRICS_PER_ORGANIZATION - 1;
  const views = { readIfServed: async () => ({ position: 1, results: [undefined, recorded, undefined, recorded] }) };
  const store = { readStream: async () => [] };
  const limit = new MetricLimit(views as unknown as Views, store as unknown as EventStore, new Registry());
  const relayOf = (type: string) => ({ action: action(null, type), owner: null, stream: 'action-x' });
  const codes = async (types: string[], outcomes: (Error | { position: number })[]) =>
    (await limit.withinEach(types.map(relayOf), async () => outcomes)).map((outcome) =>
      outcome instanceof Problem ? outcome.code : outcome,
    );
  const failed = [busy(), busy()];
  expect(await codes(['loan', 'loan'], failed)).toEqual(failed);
  const outcomes = [busy(), { position: 7 }];
  expect(await codes(['swap', 'swap'], outcomes)).toEqual(outcomes);
  expect(await codes(['another'], [])).toEqual(['too_many_metrics']);
});

test('a metric counts once when the read models contain it, although one before it failed meanwhile', async () => {
  const read = { position: 1, results: [undefined, 0] as unknown[] };
  const views = { readIfServed: async () => read } as unknown as Views;
  const limit = new MetricLimit(views, {} as EventStore, new Registry());
  const relay = (type: string, outcome: Promise<Error | { position: number }>) =>
    limit.withinEach([{ action: action(null, type), owner: null, stream: 'action-x' }], async () => [await outcome]);
  let fail = () => {};
  const failing = relay('loan', new Promise((resolve) => (fail = () => resolve(busy()))));
  await new Promise(setImmediate);
  await relay('swap', Promise.resolve({ position: 5 }));
  fail();
  await failing;
  Object.assign(read, { position: 5, results: [undefined, METRICS_PER_ORGANIZATION - 1] });
  const last = { position: 6 };
  expect(await relay('another', Promise.resolve(last))).toEqual([last]);
});

test('a metric that was forgotten, since there are too many, is not forgotten again when its action fails', async () => {
  const read = { position: 0, results: [] as unknown[] };
  const views = { readIfServed: async () => read } as unknown as Views;
  const store = { readStream: async () => [] } as unknown as EventStore;
  const limit = new MetricLimit(views, store, new Registry());
  const relayOf = (type: string, tris_id = 'tris:alice') => {
    return { action: { ...action(null, type), tris_id }, owner: null, stream: 'action-x' };
  };
  const record = async (relays: readonly unknown[]) => relays.map(() => ({ position: 1 }));
  let fail = () => {};
  const failing = limit.withinEach(
    [relayOf('loan')],
    () => new Promise<Error[]>((resolve) => (fail = () => resolve([busy()]))),
  );
  await new Promise(setImmediate);
  const others = Array.from({ length: 100_000 }, (_, n) => relayOf('loan', `tris:${n}`));
  await limit.withinEach(others, record);
  await limit.withinEach([relayOf('swap')], record);
  fail();
  await failing;
  read.results = [undefined, METRICS_PER_ORGANIZATION - 1];
  const [outcome] = await limit.withinEach([relayOf('another')], record);
  expect(outcome).toMatchObject({ code: 'too_many_metrics' });
});

test('actions with external ids that repeat wait only for those of their own', async () => {
  const groups: string[][] = [];
  const executeEach = async (commands: readonly RelayAction[]) => {
    groups.push(commands.map(({ action: { external_id } }) => external_id!));
    return commands.map((command, nth) => ({ action_id: command.action.external_id!, position: nth }));
  };
  const handler = new RelayActionsHandler({ executeEach } as unknown as RelayActionHandler, {} as EventStore);
  const ids = ['a', 'a', 'b', 'b', 'c', 'a'];
  const outcomes = await handler.execute(
    new RelayActions(
      ids.map((id) => action(id)),
      request(),
    ),
  );
  expect(summary(outcomes)).toEqual(ids);
  expect(groups).toEqual([['a', 'b', 'c'], ['a', 'b'], ['a']]);
});

test('actions with one external id are recorded in their order, the next only after the one before it', async () => {
  const seen: string[] = [];
  const handler = handlerOf(async (command, nth) => {
    seen.push(`begin ${command.action.action_type}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.push(`end ${command.action.action_type}`);
    return recorded(command, nth);
  });
  await handler.execute(
    new RelayActions(
      ['a', 'b', 'c'].map((type) => action('same', type)),
      request(),
    ),
  );
  expect(seen).toEqual(['begin a', 'end a', 'begin b', 'end b', 'begin c', 'end c']);
});

test('each action has an Idempotency-Key of its own, the same in a retry and another under another key', async () => {
  const keys: (string | null)[] = [];
  const handler = handlerOf((command, nth) => {
    keys.push(command.context.idempotency);
    return recorded(command, nth);
  });
  for (const key of ['one', 'one', 'two', null]) await handler.execute(new RelayActions(actions(2), request(key)));
  expect(keys.slice(0, 2)).toEqual(keys.slice(2, 4));
  expect(new Set(keys.slice(0, 6)).size).toBe(4);
  expect(keys.slice(6)).toEqual([null, null]);
});

test('once the log takes nothing more, the remaining actions are not tried and are told so', async () => {
  let tried = 0;
  const handler = handlerOf(async (command, nth) => {
    tried++;
    if (nth >= 10) throw busy();
    return recorded(command, nth);
  });
  const outcomes = await handler.execute(new RelayActions(actions(1_000), request()));
  expect(outcomes.filter((outcome) => !(outcome instanceof Error))).toHaveLength(10);
  expect(new Set(summary(outcomes.slice(10)))).toEqual(new Set(['store_busy']));
  expect(tried).toBeLessThan(100);
});

test('if the log takes none of them, the whole batch is refused', async () => {
  const handler = handlerOf(() => Promise.reject(busy()));
  const wrong = new Problem('validation_failed', 'wrong');
  await expect(handler.execute(new RelayActions([wrong, ...actions(3)], request()))).rejects.toMatchObject({
    code: 'store_busy',
  });
});

test('each action is admitted to the log by itself and leaves, however it ends', async () => {
  let [inside, most, entered] = [0, 0, 0];
  const admission = {
    refuseIfFull: () => undefined,
    enter: () => {
      entered++;
      most = Math.max(most, ++inside);
      return undefined;
    },
    leave: () => void inside--,
  };
  const handler = handlerOf(
    async (command, nth) => {
      await new Promise(setImmediate);
      if (nth % 2 === 0) throw new Problem('platform_not_owned', 'no');
      return recorded(command, nth);
    },
    { admission },
  );
  await handler.execute(new RelayActions(actions(200), request()));
  expect([inside, entered]).toEqual([0, 200]);
  expect(most).toBeLessThanOrEqual(64);
});

test('an action that is not admitted leaves nothing behind', async () => {
  let inside = 0;
  const admission = {
    refuseIfFull: () => undefined,
    enter: () => Promise.reject(busy()),
    leave: () => void inside--,
  };
  const handler = handlerOf(recorded, { admission });
  await expect(handler.execute(new RelayActions(actions(3), request()))).rejects.toMatchObject({ code: 'store_busy' });
  expect(inside).toBe(0);
});

test('four batches are recorded at a time, sixteen wait, and more are refused', async () => {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let begun = 0;
  const handler = handlerOf(async (command, nth) => {
    begun++;
    await released;
    return recorded(command, nth);
  });
  const batches = Array.from({ length: 20 }, () => handler.execute(new RelayActions(actions(1), request())));
  await expect(handler.execute(new RelayActions(actions(1), request()))).rejects.toMatchObject({ code: 'store_busy' });
  expect(begun).toBe(4);
  release();
  expect((await Promise.all(batches)).map(summary)).toEqual(Array.from({ length: 20 }, () => ['x0']));
});

test('an unexpected error is no result: it fails the request once all that was begun has ended', async () => {
  let ended = 0;
  const handler = handlerOf(async (command, nth) => {
    if (nth === 0) throw new TypeError('a bug');
    await new Promise((resolve) => setTimeout(resolve, 5));
    ended++;
    return recorded(command, nth);
  });
  await expect(handler.execute(new RelayActions(actions(30), request()))).rejects.toThrow('a bug');
  expect(ended).toBe(29);
});
