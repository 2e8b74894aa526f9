import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CommandContext, internalActor } from '../../src/commands/context.js';
import { Writer } from '../../src/commands/writer.js';
import { identityStream } from '../../src/features/identity/domain/identity.js';
import { StateAboutIdentity, StateAboutIdentityHandler } from '../../src/features/identity/identity.handlers.js';
import { defineEvent, fact, wholeNumber } from '../../src/kernel/event-definition.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { closeStores, openStores } from '../../src/stores/open.js';

/** Commands on a stream that others made long. */

const ALICE = 'tris:alice';
let folder: string;
let stores: Awaited<ReturnType<typeof openStores>>;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'credence-streams-'));
  stores = await openStores(folder, Date.now);
});
afterEach(async () => {
  await closeStores(stores);
  await rm(folder, { recursive: true, force: true });
});

/** A process of its own, as far as what it keeps is concerned, and how many events of the identity it has read. */
function newProcess() {
  const read = { events: 0 };
  const { eventStore } = stores;
  const store = {
    append: (...args: Parameters<EventStore['append']>) => eventStore.append(...args),
    async readStream(...[stream, options]: Parameters<EventStore['readStream']>) {
      const events = await eventStore.readStream(stream, options);
      if (stream === identityStream(ALICE)) read.events += events.length;
      return events;
    },
  } as EventStore;
  const handler = new StateAboutIdentityHandler(new Writer(store, Date.now), store, Date.now);
  const state = (level: number, idempotency: string | null = null) =>
    handler.execute(
      new StateAboutIdentity({
        trisId: ALICE,
        statement: { kind: 'set_bad_status', level, reason_code: 'fraud' },
        context: contextOf(idempotency, level),
      }),
    );
  return { read, state };
}

const contextOf = (idempotency: string | null, level: number): CommandContext => ({
  actor: internalActor('cli'),
  correlation_id: 'test',
  idempotency,
  body_hash: String(level).repeat(64),
});
const levels = async () =>
  (await stores.eventStore.readStream(identityStream(ALICE))).map(({ data }) => data['level'] as number);

test.each([null, 'key'])('each statement reads what was stated since the last one (key: %s)', async (key) => {
  const { read, state } = newProcess();
  for (let n = 0; n < 100; n++) await state(1 + (n % 6), key && `${key}-${n}`);
  expect(await levels()).toHaveLength(100);
  expect(read.events).toBeLessThanOrEqual(100);
});

test('a retry after many statements of others finds its own, and states nothing', async () => {
  const [one, other] = [newProcess(), newProcess()];
  const first = await one.state(2, 'mine');
  for (let n = 0; n < 10; n++) await other.state(1 + (n % 6));
  expect(await one.state(2, 'mine')).toEqual(first);
  expect(await other.state(2, 'mine')).toEqual(first);
  expect(await levels()).toHaveLength(11);
  await expect(one.state(3, 'mine')).rejects.toMatchObject({ code: 'idempotency_key_reused' });
});

test('a retry of a statement that changed nothing changes nothing, also when it would now', async () => {
  const { state } = newProcess();
  await state(2);
  const unchanged = await state(2, 'mine');
  await state(3);
  expect(await state(2, 'mine')).toEqual(unchanged);
  expect(await levels()).toEqual([2, 3]);
});

test('statements of two processes at once are decided on what the other stated', async () => {
  const [one, other] = [newProcess(), newProcess()];
  await Promise.all(Array.from({ length: 40 }, (_, n) => (n % 2 ? one : other).state(1 + (n % 6))));
  const stated = await levels();
  // A level that is set already is not set again.
  expect(stated.length).toBeGreaterThan(1);
  expect(stated.filter((level, n) => level === stated[n - 1])).toEqual([]);
});

test('commands of one process on one stream take turns, so however many there are, none is refused', async () => {
  const writer = new Writer(stores.eventStore, Date.now);
  const counted = defineEvent('Counted', { n: wholeNumber(0, 100) });
  const command = (n: number) =>
    writer.update('counter-1', contextOf(null, n), (history) => [fact(counted, { n: history.length })]);
  await Promise.all(Array.from({ length: 30 }, (_, n) => command(n)));
  const events = await stores.eventStore.readStream('counter-1');
  expect(events.map(({ data }) => data['n'])).toEqual(Array.from({ length: 30 }, (_, n) => n));
});
