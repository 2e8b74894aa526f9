import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Gauge, Histogram, Registry } from 'prom-client';
import { Logger } from '../../kernel/logger.js';
import { Problem } from '../../kernel/problems.js';
import { Turns } from '../../kernel/turns.js';
import type { Proof, VerificationKey } from './domain/proof-format.js';

/** One thread verifies about 40 proofs a second. One core is left to the main thread. */
const THREADS = Math.max(1, Math.min(4, availableParallelism() - 1));
/** Requests that may wait for a thread; further ones are refused. Two seconds' work for one thread. */
const MAX_WAITING = 64;
/** The maximum number of waiting requests of one caller. */
const MAX_OF_ONE = 16;
/** A request takes about 25 ms. A thread that takes this long is terminated. */
const TIMEOUT_MS = 10_000;
/** A request during which this many threads ended is not tried again. */
const ATTEMPTS = 2;
const RETRY_AFTER = { 'retry-after': '2' };

/** An invalid curve point; `pointer` is within the proof or the key. */
export interface WrongPoint {
  pointer: string;
  message: string;
}
type Answer = boolean | WrongPoint;

interface Question {
  /** Of the key. */
  hash?: string;
  key: VerificationKey;
  proof?: Proof;
  signals?: readonly string[];
}

interface Thread {
  worker: Worker;
  /** Set while it answers: called with the answer, or with undefined if the thread has ended. */
  answered?: (answer?: Answer) => void;
}

/** Verifies proofs in worker threads, so that they do not block the event loop. Threads start when first needed. */
@Injectable()
export class ProofVerifier implements OnModuleDestroy {
  private readonly threads = new Set<Thread>();
  private readonly turns = new Turns(THREADS, THREADS);
  private readonly seconds: Histogram;
  private stopped = false;

  constructor(
    registry: Registry,
    private readonly logger: Logger,
  ) {
    this.seconds = new Histogram({
      name: 'credence_proof_seconds',
      help: 'Time from a proof’s arrival to its verdict, waiting included',
      buckets: [0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2, 5],
      registers: [registry],
    });
    const gauge: Gauge = new Gauge({
      name: 'credence_proofs_waiting',
      help: `Proofs that wait for a thread; beyond ${MAX_WAITING} they are refused`,
      registers: [registry],
      collect: () => gauge.set(this.turns.waiting.size),
    });
  }

  /** @param caller the callers share the threads fairly @throws Problem verifier_unavailable */
  verify(question: Required<Question>, caller: string): Promise<Answer> {
    const stop = this.seconds.startTimer();
    return this.ask(caller, question).finally(() => void stop());
  }

  /** Whether the key's points are valid and its setup was completed. @throws Problem verifier_unavailable */
  checkKey(key: VerificationKey, caller: string): Promise<Answer> {
    return this.ask(caller, { key });
  }

  async onModuleDestroy(): Promise<void> {
    this.stopped = true;
    await Promise.all([...this.threads].map(({ worker }) => worker.terminate()));
  }

  private async ask(caller: string, question: Question): Promise<Answer> {
    if (this.turns.waiting.sizeOf(caller) >= MAX_OF_ONE) {
      throw unavailable(`${MAX_OF_ONE} proofs of this caller are waiting. Send this one again shortly.`);
    }
    if (this.turns.waiting.size >= MAX_WAITING) {
      throw unavailable(`${MAX_WAITING} proofs are already waiting. Send the request again shortly.`);
    }
    return this.turns.run(caller, async () => {
      if (this.stopped) throw unavailable('The service is stopping.');
      for (let attempt = 0; attempt < ATTEMPTS && !this.stopped; attempt++) {
        const answer = await this.answerTo(question);
        if (answer !== undefined) return answer;
      }
      throw unavailable('The proof could not be verified.');
    });
  }

  /** @returns undefined if the thread has ended instead, which one does that takes too long */
  private answerTo(question: Question): Promise<Answer | undefined> {
    const thread = [...this.threads].find(({ answered }) => !answered) ?? this.start();
    const timer = setTimeout(() => void thread.worker.terminate(), TIMEOUT_MS);
    return new Promise((resolve) => {
      thread.answered = (answer) => {
        clearTimeout(timer);
        thread.answered = undefined;
        resolve(answer);
      };
      thread.worker.postMessage(question);
    });
  }

  private start(): Thread {
    const worker = new Worker(new URL('./groth16-worker.mjs', import.meta.url), { stdout: false, stderr: false });
    const thread: Thread = { worker };
    this.threads.add(thread);
    worker.unref();
    worker.on('message', (answer: Answer) => thread.answered?.(answer));
    worker.on('error', (error) => this.logger.error('a proof thread failed', { error: String(error) }));
    // Also emitted after an error, after a timeout, and if the thread ends for another reason.
    worker.on('exit', () => {
      this.threads.delete(thread);
      thread.answered?.();
    });
    return thread;
  }
}

const unavailable = (detail: string): Problem => new Problem('verifier_unavailable', detail, { headers: RETRY_AFTER });
