import { setMaxListeners } from 'node:events';
import { connect } from 'node:http2';
import { setTimeout as sleep } from 'node:timers/promises';
import { ErrorType, EventStoreDBClient, isCommandError } from '@eventstore/db-client';
import { StartError } from '../../kernel/start-error.js';
import { StoreUnavailable } from '../ports/event-store.js';

/** How long the server may be silent, and how long a caller waits for a definite answer. In milliseconds. */
export interface Patience {
  /** A connection that says nothing for so long while an answer is due is given up and made again. */
  answerMs: number;
  /** A caller without a definite answer gets StoreUnavailable after so long. */
  patienceMs: number;
}

/** Between two attempts. */
const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 500;
/** A connection that is being made is given up after so long, whatever it looks like. */
const LONGEST_CONNECT_MS = 60_000;
/** As in grpc-js, which is not imported for some numbers. */
const CONNECTING = 1;
const READY = 2;
const SHUTDOWN = 4;
/** How often it is looked whether the right log is back. */
const REFUSED_PAUSE_MS = 1_000;

/** One client, until it is replaced. */
export interface Link {
  readonly client: EventStoreDBClient;
  /** Aborted when the client is replaced: what still waits on it will hear nothing more. */
  readonly gone: AbortSignal;
  /** Of the connection that the client has now: another number, never used before, whenever that was made again. */
  readonly session: number;
}
interface OwnLink extends Link {
  /** The connection was asked for, and the server has not said a word on it yet. */
  isConnecting(): boolean;
  target(): string;
  end(): void;
}

/** The server said nothing although an answer was due, or the client was replaced while one was awaited. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/**
 * The client of EventStoreDB, one at a time, replaced when its connection has gone silent or is broken. The connection
 * string goes to the client's own parser as it is: TLS, credentials and gossip seeds work as in its documentation.
 */
export class Connection {
  /** Host and port of every node named, without credentials or options: for messages. */
  readonly place: string;
  #current: OwnLink;
  #probed: OwnLink | undefined;
  #closed = false;
  /** Looks whether there is the log that there should be, once it is known which. */
  #check: ((link: Link) => Promise<void>) | undefined;
  /** The connection on which it was found. */
  #confirmed: number | undefined;
  #confirming: { session: number; outcome: Promise<number> } | undefined;
  #watching = false;
  /** How often the log was found again behind a new connection. */
  connections = 0;
  /** Why nothing is asked of a server that answers. */
  refusal: StoreUnavailable | undefined;
  /** Why the server does not answer. */
  #away: string | undefined;

  /** @throws StartError for a connection string that the client cannot read */
  constructor(
    private readonly url: string,
    readonly patience: Patience,
    private readonly warn: (message: string) => void,
  ) {
    this.place = placeOf(url);
    this.#current = linkTo(url, warn, () => this.#dropped());
  }

  /** Whether it is known which log there should be. */
  get guarded(): boolean {
    return this.#check !== undefined;
  }

  get isAway(): boolean {
    return this.#away !== undefined;
  }

