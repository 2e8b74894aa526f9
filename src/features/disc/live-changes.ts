import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { ApiKeys } from '../../credentials/api-keys.js';
import type { Caller, Session } from '../../credentials/caller.js';
import { backoff } from '../../kernel/backoff.js';
import { drained } from '../../kernel/drained.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { Cursors, decodeCursor, encodeCursor } from '../../kernel/cursor.js';
import type { Position } from '../../kernel/event.js';
import { formatPosition } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { Turns } from '../../kernel/turns.js';
import { Consumers } from '../../read-side/consumers.js';
import { SessionEnds } from '../accounts/session-ends.js';
import { RefreshFamilies } from '../accounts/refresh-families.js';
import { ChangeFeed, type FeedPart, type FeedScope, isFeedCursor, isSameScope } from './change-feed.js';

/** The list whose cursors are the ids of events. */
const LIST = '/v1/disc/changes';
/** A stream that reads by itself waits so long if it can read no more at present, ms. */
const POLL_MS = 50;
const HEARTBEAT_MS = 15_000;
/** How often the credentials of the streams are checked again, ms. */
const CREDENTIALS_MS = 1_000;
/** Changes read at once: about 50 kB of events, which all streams share in memory. */
const PART = 128;
/** A stream with more bytes unsent is cut off. */
const MAX_UNSENT = 64 * 1024;
/** Streams of this process. Callers without a key, whom anybody can be, may have half of them together. */
const MAX_STREAMS = 10_000;
/** The last line of a stream. */
const STOPPING = ': the service is stopping\n\n';
/** Streams that read what they have missed at the same time. */
const MAX_CATCHING_UP = 8;

type Out = Pick<
  ServerResponse,
  'write' | 'end' | 'once' | 'off' | 'writableLength' | 'writableNeedDrain' | 'writableEnded' | 'destroyed'
>;

interface Stream {
  out: Out;
  caller: Caller | null;
  group: Group;
  scope: FeedScope;
  /** It has all changes up to here. */
  position: Position;
  /** null: changes of all identities. */
  only: readonly string[] | null;
}

/** Streams with one lens, which get the same events. */
class Group {
  /** All of its streams, also those that are not attached since they have to catch up. */
  readonly streams = new Set<Stream>();
  readonly attached = new Set<Stream>();
  /** Attached streams of some identities, by identity. */
  readonly byIdentity = new Map<string, Set<Stream>>();
  /** Stops what sends to it: it has no streams any more. */
  readonly left = new AbortController();

  /**
   * @param organization whose lens; null: the platform's
   * @param position its attached streams have all changes up to here
   */
  constructor(
    readonly organization: string | null,
    public scope: FeedScope,
    public position: Position,
  ) {}
}

/**
 * Sends the changes of the feed to all streams of this process. All streams with the same lens share what is read and the
 * events that are made from it. A stream that has missed something reads it by itself, at the speed of its client, before
 * it is attached to its group.
 */
@Injectable()
export class LiveChanges implements OnModuleDestroy {
  private readonly groups = new Map<string | null, Group>();
  private readonly streams = new Set<Stream>();
  private readonly turns = new Turns<Stream>(MAX_CATCHING_UP, 1);
  /** Streams of sessions. */
  private sessions = 0;
  /** Those and the streams without a credential. */
  private keyless = 0;
  private closed = false;
  /** While streams of sessions are open: whether the ends of sessions are noticed. */
  private watch: { begun: Promise<void>; stop: AbortController } | undefined;
  private readonly open: Gauge;
  private readonly cuts: Counter;

