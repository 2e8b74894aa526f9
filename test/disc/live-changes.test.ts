import { Registry } from 'prom-client';
import type { Change, ChangeFeed, FeedScope } from '../../src/features/disc/change-feed.js';
import { LiveChanges } from '../../src/features/disc/live-changes.js';
import type { ApiKeys } from '../../src/credentials/api-keys.js';
import type { Caller, Session } from '../../src/credentials/caller.js';
import type { SessionEnds } from '../../src/features/accounts/session-ends.js';
import type { RefreshFamilies } from '../../src/features/accounts/refresh-families.js';
import { Cursors } from '../../src/kernel/cursor.js';
import { Logger } from '../../src/kernel/logger.js';
import { Problem } from '../../src/kernel/problems.js';
import { Consumers } from '../../src/read-side/consumers.js';
import type { Views } from '../../src/read-side/views.js';
import type { EventStore } from '../../src/stores/ports/event-store.js';
import { eventually } from '../contracts/harness.js';

/** Streams of changes over a feed in memory: what a client gets, whatever happens meanwhile. */

const LIST = '/v1/disc/changes';
const cursors = new Cursors(() => Buffer.from('secret'));

/** Each identity at its last change, as the read models have it. */
class Feed {
  scope: FeedScope = { g: 'log', l: 'lens', m: 'model' };
  head = 0;
  failures = 0;
  reads = 0;
  /** At the same time, now and at most. */
  reading = 0;
  mostReading = 0;
  /** Those of some identities only. */
  ownReads = 0;
  /** What is read of some identities is as of an earlier position. */
  isBehind = false;
  private rows: Change[] = [];

  change(tris_id: string): void {
    const at = ++this.head;
    const row = { tris_id, score: at, score_rating: 'Poor' as const, total_tct: at, position: `log.${at}`, at };
    this.rows = [...this.rows.filter((other) => other.tris_id !== tris_id), row];
  }
  async now() {
    return { scope: this.scope, position: this.head };
  }
  async after(position: number, limit: number) {
    return this.part(this.rows.filter(({ at }) => at > position).slice(0, limit), position);
  }
  async of(trisIds: readonly string[], position: number) {
    this.ownReads++;
    if (this.isBehind) return this.part([], position);
    const rows = this.rows.filter(({ tris_id, at }) => at > position && trisIds.includes(tris_id));
    return { ...(await this.part(rows, position)), last: Math.max(position, this.head), isEnd: true };
  }
  private async part(rows: Change[], position: number) {
    this.reads++;
    if (this.failures > 0 && this.failures--) throw new Error('away');
    const { scope, head } = this;
    this.mostReading = Math.max(this.mostReading, ++this.reading);
    await new Promise(setImmediate);
    this.reading--;
    const last = rows.at(-1)?.at ?? position;
    return { scope, changes: rows, last, isEnd: last >= head || rows.length === 0 };
  }
}

interface Event {
  event: string;
  id: string;
  data: any;
}

/** A response; one that is `stuck` never sends what is written to it. */
class Out {
  readonly texts: string[] = [];
  readonly listeners = new Map<string, Set<() => void>>();
  writableEnded = false;
  destroyed = false;
  isStuck = false;
  writableLength = 0;
  get writableNeedDrain() {
    return this.writableLength > 16_384;
  }
  write(text: string | Buffer) {
    this.texts.push(String(text));
    if (this.isStuck) this.writableLength += text.length;
    return true;
  }
  end(text = '') {
    this.texts.push(text);
    this.writableEnded = true;
    this.emit('close');
  }
  drain() {
    this.writableLength = 0;
    this.emit('drain');
  }
  once(name: string, listener: () => void) {
    this.listeners.set(name, (this.listeners.get(name) ?? new Set()).add(listener));
    return this;
  }
  off(name: string, listener: () => void) {
    this.listeners.get(name)?.delete(listener);
    return this;
  }
  get events(): Event[] {
    return this.texts
      .join('')
      .split('\n\n')
      .filter((block) => block.startsWith('event: '))
      .map((block) => Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2))))
      .map(({ event, id, data }) => ({ event, id, data: JSON.parse(data) }) as Event);
  }
  get changes(): string[] {
    return this.events.flatMap(({ event, data }) => (event === 'change' ? `${data.tris_id}@${data.total_tct}` : []));
  }
  private emit(name: string) {
    for (const listener of Array.from(this.listeners.get(name) ?? [])) {
      this.off(name, listener);
      listener();
    }
  }
}

