import { Registry } from 'prom-client';
import { internalActor } from '../../src/commands/context.js';
import {
  type ActionOutcome,
  RelayAction,
  RelayActionHandler,
  RelayActions,
  RelayActionsHandler,
} from '../../src/features/relay/relay.handlers.js';
import { RelayMetrics } from '../../src/features/relay/relay-metrics.js';
import { MetricLimit } from '../../src/features/relay/metric-limit.js';
import type { Vetting } from '../../src/features/organizations/vetting.js';
import { type Action, METRICS_PER_ORGANIZATION } from '../../src/features/relay/domain/relay.js';
import { yieldBatchIfDue } from '../../src/kernel/turn.js';
import type { Staleness } from '../../src/read-side/staleness.js';
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

const vetting = { sourceFor: async () => 'vouched' } as unknown as Vetting;
const close = { holdBack: async () => undefined } as unknown as Staleness;

/** A handler whose single relays are done by `relay`. */
function handlerOf(relay: (command: RelayAction, nth: number) => Promise<unknown>, store: Partial<EventStore> = {}) {
  let nth = 0;
  const execute = (command: RelayAction) => relay(command, nth++);
  const single = { execute, lookUp: async () => undefined } as unknown as RelayActionHandler;
  return new RelayActionsHandler(single, vetting, close, store as EventStore);
}
const recorded = async (command: RelayAction, nth: number) => ({
  action_id: `${command.input.action.external_id}`,
  position: nth,
});
const summary = (outcomes: readonly ActionOutcome[]) =>
  outcomes.map((outcome) => (outcome instanceof Error ? (outcome as Problem).code : outcome.action_id));

test('a refused action affects no other, and results are in the order of the actions', async () => {
  const refused = new Problem('validation_failed', 'wrong');
  const handler = handlerOf(async (command, nth) => {
    await new Promise((resolve) => setTimeout(resolve, nth % 3));
    if (command.input.action.external_id === 'x2') throw new Problem('platform_not_owned', 'no');
    return recorded(command, nth);
  });
  const [a, b, c, d] = actions(4);
  const outcomes = await handler.execute(new RelayActions({ actions: [a!, refused, b!, c!, d!], request: request() }));
  expect(summary(outcomes)).toEqual(['x0', 'validation_failed', 'x1', 'platform_not_owned', 'x3']);
});

const unreadable = new Problem('history_unreadable', 'the stream of a platform is damaged');

test('what is damaged for one action of a batch affects no other', async () => {
  const [a, b, c] = actions(3);
  const parts = [
    { ownerOf: async (id: string) => (id === 'damaged' ? Promise.reject(unreadable) : null) },
    vetting,
    { record: async ({ action }: { action: Action }) => ({ action_id: action.external_id }) },
    { accept: async () => null, lookUp: async () => undefined },
    { take: async () => () => undefined },
    new RelayMetrics(),
  ];
  const single = new RelayActionHandler(...(parts as unknown as ConstructorParameters<typeof RelayActionHandler>));
  const handler = new RelayActionsHandler(single, vetting, close, {} as EventStore);
  const outcomes = await handler.execute(
    new RelayActions({ actions: [a!, { ...b!, platform_id: 'damaged' }, c!], request: request() }),
  );
  expect(summary(outcomes)).toEqual(['x0', 'history_unreadable', 'x2']);
});

test('the platforms of a batch are looked up together', async () => {
  let [inside, most] = [0, 0];
  const ownerOf = async () => {
    most = Math.max(most, ++inside);
    await new Promise(setImmediate);
    inside--;
    return null;
  };
  const parts = [{ ownerOf }, {}, {}, { lookUp: async () => undefined }];
  const single = new RelayActionHandler(...(parts as unknown as ConstructorParameters<typeof RelayActionHandler>));
  await single.lookUp(actions(8).map((each, n) => ({ ...each, platform_id: `p${n}` })));
  expect(most).toBe(8);
});