  constructor(
    private readonly feed: ChangeFeed,
    private readonly cursors: Cursors,
    private readonly keys: ApiKeys,
    private readonly families: RefreshFamilies,
    private readonly ends: SessionEnds,
    private readonly consumers: Consumers,
    @Inject(CLOCK) private readonly clock: Clock,
    registry: Registry,
  ) {
    const registers = [registry];
    this.open = new Gauge({ name: 'credence_streams', help: 'Live streams of changes that are open', registers });
    this.cuts = new Counter({
      name: 'credence_streams_cut_total',
      help: 'Live streams that were cut off since their client read too slowly',
      registers,
    });
  }

  /**
   * @param caller the scores go by the lens of its organization; the stream ends when its key is no longer accepted, its
   *   access token expires, or its session ends
   * @param cursor of the change feed; undefined: from now on
   * @param only the identities whose changes are sent; null: all
   * @returns begins to write to a response
   * @throws Problem too_many_streams, shutting_down, projection_rebuilding, session_revoked
   */
  async stream(
    caller: Caller | null,
    cursor: string | undefined,
    only: readonly string[] | null,
  ): Promise<(out: Out) => void> {
    const from = cursor === undefined ? undefined : decodeCursor(cursor, isFeedCursor);
    this.refuseIfFull(caller);
    // A client reopens a stream that has ended.
    if (caller?.session) await this.families.standingOf(caller.session);
    const organization = caller?.organization ?? null;
    const start = this.groups.get(organization) ?? (await this.feed.now({ organization }));
    this.refuseIfFull(caller);
    return (out) => {
      if (out.destroyed) return;
      // Its connection may have come free only now.
      if (this.closed) return void out.end(STOPPING);
      const group = this.groups.get(organization) ?? this.begin(organization, start);
      const scope = from ?? group.scope;
      const stream = { out, caller, group, scope, position: from?.p ?? group.position, only };
      this.streams.add(stream);
      if (caller?.session) this.sessions++;
      if (isKeyless(caller)) this.keyless++;
      group.streams.add(stream);
      this.open.set(this.streams.size);
      out.once('close', () => this.leave(stream));
      // Not all clients of a stopped process return at the same time.
      out.write(`retry: ${1_000 + Math.floor(Math.random() * 4_000)}\n\n`);
      if (from === undefined) out.write(this.heartbeat(group));
      void this.catchUp(stream);
      if (caller?.session) void this.endIfOver(stream, caller.session);
    };
  }

  onModuleDestroy(): void {
    this.closed = true;
    this.watch?.stop.abort();
    for (const { left } of this.groups.values()) left.abort();
    for (const { out } of this.streams) out.end(STOPPING);
  }

  private refuseIfFull(caller: Caller | null): void {
    const headers = { 'retry-after': '5' };
    if (this.closed) throw new Problem('shutting_down', 'The service is stopping.', { headers });
    if (this.streams.size < MAX_STREAMS && (!isKeyless(caller) || this.keyless < MAX_STREAMS / 2)) return;
    const keyless = `${MAX_STREAMS / 2} of callers without a key`;
    const detail = `This process has ${MAX_STREAMS} open streams, or ${keyless}, which is the limit; try again later.`;
    throw new Problem('too_many_streams', detail, { headers });
  }

  private begin(organization: string | null, { scope, position }: Pick<Group, 'scope' | 'position'>): Group {
    const group = new Group(organization, scope, position);
    this.groups.set(organization, group);
    this.follow(group);
    return group;
  }

  private leave(stream: Stream): void {
    // It is called again when the response closes.
    if (!this.streams.delete(stream)) return;
    const { group, caller } = stream;
    group.streams.delete(stream);
    this.detach(stream);
    if (group.streams.size === 0) {
      group.left.abort();
      this.groups.delete(group.organization);
    }
    this.open.set(this.streams.size);
    if (isKeyless(caller)) this.keyless--;
    if (!caller?.session || --this.sessions > 0) return;
    this.watch?.stop.abort();
    this.watch = undefined;
  }