let feed: Feed;
let live: LiveChanges;
let now: number;
/** Throws if the session has ended. */
let standing: (family: string) => void;
let endSessionsOf: (wallet: string) => void;
beforeEach(() => {
  feed = new Feed();
  now = 1_000;
  standing = () => undefined;
  const keys = { accepts: () => true } as unknown as ApiKeys;
  live = new LiveChanges(
    feed as unknown as ChangeFeed,
    cursors,
    keys,
    { standingOf: async ({ family }: Session) => standing(family) } as unknown as RefreshFamilies,
    { watch: async (ended: (wallet: string) => void) => void (endSessionsOf = ended) } as unknown as SessionEnds,
    new Consumers({} as EventStore, {} as Views, new Logger('error', () => undefined)),
    () => now,
    new Registry(),
  );
});
afterEach(() => live.onModuleDestroy());

async function opened(id?: string, only: string[] | null = null, prepare?: (out: Out) => void): Promise<Out> {
  const out = new Out();
  prepare?.(out);
  const begin = await live.stream(null, id === undefined ? undefined : cursors.open(id, LIST), only);
  begin(out as never);
  return out;
}

test('a stream begins now, with an id to continue from, and gets what changes from then on', async () => {
  feed.change('tris:before');
  const out = await opened();
  expect(out.events).toMatchObject([{ event: 'heartbeat', data: { position: 'log.1' } }]);
  feed.change('tris:a');
  await eventually(() => out.changes.length === 1);
  expect(out.events.at(-1)).toMatchObject({
    event: 'change',
    data: { tris_id: 'tris:a', score: 2, score_rating: 'Poor', total_tct: 2, position: 'log.2' },
  });
  expect(out.events.at(-1)!.data).not.toHaveProperty('at');
});

test('each id continues the stream without a gap or a repeat', async () => {
  const first = await opened();
  for (const name of ['a', 'b', 'c', 'd']) feed.change(name);
  await eventually(() => first.changes.length === 4);
  for (const [n, { id }] of first.events.entries()) {
    const again = await opened(id);
    await eventually(() => again.changes.length === 4 - n);
    expect(again.changes).toEqual(first.changes.slice(n));
  }
});

test('while everything changes, no stream misses a last change or gets one twice, whenever it began', async () => {
  const outs = [await opened(), await opened(undefined, ['tris:3', 'tris:5'])];
  for (let n = 0; n < 400; n++) {
    feed.change(`tris:${n % 7}`);
    if (n % 20 === 0) {
      const { id } = outs[n % 3 === 0 ? 0 : 1]!.events.at(-1)!;
      outs.push(await opened(id, n % 40 === 0 ? null : ['tris:3', 'tris:5']));
    }
    if (n % 9 === 0) await new Promise((resolve) => setTimeout(resolve, n % 4));
  }
  const expected = new Map(Array.from({ length: 7 }, (_, i) => [`tris:${(393 + i) % 7}`, 394 + i]));
  const last = (out: Out) => new Map(out.changes.map((text) => text.split('@') as [string, string]));
  const isDone = (out: Out) => last(out).get('tris:5') === String(expected.get('tris:5'));
  await eventually(() =>
    outs.every((out) => isDone(out) && last(out).get('tris:3') === String(expected.get('tris:3'))),
  );
  for (const out of outs) {
    const positions = out.events.flatMap(({ event, data }) => (event === 'change' ? data.total_tct : []));
    expect(positions).toEqual([...new Set(positions as number[])].sort((a, b) => a - b));
  }
  const filtered = outs[1]!.changes.map((text) => text.split('@')[0]);
  expect(new Set(filtered)).toEqual(new Set(['tris:3', 'tris:5']));
});