describe('the limit of metrics', () => {
  const relayOf = (type: string, tris_id = 'tris:alice') => {
    return { action: { ...action(null, type), tris_id }, owner: null };
  };

  /** @param number of metrics in the read models, where no metric is found at first; undefined: nothing serves */
  function limitOf(number?: number, stored: unknown[] = []) {
    const read = { number, isRecorded: false, lookUps: [] as number[] };
    const views = {
      readIfServed: async (queries: unknown[]) => {
        read.lookUps.push(queries.length / 2);
        const metric = read.isRecorded ? [[]] : undefined;
        const results = queries.map((_, n) => (n % 2 === 0 ? metric : read.number));
        return read.number === undefined ? undefined : { results };
      },
    };
    const store = { readStream: async () => stored };
    return { limit: new MetricLimit(views as unknown as Views, store as unknown as EventStore, new Registry()), read };
  }
  const accepted = (limit: MetricLimit, type: string, tris_id?: string) =>
    limit.accept(relayOf(type, tris_id), 'action-x').catch((error: Problem) => error.code);

  test('a metric does not count if its actions fail, and counts once one of them is recorded', async () => {
    const { limit } = limitOf(METRICS_PER_ORGANIZATION - 1);
    for (const type of ['loan', 'loan']) limit.failed((await accepted(limit, type)) as never);
    const [first, second] = [await accepted(limit, 'swap'), await accepted(limit, 'swap')];
    limit.failed(first as never);
    expect(await accepted(limit, 'loan')).toBe('too_many_metrics');
    limit.recorded(second as never);
    expect(await accepted(limit, 'loan')).toBe('too_many_metrics');
    expect(await accepted(limit, 'swap')).toBeNull();
  });

  test('a metric that is in flight twice counts once', async () => {
    const { limit } = limitOf(METRICS_PER_ORGANIZATION - 2);
    for (const type of ['loan', 'loan', 'swap']) expect(await accepted(limit, type)).not.toBe('too_many_metrics');
    expect(await accepted(limit, 'another')).toBe('too_many_metrics');
  });

  test('a retry is not limited', async () => {
    const { limit } = limitOf(METRICS_PER_ORGANIZATION, [{}]);
    expect(await accepted(limit, 'loan')).toBeNull();
  });

  test('relays of one turn, and the actions of a batch, share one look-up; a metric that is remembered needs none', async () => {
    const { limit, read } = limitOf(0);
    await Promise.all(['a', 'b', 'c'].map((type) => accepted(limit, type)));
    await limit.lookUp(['b', 'c', 'd', 'e'].map((type) => relayOf(type)));
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map((type) => accepted(limit, type)));
    expect(read.lookUps).toEqual([3, 2]);
  });

  test('while nothing serves, relays pass, and only what this process accepts counts', async () => {
    const { limit, read } = limitOf();
    await limit.lookUp([relayOf('none')]);
    for (let n = 0; n < METRICS_PER_ORGANIZATION; n += 5_000) {
      const types = Array.from({ length: 5_000 }, (_, m) => `m${n + m}`);
      const outcomes = await Promise.all(types.map((type) => accepted(limit, type)));
      expect(outcomes).not.toContain('too_many_metrics');
    }
    expect(await accepted(limit, 'another')).toBe('too_many_metrics');
    expect(await accepted(limit, 'another', 'tris:bob')).not.toBe('too_many_metrics');
    // What serves again contains what was accepted: it counts once.
    read.number = METRICS_PER_ORGANIZATION - 1;
    expect(await accepted(limit, 'one_more')).toBe('too_many_metrics');
  });

  test('what other processes have recorded counts at the next look-up', async () => {
    const { limit, read } = limitOf(0);
    await accepted(limit, 'loan');
    read.number = METRICS_PER_ORGANIZATION;
    expect(await accepted(limit, 'swap')).toBe('too_many_metrics');
  });

  test('a metric that was forgotten, since there are too many, is looked up again', async () => {
    const { limit, read } = limitOf(0);
    await accepted(limit, 'loan');
    await limit.lookUp(Array.from({ length: 100_000 }, (_, n) => relayOf('loan', `tris:${n}`)));
    read.number = METRICS_PER_ORGANIZATION;
    expect(await accepted(limit, 'loan')).toBe('too_many_metrics');
  });

  test('a metric that was refused is accepted once somebody else has recorded it', async () => {
    const { limit, read } = limitOf(METRICS_PER_ORGANIZATION);
    expect(await accepted(limit, 'loan')).toBe('too_many_metrics');
    read.isRecorded = true;
    expect(await accepted(limit, 'loan')).toBeNull();
    read.lookUps = [];
    expect(await accepted(limit, 'loan')).toBeNull();
    expect(read.lookUps).toEqual([]);
  });

  test('a number that was forgotten before the metric is looked up again', async () => {
    const { limit, read } = limitOf(0);
    const others = (from: number) => Array.from({ length: 50_000 }, (_, n) => relayOf('loan', `tris:${from + n}`));
    await limit.lookUp([relayOf('swap')]);
    await limit.lookUp(others(0));
    await limit.lookUp([relayOf('loan')]);
    await limit.lookUp(others(50_000));
    read.number = METRICS_PER_ORGANIZATION;
    expect(await accepted(limit, 'loan')).toBe('too_many_metrics');
  });
});