  /** @returns false if the stream has missed something that its group has */
  private attach(stream: Stream): boolean {
    const { group, only } = stream;
    if (stream.position < group.position || !isSameScope(stream.scope, group.scope)) return false;
    stream.scope = group.scope;
    group.attached.add(stream);
    for (const trisId of only ?? []) {
      const others = group.byIdentity.get(trisId);
      if (others) others.add(stream);
      else group.byIdentity.set(trisId, new Set([stream]));
    }
    return true;
  }

  private detach(stream: Stream): void {
    const { group, only } = stream;
    if (!group.attached.delete(stream)) return;
    for (const trisId of only ?? []) {
      const streams = group.byIdentity.get(trisId)!;
      streams.delete(stream);
      if (streams.size === 0) group.byIdentity.delete(trisId);
    }
  }

  /** Sends what the stream has missed. Streams take turns: the last does not wait for all that the first has missed. */
  private async catchUp(stream: Stream): Promise<void> {
    while (this.isOpen(stream) && !this.attach(stream)) {
      await this.turns.run(stream, () => this.sendMissed(stream));
      // It takes no turn from the others while its client reads.
      if (stream.out.writableNeedDrain) await drained(stream.out);
    }
  }

  private async sendMissed(stream: Stream): Promise<void> {
    if (!this.isOpen(stream)) return;
    const { group, only, position } = stream;
    try {
      const selector = { organization: group.organization };
      const part = await (only ? this.feed.of(only, position, selector) : this.feed.after(position, PART, selector));
      if (!this.isOpen(stream)) return;
      if (!isSameScope(part.scope, stream.scope)) return this.reset(stream, part.scope);
      stream.position = part.last;
      if (part.changes.length > 0) stream.out.write(this.frames(part).join(''));
      else if (!this.attach(stream)) await sleep(POLL_MS);
    } catch {
      await sleep(POLL_MS);
    }
  }

  private reset(stream: Stream, scope: FeedScope): void {
    stream.scope = scope;
    stream.position = 0;
    stream.out.write(event('reset', this.idOf(0, scope), '{}'));
  }

  private follow(group: Group): void {
    let beat = performance.now();
    let checked = beat;
    const take = async () => {
      try {
        return await this.readOn(group);
      } finally {
        // Also while the read models cannot be read.
        const now = performance.now();
        if (now - beat >= HEARTBEAT_MS) {
          beat = now;
          await this.beat(group);
        }
        if (now - checked >= CREDENTIALS_MS) {
          checked = now;
          await this.endRefused(group);
        }
      }
    };
    void this.consumers.follow('live streams', take, group.left.signal);
  }

  /** @returns whether there is more */
  private async readOn(group: Group): Promise<boolean> {
    const part = await this.feed.after(group.position, PART, { organization: group.organization });
    if (!isSameScope(part.scope, group.scope)) {
      group.scope = part.scope;
      for (const stream of Array.from(group.attached)) {
        this.detach(stream);
        this.reset(stream, part.scope);
        void this.catchUp(stream);
        await yieldIfDue();
      }
      return true;
    }
    if (part.changes.length > 0) await this.send(group, part);
    else group.position = part.last;
    return !part.isEnd;
  }

  private async send(group: Group, part: FeedPart): Promise<void> {
    const frames = this.frames(part);
    const all = Buffer.from(frames.join(''));
    const before = group.position;
    const framesAfter = (position: Position) => [
      Buffer.from(frames.filter((_, i) => part.changes[i]!.at > position).join('')),
    ];
    // From here on, a stream that is attached has this part already.
    group.position = part.last;
    const receivers = new Map<Stream, Buffer[]>();
    for (const stream of Array.from(group.attached)) {
      if (stream.only === null) receivers.set(stream, stream.position <= before ? [all] : framesAfter(stream.position));
      if (isDue()) await yieldIfDue();
    }
    for (const [i, { tris_id, at }] of part.changes.entries()) {
      const frame = Buffer.from(frames[i]!);
      for (const stream of Array.from(group.byIdentity.get(tris_id) ?? [])) {
        if (at <= stream.position) continue;
        const own = receivers.get(stream);
        if (own) own.push(frame);
        else receivers.set(stream, [frame]);
        if (isDue()) await yieldIfDue();
      }
    }
    for (const [stream, buffers] of receivers) {
      for (const buffer of buffers) this.write(stream, buffer);
      // The connection sends it in the next tick: its time is part of this turn.
      await new Promise<void>((resolve) => process.nextTick(resolve));
      await yieldIfDue();
    }
  }

