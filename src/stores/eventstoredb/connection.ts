import { ErrorType, isCommandError } from '@eventstore/db-client';
import { backoff } from '../../kernel/backoff.js';
import { inTime, pause } from '../../kernel/turn.js';
import { StoreUnavailable } from '../ports/event-store.js';
import { answers, Link, withoutCredentials } from './link.js';
import { CallUnanswered, connectionReplaced, OTHERS_ANSWERED, type PulseTimes } from './pulse.js';

/** How long the server may be silent, and how long a caller waits for a definite answer. In milliseconds. */
export interface Patience extends PulseTimes {
  /** A caller without a definite answer gets StoreUnavailable after this time. */
  patienceMs: number;
}

/** A connection attempt is given up after this time, whatever its state. */
const LONGEST_CONNECT_MS = 60_000;
/** The same where there are other nodes: a leader that hangs is followed by another one within seconds. */
const LONGEST_CONNECT_OF_SEVERAL_MS = 3_000;

/**
 * The client of EventStoreDB, one at a time, replaced when its connection has gone silent or is broken. The connection
 * string goes to the client's own parser as it is: TLS, credentials and gossip seeds work as in its documentation.
 */
export class Connection {
  /** Host and port of every node named, without credentials or options: for messages. */
  readonly place: string;
  link: Link;
  closed = false;
  private probed: Link | undefined;
  /** Checks that the server has the expected log, once that is known. */
  private check: ((link: Link) => Promise<void>) | undefined;
  /** The connection on which the log was found. */
  private confirmed: number | undefined;
  private confirming: { session: number; outcome: Promise<number> } | undefined;
  private watching = false;
  /** How often the log was found again behind a new connection. */
  connections = 0;
  /** Why a server that responds is not used. */
  refusal: StoreUnavailable | undefined;
  /** Whether the server does not respond. */
  isUnavailable = false;
  /** Why no new client can be made. */
  private unusable: string | undefined;

  /** @throws StartError for a connection string that the client cannot read */
  constructor(
    private readonly url: string,
    readonly patience: Patience,
    private readonly warn: (message: string) => void,
  ) {
    this.place = placeOf(url);
    this.link = this.makeLink(warn);
  }

  private makeLink(warn: (message: string) => void): Link {
    return new Link(this.url, this.patience, warn, () => this.dropped());
  }

  /** Whether the expected log is known. */
  get guarded(): boolean {
    return this.check !== undefined;
  }

  /**
   * From now on nothing is read or appended on a connection before `check` has found the expected log there.
   * @param check throws LogReplaced if the log is another one
   * @throws StoreUnavailable if it is, or without an answer in time
   */
  async guard(check: (link: Link) => Promise<void>): Promise<void> {
    this.check = check;
    await this.persist(() => Promise.resolve());
  }

  /**
   * The session of a link on which the log was found. An answer counts only if the session is still the same
   * afterwards.
   * @throws StoreUnavailable log_replaced, or the reason why the check failed
   */
  async confirm(link: Link): Promise<number> {
    // The watch finds out whether the right log is back.
    if (this.refusal) throw this.refusal;
    return this.confirmOn(link);
  }

  private async confirmOn(link: Link): Promise<number> {
    if (!this.check || link.session === this.confirmed) return link.session;
    if (this.confirming?.session === link.session) return this.confirming.outcome;
    const confirming = { session: link.session, outcome: this.look(link, this.check) };
    this.confirming = confirming;
    const done = () => {
      if (this.confirming === confirming) this.confirming = undefined;
    };
    confirming.outcome.then(done, done);
    return confirming.outcome;
  }

  private async look(link: Link, check: (link: Link) => Promise<void>): Promise<number> {
    for (;;) {
      const { session } = link;
      try {
        await check(link);
      } catch (error) {
        if (!(error instanceof LogReplaced)) throw error;
        this.refuse(error);
        throw this.refusal!;
      }
      // The session may have changed during the check.
      if (link.session !== session) continue;
      if (this.confirmed !== undefined) this.connections++;
      this.confirmed = session;
      this.well();
      return session;
    }
  }

  private refuse({ message }: LogReplaced): void {
    if (!this.refusal) {
      this.warn(
        `log_replaced: EventStoreDB at ${this.place} ${message}. Nothing is read or appended. Bring the right log back, ` +
          'or, to continue with this one permanently, restart every process (docs/cluster.md).',
      );
    }
    this.refusal = new StoreUnavailable(`EventStoreDB at ${this.place} ${message}`, { code: 'log_replaced' });
    void this.watch();
  }

  private well(): void {
    if (this.refusal) this.warn(`EventStoreDB at ${this.place} holds the right log again`);
    else if (this.isUnavailable) this.warn(`EventStoreDB at ${this.place} is back`);
    this.refusal = undefined;
    this.isUnavailable = false;
  }

  /** Called when the connection has ended: the log behind the next one is checked soon, even without a request. */
  private dropped(): void {
    if (this.check && !this.closed) void this.watch();
  }

  /** Checks until the log is found; logs when the server is unavailable. */
  private async watch(): Promise<void> {
    if (this.watching) return;
    this.watching = true;
    for (let attempt = 0; !this.closed; attempt++) {
      const { link } = this;
      try {
        await this.confirmOn(link);
        break;
      } catch (error) {
        if (this.closed) break;
        if (error instanceof StoreUnavailable && error.code === 'log_replaced') {
          // The right log may be behind a new connection only.
          if (link === this.link) this.replace();
        } else {
          if (!this.refusal && !this.isUnavailable) {
            this.isUnavailable = true;
            this.warn(`EventStoreDB at ${this.place} is unavailable: ${reasonOf(error)}`);
          }
          if (breaksConnection(error)) this.renew(link);
        }
      }
      await this.pause(attempt);
    }
    this.watching = false;
  }