test('actions with external ids that repeat wait only for those of their own', async () => {
  const order: string[] = [];
  const handler = handlerOf(async (command, nth) => {
    order.push(`${command.input.action.external_id}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
    return recorded(command, nth);
  });
  const ids = ['a', 'a', 'b', 'b', 'c', 'a'];
  const batch = new RelayActions({ actions: ids.map((id) => action(id)), request: request() });
  expect(summary(await handler.execute(batch))).toEqual(ids);
  expect(order).toEqual(['a', 'b', 'c', 'a', 'b', 'a']);
});

test('actions with one external id are recorded in their order, the next only after the one before it', async () => {
  const seen: string[] = [];
  const handler = handlerOf(async (command, nth) => {
    seen.push(`begin ${command.input.action.action_type}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.push(`end ${command.input.action.action_type}`);
    return recorded(command, nth);
  });
  await handler.execute(
    new RelayActions({ actions: ['a', 'b', 'c'].map((type) => action('same', type)), request: request() }),
  );
  expect(seen).toEqual(['begin a', 'end a', 'begin b', 'end b', 'begin c', 'end c']);
});

test('each action has an Idempotency-Key of its own, the same in a retry and another under another key', async () => {
  const keys: (string | null)[] = [];
  const handler = handlerOf((command, nth) => {
    keys.push(command.input.context.idempotency);
    return recorded(command, nth);
  });
  for (const key of ['one', 'one', 'two', null])
    await handler.execute(new RelayActions({ actions: actions(2), request: request(key) }));
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
  const outcomes = await handler.execute(new RelayActions({ actions: actions(1_000), request: request() }));
  expect(outcomes.filter((outcome) => !(outcome instanceof Error))).toHaveLength(10);
  expect(new Set(summary(outcomes.slice(10)))).toEqual(new Set(['store_busy']));
  expect(tried).toBeLessThan(100);
});

test('if the log takes none of them, the whole batch is refused', async () => {
  const handler = handlerOf(() => Promise.reject(busy()));
  const wrong = new Problem('validation_failed', 'wrong');
  await expect(
    handler.execute(new RelayActions({ actions: [wrong, ...actions(3)], request: request() })),
  ).rejects.toMatchObject({
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
  await handler.execute(new RelayActions({ actions: actions(200), request: request() }));
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
  await expect(handler.execute(new RelayActions({ actions: actions(3), request: request() }))).rejects.toMatchObject({
    code: 'store_busy',
  });
  expect(inside).toBe(0);
});

test('four batches are recorded at a time, three of one organization, of which twelve wait, and more are refused', async () => {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const begun: (string | null)[] = [];
  const handler = handlerOf(async (command, nth) => {
    begun.push(command.input.context.actor.organization);
    await released;
    return recorded(command, nth);
  });
  const batchOf = (organization: string) => {
    const actor = { ...internalActor(`key:${organization}`), organization };
    return handler.execute(new RelayActions({ actions: actions(1), request: { ...request(), actor } }));
  };
  const flood = Array.from({ length: 15 }, () => batchOf('flood'));
  await expect(batchOf('flood')).rejects.toMatchObject({ code: 'store_busy' });
  const others = Array.from({ length: 21 }, (_, n) => batchOf(`other-${n}`));
  await expect(batchOf('one more')).rejects.toMatchObject({ code: 'store_busy' });
  expect(begun).toEqual(['flood', 'flood', 'flood', 'other-0']);
  release();
  expect((await Promise.all([...flood, ...others])).map(summary)).toEqual(Array.from({ length: 36 }, () => ['x0']));
});

test('a batch that waits goes by the vetting once it is recorded', async () => {
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let source = 'vouched';
  const sources: unknown[] = [];
  const single = {
    execute: async (_command: RelayAction, decided: unknown) => {
      sources.push(decided);
      await released;
      return { action_id: 'x', position: 1 };
    },
    lookUp: async () => undefined,
  };
  const changing = { sourceFor: async () => source } as unknown as Vetting;
  const handler = new RelayActionsHandler(single as unknown as RelayActionHandler, changing, close, {} as EventStore);
  const batches = Array.from({ length: 4 }, () =>
    handler.execute(new RelayActions({ actions: actions(1), request: request() })),
  );
  while (sources.length < 3) await new Promise(setImmediate);
  source = 'unvouched';
  release();
  await Promise.all(batches);
  expect(sources).toEqual([...Array(3).fill('vouched'), 'unvouched']);
});

test('the items of a batch wait for their turn together, so that a read waits behind few batches, not behind all items', async () => {
  let turns = 0;
  let isDone = false;
  const count = () => (isDone ? undefined : void (turns++, setImmediate(count)));
  const handler = handlerOf(async (command, nth) => {
    for (const until = performance.now() + 0.2; performance.now() < until;);
    return recorded(command, nth);
  });
  const batches = Array.from({ length: 3 }, () =>
    handler.execute(new RelayActions({ actions: actions(500), request: request() })),
  );
  await new Promise((resolve) => setTimeout(resolve, 20));
  const waited: number[] = [];
  setImmediate(count);
  for (let n = 0; n < 5; n++) {
    let turn: Promise<void> | undefined;
    while (!turn) turn = yieldBatchIfDue();
    const before = turns;
    await turn;
    waited.push(turns - before);
  }
  isDone = true;
  await Promise.all(batches);
  expect(Math.max(...waited)).toBeLessThan(10);
});

test('batches that are held back keep no batch of another caller waiting', async () => {
  const order: unknown[] = [];
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  let held = 0;
  const behind = { holdBack: () => (held++ < 4 ? released : undefined) } as unknown as Staleness;
  const single = { execute: async () => ({ action_id: 'x', position: 1 }), lookUp: async () => undefined };
  const handler = new RelayActionsHandler(single as unknown as RelayActionHandler, vetting, behind, {} as EventStore);
  const batchOf = async (organization: string) => {
    const actor = { ...internalActor(`key:${organization}`), organization };
    await handler.execute(new RelayActions({ actions: actions(1), request: { ...request(), actor } }));
    order.push(organization);
  };
  const flood = Array.from({ length: 4 }, () => batchOf('flood'));
  const slow = batchOf('b');
  await Promise.all(['c', 'd'].map(batchOf));
  expect([order, held]).toEqual([['c', 'd'], 6]);
  release();
  await Promise.all([...flood, slow]);
  expect(order.slice(2).sort()).toEqual(['b', ...Array(4).fill('flood')]);
});

test('an unexpected error is no result: it fails the request once all that was begun has ended', async () => {
  let ended = 0;
  const handler = handlerOf(async (command, nth) => {
    if (nth === 0) throw new TypeError('a bug');
    await new Promise((resolve) => setTimeout(resolve, 5));
    ended++;
    return recorded(command, nth);
  });
  await expect(handler.execute(new RelayActions({ actions: actions(30), request: request() }))).rejects.toThrow(
    'a bug',
  );
  expect(ended).toBe(29);
});