  private async beat(group: Group): Promise<void> {
    const frame = Buffer.from(this.heartbeat(group));
    for (const stream of group.attached) {
      this.write(stream, frame);
      await yieldIfDue();
    }
  }

  /** Ends a stream if its session has ended, and is told if it ends later. */
  private async endIfOver(stream: Stream, session: Session): Promise<void> {
    for (let failures = 1; this.isOpen(stream); failures++) {
      try {
        await this.watchSessions();
        await this.families.standingOf(session);
        return;
      } catch (error) {
        if (error instanceof Problem && error.code === 'session_revoked') {
          return this.end(stream, 'the session of this stream has ended');
        }
        await sleep(backoff(failures));
      }
    }
  }

  private watchSessions(): Promise<void> {
    if (this.watch) return this.watch.begun;
    const stop = new AbortController();
    const begun = this.ends.watch((wallet) => {
      for (const stream of this.streams) {
        const session = stream.caller?.session;
        if (session?.wallet === wallet) void this.endIfOver(stream, session);
      }
    }, stop.signal);
    const watch = { begun, stop };
    begun.catch(() => {
      if (this.watch === watch) this.watch = undefined;
    });
    return (this.watch = watch).begun;
  }

  private end(stream: Stream, why: string): void {
    this.leave(stream);
    stream.out.end(`: ${why}\n\n`);
  }

  /** Ends the streams whose key was deleted, replaced or changed, and those whose access token has expired. */
  private async endRefused({ streams }: Group): Promise<void> {
    const now = this.clock();
    for (const stream of Array.from(streams)) {
      if (isDue()) await yieldIfDue();
      const { caller } = stream;
      if (!caller) continue;
      const { session, expiresAt = Infinity } = caller;
      if (session ? now < expiresAt : this.keys.accepts(caller)) continue;
      const why = session
        ? 'the access token of this stream has expired'
        : 'the key of this stream is no longer accepted';
      this.end(stream, why);
    }
  }

  private write(stream: Stream, buffer: Buffer): void {
    if (!this.isOpen(stream)) return;
    if (stream.out.writableLength <= MAX_UNSENT) {
      stream.out.write(buffer);
      return;
    }
    this.cuts.inc();
    this.leave(stream);
    // Unsent bytes come first. A client that reads nothing at all is disconnected by the server soon.
    stream.out.end(': cut off, since this client reads too slowly; Last-Event-ID continues\n\n');
  }

  private isOpen({ out }: Stream): boolean {
    return !out.destroyed && !out.writableEnded;
  }

  private frames({ changes, scope }: FeedPart): string[] {
    return changes.map(({ at, ...data }) => event('change', this.idOf(at, scope), JSON.stringify(data)));
  }

  private heartbeat({ position, scope }: Group): string {
    const data = JSON.stringify({ position: formatPosition(scope.g, position) });
    return event('heartbeat', this.idOf(position, scope), data);
  }

  private idOf(p: Position, { g, l, m }: FeedScope): string {
    return this.cursors.seal(encodeCursor({ p, g, l, m }), LIST);
  }
}

const isKeyless = (caller: Caller | null): boolean => caller === null || caller.session !== null;

/** A server-sent event. Its data has no line breaks. */
function event(name: string, id: string, data: string): string {
  return `event: ${name}\nid: ${id}\ndata: ${data}\n\n`;
}