test('after a promotion a stream is reset and gets all identities by the new lens, then what changes', async () => {
  for (const name of ['a', 'b', 'c']) feed.change(name);
  const [all, one] = [await opened(), await opened(undefined, ['b'])];
  const old = all.events[0]!.id;
  feed.scope = { ...feed.scope, l: 'another lens' };
  await eventually(() => all.changes.length === 3 && one.changes.length === 1);
  feed.change('b');
  await eventually(() => all.changes.length === 4 && one.changes.length === 2);
  expect(all.events.map(({ event }) => event)).toEqual(['heartbeat', 'reset', ...Array<string>(4).fill('change')]);
  expect(one.changes).toEqual(['b@2', 'b@4']);
  const resumed = await opened(old);
  await eventually(() => resumed.changes.length === 3);
  expect(resumed.events[0]!.event).toBe('reset');
  const afterReset = await opened(all.events[1]!.id);
  await eventually(() => afterReset.changes.length === 3);
  expect(afterReset.changes).toEqual(['a@1', 'c@3', 'b@4']);
});

test('a client that reads too slowly is cut off with a comment, and the others are not', async () => {
  const stuck = await opened(undefined, null, (out) => (out.isStuck = true));
  const other = await opened();
  for (let n = 0; !stuck.writableEnded; n++) {
    feed.change(`tris:${n}`);
    if (n % 50 === 0) await eventually(() => other.changes.length === n + 1);
    expect(n).toBeLessThan(2_000);
  }
  expect(stuck.texts.at(-1)).toMatch(/^: cut off/);
  expect(stuck.writableLength).toBeLessThan(200_000);
  const { length } = other.changes;
  feed.change('tris:later');
  await eventually(() => other.changes.length > length && other.changes.at(-1)!.startsWith('tris:later'));
});

test('what a stream has missed is read at the speed of its client', async () => {
  const other = await opened();
  const start = other.events[0]!.id;
  for (let n = 0; n < 2_000; n++) feed.change(`tris:${n}`);
  await eventually(() => other.changes.length === 2_000);
  const out = await opened(start, null, (stream) => (stream.isStuck = true));
  await eventually(() => out.changes.length > 0);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  expect(out.changes.length).toBeLessThanOrEqual(128);
  out.isStuck = false;
  out.drain();
  await eventually(() => out.changes.length === 2_000);
});

test('clients that read nothing of what they have missed hold up no other stream', async () => {
  const other = await opened();
  const start = other.events[0]!.id;
  for (let n = 0; n < 300; n++) feed.change(`tris:${n}`);
  await eventually(() => other.changes.length === 300);
  const stuck = await Promise.all(
    Array.from({ length: 20 }, () => opened(start, null, (stream) => (stream.isStuck = true))),
  );
  const out = await opened(start);
  await eventually(() => out.changes.length === 300);
  for (const each of stuck) expect(each.changes.length).toBeLessThanOrEqual(128);
});

test('at most eight streams read what they have missed at the same time, beside what all share', async () => {
  const other = await opened();
  const start = other.events[0]!.id;
  for (let n = 0; n < 600; n++) feed.change(`tris:${n}`);
  await eventually(() => other.changes.length === 600);
  const outs = await Promise.all(Array.from({ length: 40 }, () => opened(start)));
  await eventually(() => outs.every(({ changes }) => changes.length === 600));
  expect(feed.mostReading).toBeGreaterThan(1);
  expect(feed.mostReading).toBeLessThanOrEqual(9);
});

test('all streams share the reads of the feed', async () => {
  const outs = await Promise.all(Array.from({ length: 500 }, () => opened()));
  const before = feed.reads;
  feed.change('tris:a');
  await eventually(() => outs.every(({ changes }) => changes.length === 1));
  expect(feed.reads - before).toBeLessThan(50);
});

test('a stream whose reads are behind those of the others reads again as seldom as they do', async () => {
  const other = await opened();
  feed.change('tris:a');
  await eventually(() => other.changes.length === 1);
  feed.isBehind = true;
  const out = await opened(other.events[0]!.id, ['tris:a']);
  const others = () => feed.reads - feed.ownReads;
  const before = others();
  await eventually(() => others() >= before + 5);
  expect(feed.ownReads).toBeLessThanOrEqual(20);
  feed.isBehind = false;
  await eventually(() => out.changes.length === 1);
});

test('while the read models cannot be read the streams wait, and lose nothing', async () => {
  const out = await opened();
  feed.failures = 2;
  feed.change('tris:a');
  await eventually(() => out.changes.length === 1);
  expect(out.writableEnded).toBe(false);
});

