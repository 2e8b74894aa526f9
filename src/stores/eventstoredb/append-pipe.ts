import { randomUUID } from 'node:crypto';
import { unpackToCommandError } from '@eventstore/db-client/dist/streams/appendToStream/unpackError.js';
import type { NewEvent } from '../../kernel/event.js';
import {
  type Appended,
  AppendRefused,
  type ExpectedRevision,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../ports/event-store.js';
import { AppendWindow } from './append-window.js';
import { openAppends } from './calls.js';
import { breaksConnection, closedError, type Connection, isDefinite } from './connection.js';
import type { Link } from './link.js';
import { type AppendResponse, appendRequest } from './messages.js';
import { connectionReplaced, NoAnswer } from './pulse.js';
import { unreadable } from './records.js';

/** The maximum number of appends that wait. More are refused at once, to bound memory. */
const MAX_WAITING = 4_096;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
/** How often to check for appends that have waited too long, ms. */
const LOOK_MS = 200;

interface Pending {
  id: string;
  stream: string;
  expected: ExpectedRevision;
  /** The encoded message. */
  request: Buffer;
  until: number;
  /** When it was last sent, and how many were in flight then. */
  sent: { at: number; inFlight: number } | undefined;
  resolve: (appended: Appended) => void;
  reject: (error: Error) => void;
}

/**
 * Appends over one call of the server's BatchAppend, with the client's connection, but not with the client's
 * `appendToStream`. That method keeps the appends of the whole process in one table: an error of one
 * connection rejects the appends of another, and an answer that then arrives for one of them ends the process. A
 * connection that breaks while writes wait ends the process too (an unhandled rejection). It also sends the server an
 * absolute time of this machine as the deadline. See test/eventstoredb/faults.test.ts. Its unary call does none of this,
 * but is too slow (docs/decisions/0031).
 *
 * Appends are sent in the order of the calls. If their outcome is unknown (the connection broke, the server was silent
 * or timed out), all unanswered appends are sent again in that order, identical, on a new connection. Those that were
 * already stored get the same answer again, and one that depends on another still comes after it.
 */
export class AppendPipe {
  readonly window = new AppendWindow();
  /** In the order of the calls. */
  private readonly pending = new Map<string, Pending>();
  /** Those of `pending` that were not sent on the present connection, in order. */
  private unsent: Pending[] = [];
  private bytes = 0;
  private send: () => void = () => undefined;
  private running = false;
  private idle: () => void = () => undefined;
  private lastFailure: unknown = new NoAnswer('no answer came');

  constructor(private readonly connection: Connection) {}

  /** @param events checked by checkAppend */
  append(stream: string, expected: ExpectedRevision, events: readonly NewEvent[]): Promise<Appended> {
    if (this.connection.closed) throw closedError();
    const id = randomUUID();
    const request = appendRequest(id, stream, expected, events);
    if (this.pending.size >= MAX_WAITING || this.bytes + request.length > MAX_WAITING_BYTES) {
      throw this.refusal('too many appends are waiting');
    }
    return new Promise((resolve, reject) => {
      const until = performance.now() + this.connection.patience.patienceMs;
      const pending: Pending = { id, stream, expected, request, until, sent: undefined, resolve, reject };
      this.pending.set(pending.id, pending);
      this.unsent.push(pending);
      this.bytes += request.length;
      if (this.running) this.send();
      else void this.run();
    });
  }

  /** The number of appends without an outcome. */
  get waiting(): number {
    return this.pending.size;
  }

  /** Why an append that was never sent is refused. */
  refusal(what: string): StoreUnavailable {
    if (this.connection.isUnavailable) return this.connection.unavailable(this.lastFailure);
    return new StoreUnavailable(`EventStoreDB at ${this.connection.place} is busy: ${what}`, { code: 'store_busy' });
  }

  /** Waits until every append has its outcome. */
  async drained(): Promise<void> {
    while (this.pending.size > 0) await new Promise<void>((resolve) => (this.idle = resolve));
  }

  /** Keeps a call open as long as there are appends to send. */
  private async run(): Promise<void> {
    this.running = true;
    const look = setInterval(() => this.expire(), LOOK_MS);
    for (let attempt = 0; this.pending.size > 0; attempt++) {
      const { link } = this.connection;
      try {
        await this.converse(link, () => (attempt = 0));
      } catch (error) {
        this.lastFailure = error;
        // Trying longer would not help.
        if (error instanceof StoreUnavailable) this.refuseAll(error);
        if (breaksConnection(error)) this.connection.renew(link);
      }
      this.send = () => undefined;
      this.unsent = [...this.pending.values()];
      if (this.pending.size > 0) await this.connection.pause(attempt);
    }
    clearInterval(look);
    this.running = false;
  }

  /** One call of BatchAppend until it fails. @throws why it did */
  private async converse(link: Link, onAnswer: () => void): Promise<never> {
    const session = await this.connection.confirm(link);
    if (link.hasEnded) throw connectionReplaced();
    let fail: (error: unknown) => void = () => undefined;
    const failed = new Promise<never>((_, reject) => (fail = reject));
    let inFlight = 0;
    let isBlocked = false;
    let hasEnded = false;
    const watchdog = link.pulse.watch(() => inFlight > 0, fail);
    const opening = openAppends(link);
    try {
      const call = await Promise.race([opening, failed]);
      this.send = () => {
        while (!isBlocked) {
          const append = this.next(inFlight);
          if (!append) return;
          inFlight++;
          isBlocked = !call.write(append);
        }
      };
      call.on('drain', () => {
        isBlocked = false;
        this.send();
      });
      call.on('data', (response: AppendResponse) => {
        // What was sent without an answer is sent again, in another call.
        if (hasEnded) return;
        // The server behind the link may be another one than was checked.
        if (this.connection.guarded && link.session !== session) return fail(connectionReplaced());
        watchdog.alive();
        inFlight--;
        onAnswer();
        const unknown = this.settle(response);
        if (unknown) fail(unknown);
        else this.send();
      });
      call.on('error', fail);
      call.on('end', () => fail(new NoAnswer('the server ended the call')));
      this.send();
      return await failed;
    } finally {
      hasEnded = true;
      watchdog.end();
      opening.then(
        (call) => call.cancel(),
        () => undefined,
      );
    }
  }

  private next(inFlight: number): Buffer | undefined {
    if (inFlight >= this.window.limit) return undefined;
    let next = this.unsent.shift();
    // It may have waited too long and been refused.
    while (next && !this.pending.has(next.id)) next = this.unsent.shift();
    if (!next) return undefined;
    next.sent = { at: performance.now(), inFlight: inFlight + 1 };
    return next.request;
  }

  /** Settles an append. @returns the error if it has no definite outcome and must be sent again */
  private settle({ id, ...outcome }: AppendResponse): Error | undefined {
    const pending = this.pending.get(id);
    // It has waited too long and was refused.
    if (!pending) return undefined;
    this.window.answered(pending.sent!.at, pending.sent!.inFlight);
    if (!('error' in outcome)) {
      this.settled(pending);
      pending.resolve(outcome);
      return undefined;
    }
    const unpacked = unpackToCommandError(outcome.error, pending.stream);
    if (!isDefinite(unpacked)) return unpacked;
    this.settled(pending);
    pending.reject(refusalOf(unpacked, pending, this.connection));
    return undefined;
  }

  private settled(pending: Pending): void {
    this.pending.delete(pending.id);
    this.bytes -= pending.request.length;
    if (this.pending.size === 0) this.idle();
  }

  private refuseAll(error: StoreUnavailable): void {
    for (const pending of this.pending.values()) {
      this.settled(pending);
      pending.reject(error);
    }
  }

  /** Refuses appends that have waited too long, the oldest first. */
  private expire(): void {
    const now = performance.now();
    for (const pending of this.pending.values()) {
      if (pending.until > now && !this.connection.closed) return;
      this.settled(pending);
      pending.reject(
        pending.sent ? this.connection.unavailable(this.lastFailure) : this.refusal('appends wait to be sent'),
      );
    }
  }
}

function refusalOf(error: ReturnType<typeof unpackToCommandError>, pending: Pending, connection: Connection): Error {
  switch (error.type) {
    case 'wrong-expected-version': {
      const { actualVersion } = error as { actualVersion?: unknown };
      const actual = typeof actualVersion === 'bigint' ? Number(actualVersion) : 'no-stream';
      return new WrongExpectedRevision(pending.stream, pending.expected, actual);
    }
    case 'maximum-append-size-exceeded':
      return new AppendRefused(`EventStoreDB refuses the append: ${error.message || 'it is too large'}`);
    case 'stream-deleted':
      return unreadable(pending.stream);
    case 'access-denied':
      return connection.unavailable('it does not let these credentials append');
    default:
      return error;
  }
}
