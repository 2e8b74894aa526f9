import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { type SentError, receivedError } from '../kernel/thread-error.js';
import type { Part } from './bulk-files.js';
import { PARTITION_ERRORS, type PartitionFiles, type PartitionSizes } from './bulk-partition.js';

const SCRIPT = new URL('./bulk-fold-worker.js', import.meta.url);
/** More saves no time. */
const YOUNG_MB = 24;

/** What every partition of a build has in common. */
export interface FoldSetup {
  /** Of the temporary files. */
  folder: string;
  /** Names of projections. */
  projections: string[];
  /** Also the bytes of the disk that stay free, and the limit of the thread's long-lived objects, MB. */
  sizes: PartitionSizes & { reservedBytes: number; threadHeapMb: number };
}

/** The files of the rows, or why there are none. */
export type FoldAnswer = { parts: Part[] } | { failure: SentError };

/** The thread has ended, such as for lack of memory. What it has not answered is not done. */
export class FoldThreadEnded extends Error {
  override readonly name = 'FoldThreadEnded';
}

/** Folds partitions in a thread of its own, one after the other. The rows stay in files: nothing large is handed over. */
export class FoldThread {
  /** Not where the sources run without a build, as in tests: a thread loads a file as it is. */
  static readonly isAvailable = existsSync(SCRIPT);

  private readonly worker: Worker;
  private answered: ((answer: FoldAnswer | FoldThreadEnded) => void) | undefined;
  private ended: FoldThreadEnded | undefined;

  constructor(setup: FoldSetup) {
    const resourceLimits = { maxYoungGenerationSizeMb: YOUNG_MB, maxOldGenerationSizeMb: setup.sizes.threadHeapMb };
    this.worker = new Worker(SCRIPT, { workerData: setup, resourceLimits });
    this.worker.on('message', (answer: FoldAnswer) => this.answered?.(answer));
    this.worker.on('error', (error) => this.end(error.message));
    this.worker.on('exit', (code) => this.end(`exit code ${code}`));
  }

  /** @throws FoldThreadEnded, BuildDamaged, NoSpaceToBuild, and any error of the fold */
  async fold(files: PartitionFiles): Promise<Part[]> {
    const answer = await new Promise<FoldAnswer | FoldThreadEnded>((resolve) => {
      if (this.ended) return resolve(this.ended);
      this.answered = resolve;
      this.worker.postMessage(files);
    });
    if (answer instanceof FoldThreadEnded) throw answer;
    if ('parts' in answer) return answer.parts;
    throw receivedError(answer.failure, PARTITION_ERRORS);
  }

  /** Afterwards it writes no more. */
  async close(): Promise<void> {
    await this.worker.terminate();
  }

  private end(why: string): void {
    this.ended ??= new FoldThreadEnded(`a thread of the build has ended: ${why}`);
    this.answered?.(this.ended);
  }
}
