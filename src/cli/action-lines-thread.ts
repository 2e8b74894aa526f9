import { on } from 'node:events';
import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { type SentError, receivedError } from '../kernel/thread-error.js';
import { type ActionFile, type ActionLine, type ActionSource, type CheckedPart, READ_ERRORS } from './action-lines.js';

const SCRIPT = new URL('./action-lines-worker.js', import.meta.url);
/** Parts that are read before they are asked for. */
const AHEAD = 1;

export type Pass = 'check' | 'read';
/** The next part of a pass, null at its end; or why there is none. */
export type Answer = { pass: Pass; part: CheckedPart | ActionLine[] | null } | { pass: Pass; failure: SentError };

/** Reads, parses and checks the lines of a file, and computes their digests, in a separate thread. */
export class ActionLinesThread implements ActionSource {
  /** Not where the sources run without a build, as in tests: a thread loads a file as it is. */
  static readonly isAvailable = existsSync(SCRIPT);

  private readonly worker: Worker;
  private readonly answers: AsyncIterator<[Answer]>;

  constructor(file: ActionFile) {
    this.worker = new Worker(SCRIPT, { workerData: file, resourceLimits: { maxYoungGenerationSizeMb: 16 } });
    // An error that ends the thread is thrown by the read that waits for its next answer.
    this.answers = on(this.worker, 'message', { close: ['exit'] }) as AsyncIterator<[Answer]>;
  }

  check(): AsyncIterable<CheckedPart> {
    return this.pass<CheckedPart>('check');
  }

  read(): AsyncIterable<ActionLine[]> {
    return this.pass<ActionLine[]>('read');
  }

  async close(): Promise<void> {
    await this.worker.terminate();
  }

  private async *pass<T extends CheckedPart | ActionLine[]>(pass: Pass): AsyncGenerator<T> {
    for (let n = 0; n < AHEAD; n++) this.worker.postMessage(pass);
    for (;;) {
      const { done, value } = await this.answers.next();
      if (done) throw new Error('The thread that reads the file has ended.');
      const [answer] = value;
      // What was asked for beyond the end of the pass before.
      if (answer.pass !== pass) continue;
      if ('failure' in answer) throw receivedError(answer.failure, READ_ERRORS);
      if (answer.part === null) return;
      this.worker.postMessage(pass);
      yield answer.part as T;
    }
  }
}