  /**
   * Replaces the client, if this one is still in use and its connection does not work. A client that is still
   * connecting is replaced only when the server responds on another connection: the library never gives up such an
   * attempt, and sockets would accumulate while the network accepts connections but transports nothing.
   */
  renew(link: Link): void {
    if (link !== this.link || this.closed) return;
    // The server refused one call, for example because it is too busy. The others on the connection may be answered.
    if (link.isWell) return;
    if (link.isConnecting) void this.renewOnceItAnswers(link);
    else this.replace();
    this.dropped();
  }

  private async renewOnceItAnswers(link: Link): Promise<void> {
    if (this.probed === link) return;
    this.probed = link;
    const hasOthers = this.place.includes(',') || /^\w+\+discover:/.test(this.url);
    const until = performance.now() + (hasOthers ? LONGEST_CONNECT_OF_SEVERAL_MS : LONGEST_CONNECT_MS);
    while (link === this.link && link.isConnecting && !this.closed) {
      const answered = await answers(link.target, this.url, this.patience.answerMs);
      if (link !== this.link || !link.isConnecting || this.closed) break;
      if (answered || performance.now() > until) this.replace();
      else await this.pause(Infinity);
    }
    if (this.probed === link) this.probed = undefined;
  }

  private replace(): void {
    const old = this.link;
    try {
      this.link = this.makeLink(() => undefined);
    } catch (error) {
      // A certificate file that the URL names may be missing while it is replaced. The next attempt reads it again.
      const { message } = error as Error;
      if (message !== this.unusable) this.warn((this.unusable = message));
      return;
    }
    this.unusable = undefined;
    old.end();
  }

  /**
   * Repeats an idempotent operation until it succeeds or fails permanently.
   * @throws StoreUnavailable without a definite answer in time, or what `work` threw if that is a definite answer
   */
  async persist<T>(work: (link: Link) => Promise<T>): Promise<T> {
    const { patienceMs } = this.patience;
    const until = performance.now() + patienceMs;
    const late = `no answer within ${patienceMs / 1_000} s`;
    /** Why the last attempt failed that was not cut short. */
    let reason: unknown;
    for (let attempt = 0; ; attempt++) {
      if (this.closed) throw closedError();
      const { link } = this;
      try {
        const answer = this.once(link, work);
        return await (until === Infinity ? answer : inTime(answer, until - performance.now(), late));
      } catch (error) {
        if (isDefinite(error)) throw error;
        // A timer may be a millisecond early.
        const isOver = (error as Error).message === late;
        if (isOver && reason === undefined && link === this.link && link.isWell) {
          throw this.unavailable(`${late}, ${OTHERS_ANSWERED}`);
        }
        if (isOver || performance.now() >= until) throw this.unavailable(reason ?? error);
        reason = error;
        if (breaksConnection(error)) this.renew(link);
      }
      await this.pause(attempt);
    }
  }

  private async once<T>(link: Link, work: (link: Link) => Promise<T>): Promise<T> {
    const session = await this.confirm(link);
    const answer = await work(link);
    if (this.guarded && link.session !== session) throw connectionReplaced();
    return answer;
  }

  /** Waits a little longer with every attempt, from 0; a signal ends the wait early. */
  async pause(attempt: number, signal?: AbortSignal): Promise<void> {
    await pause(backoff(attempt + 1), signal);
  }

  unavailable(cause: unknown): StoreUnavailable {
    return new StoreUnavailable(`EventStoreDB at ${this.place} gives no definite answer: ${reasonOf(cause)}`, {
      cause,
    });
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.link.end();
  }
}

export function closedError(): StoreUnavailable {
  return new StoreUnavailable('the event store is closed');
}

/** The client's own errors with a definite outcome. After any other error the outcome of the request is unknown. */
const DEFINITE = new Set<unknown>([
  ErrorType.WRONG_EXPECTED_VERSION,
  ErrorType.STREAM_NOT_FOUND,
  ErrorType.STREAM_DELETED,
  ErrorType.ACCESS_DENIED,
  ErrorType.MAXIMUM_APPEND_SIZE_EXCEEDED,
  ErrorType.INVALID_ARGUMENT,
]);

export function isDefinite(error: unknown): boolean {
  if (error instanceof Error && isCommandError(error)) return DEFINITE.has(error.type);
  return error instanceof StoreUnavailable || error instanceof DamagedLog;
}

/** The log contains an event that Credence cannot have written, or does not have a requested position. */
export class DamagedLog extends Error {
  override readonly name = 'DamagedLog';
}

/** The log was replaced by another one or by an older copy; the message is a clause about the server. */
export class LogReplaced extends Error {
  override readonly name = 'LogReplaced';
}

/**
 * False after an answer of the server, such as "timed out", if one call alone was not answered, and if the client
 * redirects to the leader by itself.
 */
export function breaksConnection(error: unknown): boolean {
  if (error instanceof CallUnanswered) return false;
  if (!(error instanceof Error) || !isCommandError(error)) return true;
  return error.type === ErrorType.UNAVAILABLE || error.type === ErrorType.CANCELLED;
}

/** gRPC wraps what the operating system said of a connection that cannot be made into three sentences. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const [, last] = /Last error: (?:Error: )?(.+?)\.? Resolution note:/.exec(message) ?? [];
  return withoutCredentials(last ?? message);
}

function placeOf(url: string): string {
  return withoutCredentials(url)
    .replace(/^[^:]*:\/\//, '')
    .replace(/[/?].*$/s, '');
}