  /**
   * From now on nothing is read or appended on a connection before `check` has found there what should be there.
   * @param check throws LogReplaced if it does not
   */
  async guard(check: (link: Link) => Promise<void>): Promise<void> {
    this.#check = check;
    await this.confirm(this.#current);
  }

  /**
   * The session of a link on which the log was found. Whatever is answered counts only if the session is the same then.
   * @throws StoreUnavailable log_replaced, or what kept it from being looked for
   */
  async confirm(link: Link): Promise<number> {
    // Whether the right log is back is for the watch to find out.
    if (this.refusal) throw this.refusal;
    return this.#confirmOn(link);
  }

  async #confirmOn(link: Link): Promise<number> {
    if (!this.#check || link.session === this.#confirmed) return link.session;
    let confirming = this.#confirming;
    if (confirming?.session !== link.session) {
      const outcome = this.#look(link, this.#check);
      const started = (confirming = this.#confirming = { session: link.session, outcome });
      const done = () => {
        if (this.#confirming === started) this.#confirming = undefined;
      };
      outcome.then(done, done);
    }
    return confirming.outcome;
  }

  async #look(link: Link, check: (link: Link) => Promise<void>): Promise<number> {
    for (;;) {
      const { session } = link;
      try {
        await check(link);
      } catch (error) {
        if (!(error instanceof LogReplaced)) throw error;
        this.#refuse(error);
        throw this.refusal!;
      }
      // It may have been made while it was looked at.
      if (link.session !== session) continue;
      if (this.#confirmed !== undefined) this.connections++;
      this.#confirmed = session;
      this.#well();
      return session;
    }
  }

  #refuse({ message }: LogReplaced): void {
    if (!this.refusal) {
      this.warn(
        `log_replaced: EventStoreDB at ${this.place} ${message}. Nothing is read or appended. Bring the right log back, ` +
          'or, to go on with this one for good, restart every process (docs/operations.md).',
      );
    }
    this.refusal = new StoreUnavailable(`EventStoreDB at ${this.place} ${message}`, { code: 'log_replaced' });
    void this.#watch();
  }

  #well(): void {
    if (this.refusal) this.warn(`EventStoreDB at ${this.place} holds the right log again`);
    else if (this.#away !== undefined) this.warn(`EventStoreDB at ${this.place} is back`);
    this.refusal = undefined;
    this.#away = undefined;
  }

  /** The connection is no more: what is behind the next one is looked at soon, whether or not anybody asks. */
  #dropped(): void {
    if (this.#check && !this.#closed) void this.#watch();
  }

  /** Looks until the log is found; tells when the server is away. */
  async #watch(): Promise<void> {
    if (this.#watching) return;
    this.#watching = true;
    for (let attempt = 0; !this.#closed; attempt++) {
      const { link } = this;
      try {
        await this.#confirmOn(link);
        break;
      } catch (error) {
        if (this.#closed) break;
        if (error instanceof StoreUnavailable && error.code === 'log_replaced') {
          // The right one may be behind a new connection only.
          await sleep(REFUSED_PAUSE_MS, undefined, { ref: false });
          if (!this.#closed && link === this.#current) this.#replace();
          continue;
        }
        if (!this.refusal && this.#away === undefined) {
          this.#away = withoutCredentials((error as Error).message);
          this.warn(`EventStoreDB at ${this.place} is away: ${this.#away}`);
        }
        if (breaksConnection(error)) this.renew(link);
      }
      await this.pause(attempt);
    }
    this.#watching = false;
  }

  get link(): Link {
    return this.#current;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Replaces the client, if this one is still in use. One that is still connecting is replaced only when the server
   * answers on another connection: the library under the client never gives such an attempt up, and its sockets would
   * add up for as long as the network takes connections and is otherwise dead.
   */
  renew(link: Link): void {
    if (link !== this.#current || this.#closed) return;
    if (this.#current.isConnecting()) void this.#renewOnceItAnswers(this.#current);
    else this.#replace();
    this.#dropped();
  }

  async #renewOnceItAnswers(link: OwnLink): Promise<void> {
    if (this.#probed === link) return;
    this.#probed = link;
    const until = performance.now() + LONGEST_CONNECT_MS;
    while (link === this.#current && link.isConnecting() && !this.#closed) {
      const answered = await answers(link.target(), this.url, this.patience.answerMs);
      if (link !== this.#current || !link.isConnecting() || this.#closed) break;
      if (answered || performance.now() > until) this.#replace();
      else await this.pause(Infinity);
    }
    if (this.#probed === link) this.#probed = undefined;
  }

  #replace(): void {
    const old = this.#current;
    this.#current = linkTo(
      this.url,
      () => undefined,
      () => this.#dropped(),
    );
    old.end();
  }

  /**
   * Does something that may be done again, until it succeeds or fails for good.
   * @throws StoreUnavailable without a definite answer in time, or what `work` threw if that is a definite answer
   */
  async persist<T>(work: (link: Link) => Promise<T>): Promise<T> {
    const until = performance.now() + this.patience.patienceMs;
    for (let attempt = 0; ; attempt++) {
      if (this.#closed) throw closedError();
      const { link } = this;
      try {
        const session = await this.confirm(link);
        const answer = await work(link);
        if (this.guarded && link.session !== session) throw new NoAnswer('the connection was made again');
        return answer;
      } catch (error) {
        if (isDefinite(error)) throw error;
        if (performance.now() > until) throw this.unavailable(error);
        if (breaksConnection(error)) this.renew(link);
      }
      await this.pause(attempt);
    }
  }

  /** Waits a little longer with every attempt; a signal ends it early. */
  async pause(attempt: number, signal?: AbortSignal): Promise<void> {
    const ms = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS);
    await sleep(ms, undefined, { signal }).catch(() => undefined);
  }

  unavailable(cause: unknown): StoreUnavailable {
    const reason = withoutCredentials(cause instanceof Error ? cause.message : String(cause));
    return new StoreUnavailable(`EventStoreDB at ${this.place} gives no definite answer: ${reason}`, { cause });
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#current.end();
  }
}

export function closedError(): StoreUnavailable {
  return new StoreUnavailable('the event store is closed');
}

/** The client's own errors that say what became of the request; after any other it may have been carried out or not. */
const DEFINITE = new Set<unknown>([
  ErrorType.WRONG_EXPECTED_VERSION,
  ErrorType.STREAM_NOT_FOUND,
  ErrorType.STREAM_DELETED,
  ErrorType.ACCESS_DENIED,
  ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED,
  ErrorType.INVALID_ARGUMENT,
]);

export function isDefinite(error: unknown): boolean {
  if (error instanceof NoAnswer || error instanceof StoreUnavailable) return error instanceof StoreUnavailable;
  if (error instanceof Error && isCommandError(error)) return DEFINITE.has(error.type);
  // What is neither the client's nor the network's is ours, and would fail again.
  return error instanceof DamagedLog;
}

/** The log holds what Credence cannot have written, or was asked for a position it does not have. */
export class DamagedLog extends Error {
  override readonly name = 'DamagedLog';
}

/** In the place of the log there is another one, or an older copy; the message says what the server does. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}

/** Not after an answer of the server, such as "timed out", and not when the client goes to the leader by itself. */
export function breaksConnection(error: unknown): boolean {
  if (!(error instanceof Error) || !isCommandError(error)) return true;
  return error.type === ErrorType.UNAVAILABLE || error.type === ErrorType.CANCELLED;
}

let sessions = 0;

/**
 * @param dropped told when the connection to the server has ended
 * @throws StartError for a connection string that cannot be read
 */
function linkTo(url: string, warn: (message: string) => void, dropped: () => void): OwnLink {
  const client = clientOf(url, warn);
  // It is called and never awaited, and rejects when the discovery of a cluster fails meanwhile: the process would end.
  const handleError = client['handleError'];
  client['handleError'] = (...args) => handleError(...args).catch(() => undefined);
  let opening: ReturnType<typeof getChannel> | undefined;
  let channel: Awaited<ReturnType<typeof getChannel>> | undefined;
  const getChannel = client['getChannel'];
  const end = new AbortController();
  let session = ++sessions;
  client['getChannel'] = async () => {
    const open = await (opening = getChannel());
    if (open !== channel) {
      channel = open;
      session = ++sessions;
      let wasReady = false;
      // Below the client a channel connects again by itself, and to whatever is there then.
      const look = (): void => {
        if (open !== channel || end.signal.aborted) return;
        const state = open.getConnectivityState(false) as number;
        if (state === SHUTDOWN) return;
        if (state === READY) wasReady = true;
        else if (wasReady) {
          wasReady = false;
          session = ++sessions;
          dropped();
        }
        open.watchConnectivityState(state as never, Infinity, look);
      };
      look();
    }
    return open;
  };
  // Every call that is under way listens.
  setMaxListeners(0, end.signal);
  return {
    client,
    gone: end.signal,
    get session() {
      return session;
    },
    isConnecting: () => channel?.getConnectivityState(false) === CONNECTING,
    target: () => channel!.getTarget(),
    end() {
      end.abort();
      // Its own `dispose` cancels the calls and leaves the connection open.
      void client.dispose().catch(() => undefined);
      opening?.then(
        (open) => open.close(),
        () => undefined,
      );
    },
  };
}

/** Whether the server at `dns:host:port` accepts HTTP/2 connections now. */
function answers(target: string, url: string, ms: number): Promise<boolean> {
  const scheme = /[?&]tls=false/i.test(url) ? 'http' : 'https';
  const authority = target.replace(/^\w+:\/*(?=.*:)/, '');
  return new Promise((resolve) => {
    // Nothing is sent: whom one talks to is checked by the client's own connection.
    const session = connect(`${scheme}://${authority}`, { rejectUnauthorized: false });
    const done = (answered: boolean) => {
      clearTimeout(timer);
      session.destroy();
      resolve(answered);
    };
    const timer = setTimeout(() => done(false), ms);
    session.on('remoteSettings', () => done(true));
    session.on('error', () => done(false));
  });
}

function clientOf(url: string, warn: (message: string) => void): EventStoreDBClient {
  // The parser warns on the console and shows the whole string, credentials included: only the first line has none.
  const { warn: console_warn } = console;
  console.warn = (message: unknown) => warn(`EVENTSTORE_URL: ${withoutCredentials(String(message).split('\n')[0]!)}`);
  try {
    return EventStoreDBClient.connectionString(url);
  } catch (error) {
    throw new StartError(`EVENTSTORE_URL cannot be used: ${withoutCredentials((error as Error).message)}`);
  } finally {
    console.warn = console_warn;
  }
}

function withoutCredentials(text: string): string {
  return text.replace(/\/\/[^@/?"]*@/g, '//').replace(/[^\s"]+:[^\s"]+@(?=[^\s@]*$)/, '');
}

function placeOf(url: string): string {
  return withoutCredentials(url)
    .replace(/^[^:]*:\/\//, '')
    .replace(/[/?].*$/s, '');
}
