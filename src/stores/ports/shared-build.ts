import type { Position } from '../../kernel/event.js';
import type { EncodedRows } from './encoded-rows.js';
import type { Checkpoint } from './read-models.js';

/**
 * A build of a generation from the start of the log that any number of processes work on. It has parts: ranges of the
 * log, whose events are divided by partition, and partitions, whose events are folded into rows. A process claims a part
 * before it works on it. What it then writes counts only while nobody else has claimed the part, so a process that stood
 * still for a time cannot write into a part of another, nor into a generation that has been finished or dropped. A part
 * that is done twice gives the same result. No reader sees a row before `finish`.
 */

/** Decided once, by the process that begins the build. */
export interface BuildPlan {
  id: string;
  /** The last position of each range, in order. The last of them is that of the build. */
  ranges: Position[];
  /** The id of the event there. */
  event_id: string;
  partitions: number;
}

/** `range:<n>` and `partition:<n>` from 0; `rest`: the rows of no partition, which depend on every range. */
export type PartName = `range:${number}` | `partition:${number}` | 'rest';

/** The events that a range has for a partition, or those that all partitions and the rest depend on. */
export type Spill = number | 'shared';

export interface PartState {
  isDone: boolean;
  /** Whether a process works on it now. */
  isClaimed: boolean;
  /** Events of a range so far; of another part, how much of it is done, from 0 to 1. */
  progress: number;
}

export interface BuildState {
  /** Those that were claimed at least once. */
  parts: ReadonlyMap<PartName, PartState>;
  /** Why the build cannot be continued by anyone. */
  failure: string | undefined;
}

/**
 * Calls of a holder of a part return false if the part is not held any more, or the build has ended: the holder must
 * stop.
 */
export interface SharedBuild {
  readonly plan: BuildPlan;
  /** Undefined: it has ended, or the generation is gone. */
  state(): Promise<BuildState | undefined>;
  /** False: it is done or claimed by another holder. */
  claim(part: PartName, holder: string, ttlMs: number): Promise<boolean>;
  /** Renews a claim. */
  renew(part: PartName, holder: string, ttlMs: number, progress: number): Promise<boolean>;
  /** Stores events of a range, whose number is that of the part. */
  spill(part: PartName, holder: string, spill: Spill, range: number, events: Buffer): Promise<boolean>;
  /** What `spill` has stored; undefined if it is lost. */
  spilled(spill: Spill, range: number): Promise<Buffer | undefined>;
  /** Writes rows, each of which belongs to this part only. The rows can be changed as soon as it returns. */
  put(part: PartName, holder: string, rows: EncodedRows): Promise<boolean>;
  /** @param progress see PartState */
  complete(part: PartName, holder: string, progress: number): Promise<boolean>;
  /** Ends the work of every process on it. */
  fail(reason: string): Promise<void>;
  /**
   * Makes the rows those of the generation, and stores the checkpoint.
   * @param holder of the generation's lease
   * @returns false if the lease is not held, if something was applied, or if rows were lost
   */
  finish(holder: string, next: Checkpoint): Promise<boolean>;
  /** Removes everything, unless the build has ended. */
  discard(): Promise<void>;
}
