import { randomUUID } from 'node:crypto';
import type { Scope, Session } from '../credentials/caller.js';
import type { Position } from '../kernel/event.js';
import { canonicalJson, sha256Hex } from '../kernel/hash.js';
import { Problem, unauthorized } from '../kernel/problems.js';

/** Who sends a command: an HTTP caller, the command line, or a job of the service itself. */
export interface Actor {
  /**
   * The name in events: `key:<id>`, `session:<tris or wallet>`, `cli:<user>` (a claim), `job:<kind>`, `start` or
   * `wallet:<address>`.
   */
  name: string;
  scopes: ReadonlySet<Scope>;
  /** The TRIS id of the organization it acts for; null for operators and sessions. */
  organization: string | null;
  /** Set if a wallet signed in; then there are no scopes. */
  session: Session | null;
  /** Whether its credential is still accepted. Undefined for an actor without one. */
  isAccepted?(): boolean;
}

/** Refuses an actor whose credential has ended while it waited. @throws Problem unauthorized */
export function refuseUnlessAccepted({ isAccepted }: Actor): void {
  if (isAccepted?.() === false) {
    throw unauthorized(false, 'The credential of this request was deleted, changed or has expired meanwhile.');
  }
}

/** In whose name an actor takes turns, and of whom there are bounds: its organization, or the actor itself without one. */
export const ownerOfTurns = ({ organization, name }: Pick<Actor, 'organization' | 'name'>): string =>
  organization ?? name;

/** The id of an actor's key, without the prefix that the log adds. */
export const keyIdOf = (actorName: string): string => actorName.replace(/^key:/, '');

/** An actor that needs no permission: the command line, a job. */
export function internalActor(name: string, scopes: readonly Scope[] = []): Actor {
  return { name, scopes: new Set(scopes), organization: null, session: null };
}

/**
 * Refuses statements of an organization about itself: an organization must not gain from its own statements.
 * @param organization the one that the key is bound to; null for an operator's key
 * @param about TRIS ids that the statement is about; null: no identity
 * @throws Problem self_statement
 */
export function refuseSelfStatement(organization: string | null, ...about: (string | null)[]): void {
  if (organization === null || !about.includes(organization)) return;
  throw new Problem('self_statement', `A key of ${organization} cannot state anything about ${organization} itself.`);
}

/** What a command answers, and where in the log it is. */
export interface Recorded<T> {
  body: T;
  position: Position;
}

/** The same, of a command that creates something. */
export interface Created<T> extends Recorded<T> {
  /** Whether this request, or an earlier try of it, wrote it. */
  own: boolean;
}

/** The actor of a command, and the values by which a retry is recognised. */
export interface CommandContext {
  actor: Actor;
  correlation_id: string;
  /** SHA-256 of (key id, method, path, Idempotency-Key); null without the header. */
  idempotency: string | null;
  /** SHA-256 of the validated command without server-filled fields. */
  body_hash: string;
  /** Called if the command was recorded by an earlier try with its Idempotency-Key, so that its answer is repeated. */
  onRepeated?: (() => void) | undefined;
  /** `traceparent` of what this is a part of: the request, then the command. Undefined unless that is traced. */
  trace?: string | undefined;
}

/**
 * Of a command of the service itself, which no request repeats.
 * @param body_hash the same in each attempt
 */
export function jobContext(name: string, correlation_id: string, body_hash: string): CommandContext {
  return { actor: internalActor(name), correlation_id, idempotency: null, body_hash };
}

/** The same, of a command that belongs to nothing else. */
export const internalContext = (name: string, command: object): CommandContext =>
  jobContext(name, randomUUID(), bodyHash(command));

/** A request whose command is complete only after a handler has looked something up. */
export interface CommandRequest {
  actor: Actor;
  /** @param command validated, server-filled fields left out: equal for a retry, different for another request */
  of(command: object): CommandContext;
}

/** Hash of a validated command, its server-filled fields left out: equal for a retry, different for another request. */
export function bodyHash(command: object): string {
  return sha256Hex(canonicalJson(command));
}
