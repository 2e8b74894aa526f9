import { backoff } from '../../kernel/backoff.js';
import type { Json, JsonObject } from '../../kernel/json.js';
import { Problem } from '../../kernel/problems.js';
import { StoreUnavailable } from './event-store.js';

export const JOB_STATUSES = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

export interface Job {
  kind: string;
  id: string;
  status: JobStatus;
  input: JsonObject;
  progress: { done: number; total: number };
  attempts: number;
  result: Json | null;
  /** The last error's message; a job that failed its last attempt is a dead letter: status `failed`. */
  error: string | null;
  enqueued_at: string;
  finished_at: string | null;
}

export interface RunningJob {
  readonly id: string;
  readonly input: JsonObject;
  /** From 1. */
  readonly attempt: number;
  /** Aborts on cancel and on shutdown. */
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
}

/** Thrown by a handler that no further attempt would help: the job fails at once, with the message. */
export class JobGivenUp extends Error {
  override readonly name = 'JobGivenUp';
}

/** Whether a store was unavailable or busy, or read models were being built, as those of another build are at first. */
export function isPassing(error: unknown): boolean {
  if (error instanceof Problem) return error.code === 'projection_rebuilding' || error.code === 'projection_behind';
  return error instanceof StoreUnavailable && error.isPassing;
}

/** The longest wait of a job for its next attempt, ms. */
export const LONGEST_WAIT_MS = 600_000;

/** How long a job that has failed waits, ms; null: this attempt was the last. @param made attempts so far */
export function waitOf(made: number, { attempts, backoffMs }: { attempts: number; backoffMs: number }): number | null {
  return made < attempts ? backoff(made, { from: backoffMs, most: LONGEST_WAIT_MS }) : null;
}

export type JobHandler = (job: RunningJob) => Promise<Json>;

/**
 * The port to background work. An adapter must pass `test/contracts/jobs.contract.ts`. A job survives a crash: it is
 * run again from the start, so a handler's effect must be idempotent. If an attempt failed for a passing reason, the job is
 * run again later, as often as necessary: that attempt does not count. A finished job is removed after 30 days; one with
 * its id is another job then.
 */
export interface Jobs {
  /** Registers the one handler of a kind, before `start`. */
  handle(kind: string, handler: JobHandler, options?: { attempts?: number; backoffMs?: number }): void;
  /** Starts to run jobs, first those left over from a crash. */
  start(): Promise<void>;
  /**
   * Idempotent by (kind, id): returns the stored job, whatever its status. Durable once resolved.
   * @param owner owners of jobs of a kind take turns: all of a kind have one, or none
   */
  enqueue(kind: string, id: string, input: JsonObject, owner?: string): Promise<Job>;
  get(kind: string, id: string): Promise<Job | undefined>;
  /** Newest first. */
  list(filter?: { status?: JobStatus; limit?: number }): Promise<Job[]>;
  /** The number of queued jobs of each kind that has a handler; it may include some that were cancelled. */
  waiting(): Promise<Record<string, number>>;
  /** Cancels a queued or running job; does nothing to a finished one. Returns the job, or undefined if unknown. */
  cancel(kind: string, id: string): Promise<Job | undefined>;
  /** Puts a failed or cancelled job back in the queue with its attempts reset. */
  retry(kind: string, id: string): Promise<Job | undefined>;
  /** Stops accepting jobs, aborts running ones (they are run again after the next start), and closes. */
  close(): Promise<void>;
}
export const JOBS = Symbol('Jobs');