test('a stream of a session ends when its access token expires, and the others go on', async () => {
  const session = { family: 'f', wallet: '0xa', chainId: null, trisId: null };
  const caller = {
    keyId: 'session:0xa',
    idempotencyScope: 'session:0xa',
    scopes: new Set<never>(),
    organization: null,
    session,
  };
  const [soon, later, other] = [new Out(), new Out(), await opened()];
  (await live.stream({ ...caller, expiresAt: 2_000 }, undefined, null))(soon as never);
  (await live.stream({ ...caller, expiresAt: 3_000 }, undefined, null))(later as never);
  now = 2_000;
  await eventually(() => soon.writableEnded);
  expect(soon.texts.at(-1)).toBe(': the access token of this stream has expired\n\n');
  feed.change('tris:a');
  await eventually(() => later.changes.length === 1 && other.changes.length === 1);
  expect(soon.changes).toEqual([]);
});

test('a stream of a session ends with the session, and the others go on', async () => {
  const callerOf = (family: string, wallet: string) => {
    const session = { family, wallet, chainId: null, trisId: null };
    const keyId = `session:${wallet}`;
    return { keyId, idempotencyScope: keyId, scopes: new Set<never>(), organization: null, session, expiresAt: 2_000 };
  };
  const callers = [callerOf('f1', '0xa'), callerOf('f2', '0xa'), callerOf('f3', '0xb')];
  const outs = callers.map(() => new Out());
  for (const [n, caller] of callers.entries()) (await live.stream(caller, undefined, null))(outs[n] as never);
  const key = await opened();
  let asked: string[] = [];
  standing = (family) => {
    asked.push(family);
    if (family === 'f1') throw new Problem('session_revoked', 'ended');
  };
  endSessionsOf('0xa');
  await eventually(() => outs[0]!.writableEnded);
  expect(outs[0]!.texts.at(-1)).toBe(': the session of this stream has ended\n\n');
  expect(asked.sort()).toEqual(['f1', 'f2']);
  await expect(live.stream(callers[0]!, undefined, null)).rejects.toMatchObject({ code: 'session_revoked' });
  feed.change('tris:a');
  await eventually(() => [outs[1]!, outs[2]!, key].every(({ changes }) => changes.length === 1));
  // One that ends while its stream is being opened ends it, too; an answer that cannot be had is asked for again.
  const late = new Out();
  const begin = await live.stream(callers[1]!, undefined, null);
  let failures = 1;
  standing = () => {
    if (failures-- > 0) throw new Error('away');
    throw new Problem('session_revoked', 'ended');
  };
  begin(late as never);
  await eventually(() => late.writableEnded);
});

test('there are at most 10,000 streams, half of them without a key; one that ends makes room', async () => {
  const key = { keyId: 'k', organization: null, session: null } as unknown as Caller;
  const session = {
    ...key,
    keyId: 'session:0x',
    session: { family: 'f', wallet: '0x' },
    expiresAt: Infinity,
  } as Caller;
  const streams = async (caller: Caller | null, count: number) => {
    const outs = Array.from({ length: count }, () => new Out());
    for (const out of outs) (await live.stream(caller, undefined, null))(out as never);
    return outs;
  };
  const anonymous = await streams(null, 2_500);
  const sessions = await streams(session, 2_500);
  for (const caller of [null, session]) {
    await expect(live.stream(caller, undefined, null)).rejects.toMatchObject({ code: 'too_many_streams' });
  }
  anonymous[0]!.end();
  await streams(session, 1);
  sessions[0]!.end();
  await streams(null, 1);
  const keys = await streams(key, 5_000);
  await expect(live.stream(key, undefined, null)).rejects.toMatchObject({ code: 'too_many_streams' });
  keys[0]!.end();
  await streams(key, 1);
});

test('a service that stops ends all streams and opens no more', async () => {
  const out = await opened();
  live.onModuleDestroy();
  expect([out.writableEnded, out.texts.at(-1)]).toEqual([true, ': the service is stopping\n\n']);
  await expect(opened()).rejects.toMatchObject({ code: 'shutting_down' });
});

test('a stream that is to begin once the service stops ends at once', async () => {
  const begin = await live.stream(null, undefined, null);
  live.onModuleDestroy();
  const out = new Out();
  begin(out as never);
  expect([out.writableEnded, out.texts]).toEqual([true, [': the service is stopping\n\n']]);
});
