import { join } from 'node:path';
import { Writer } from '../../src/commands/writer.js';
import { SignedCheckpoints, logKeyFile } from '../../src/credentials/log-key.js';
import { Checkpointer } from '../../src/features/checkpoints/checkpointer.js';
import { decorated } from '../../src/kernel/decorated.js';
import type { RecordedEvent } from '../../src/kernel/event.js';
import { Logger } from '../../src/kernel/logger.js';
import { Views } from '../../src/read-side/views.js';
import {
  type Appended,
  type EventStore,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../src/stores/ports/event-store.js';
import { becomes, eventually } from '../contracts/harness.js';
import { temporaryFolder } from '../embedded/temporary-folder.js';
import { type Service, startService } from '../policies/service.fixture.js';
import { SignedNotes } from './signed-log.js';

/** Appends of origins and checkpoints whose outcome is another one than that which was told, or which come second. */

let place: Awaited<ReturnType<typeof temporaryFolder>>;
let service: Service;
let log: EventStore;
let lines: string[];
const running: Checkpointer[] = [];
beforeEach(async () => {
  place = await temporaryFolder();
  service = await startService({ CREDENCE_LOG_KEY: join(place.path, 'log-key.json') });
  logKeyFile(service.config).create();
  log = service.stores.eventStore;
  lines = [];
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()));
  await service.close();
  await place.remove();
});

function checkpoint(append: EventStore['append'] = log.append.bind(log)): Checkpointer {
  const { app } = service;
  const writer = new Writer(decorated(log, { append }), Date.now);
  const logger = new Logger('warn', (line) => void lines.push(line));
  const checkpointer = new Checkpointer(
    log,
    app.get(Views),
    writer,
    app.get(SignedCheckpoints),
    () => Promise.resolve(true),
    logger,
  );
  running.push(checkpointer);
  return checkpointer;
}

/** So many that a checkpoint follows within a second. */
async function relayMany(): Promise<void> {
  const action = { tris_id: 'tris:alice', category: 'financial', action_type: 'swap', criticality: 'high' };
  const actions = Array.from({ length: 1_000 }, () => ({ ...action, platform_id: 'lender' }));
  expect((await service.post('/v1/decision-relay/batch', { actions })).status).toBe(200);
}

async function recorded(): Promise<RecordedEvent[]> {
  const events: RecordedEvent[] = [];
  for await (const slice of log.readAll(0)) events.push(...slice);
  return events;
}
const countOf = async (type: string) => (await recorded()).filter((event) => event.type === type).length;

const noAnswer = () => new StoreUnavailable('the log gives no answer');
type Append = () => Promise<Appended>;
/** What the first append of a type meets; `later`: what is done once a checkpoint was signed. */
type Fault = (append: Append, type: string, later: Append[]) => Promise<Appended>;

test.each<[string, Fault]>([
  [
    'lost',
    async () => {
      throw noAnswer();
    },
  ],
  [
    'recorded, and its answer is lost',
    async (append) => {
      await append();
      throw noAnswer();
    },
  ],
  [
    'recorded only after the next one',
    async (append, _, later) => {
      later.push(append);
      await relayMany();
      throw noAnswer();
    },
  ],
  [
    'recorded, and comes again after the next one',
    async (append, _, later) => {
      later.push(append);
      return append();
    },
  ],
  [
    'second to that of another worker',
    async (append, type) => {
      const other = checkpoint();
      await eventually(async () => (await countOf(type)) > 0);
      await other.stop();
      return append();
    },
  ],
])('an append that is %s: one log is signed, and no size twice', async (_, fault) => {
  const met = new Set<string>();
  const later: Append[] = [];
  // Of an empty log there is no tree.
  await relayMany();
  const checkpointer = checkpoint((stream, expected, events) => {
    const append = () => log.append(stream, expected, events);
    const { type } = events[0]!;
    if (met.has(type)) return append();
    met.add(type);
    return fault(append, type, later);
  });
  const signed = service.app.get(SignedCheckpoints);
  const notes = new SignedNotes(async () => (await signed.note()) ?? '');
  await becomes(notes.look.bind(notes), (note) => note !== '');
  for (const append of later) {
    await append().catch((error: unknown) => expect(error).toBeInstanceOf(WrongExpectedRevision));
  }
  const before = notes.count;
  await relayMany();
  await becomes(notes.look.bind(notes), () => notes.count > before);
  expect([...met]).toEqual(['LogOriginBegun', 'LogCheckpointed']);
  await checkpointer.stop();
  notes.expectNoForkOf(await recorded());
  expect(await countOf('LogOriginBegun')).toBe(1);
  expect([checkpointer.refusal, lines]).toEqual([null, []]);
});
