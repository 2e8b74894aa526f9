import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Gauge, Histogram, Registry } from 'prom-client';
import { Logger } from '../../kernel/logger.js';
import { Problem } from '../../kernel/problems.js';
import type { Proof, VerificationKey } from './domain/proof-format.js';

/** One thread verifies about 40 proofs a second. One core is left to the main thread. */
const THREADS = Math.max(1, Math.min(4, availableParallelism() - 1));
/** Requests that may wait for a thread; further ones are refused. Two seconds' work for one thread. */
const MAX_WAITING = 64;
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

interface Task {
  question: { hash?: string; key: VerificationKey; proof?: Proof; signals?: readonly string[] };
  attempts: number;
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

interface Thread {
  worker: Worker;
  task?: Task;
  timer?: NodeJS.Timeout;
}

/** Verifies proofs in worker threads, so that they do not block the event loop. Threads start when first needed. */
@Injectable()
export class ProofVerifier implements OnModuleDestroy {
  private readonly threads = new Set<Thread>();
  private readonly waiting: Task[] = [];
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
    const { waiting } = this;
    const gauge = new Gauge({
      name: 'credence_proofs_waiting',
      help: `Proofs that wait for a thread; beyond ${MAX_WAITING} they are refused`,
      registers: [registry],
      collect() {
        gauge.set(waiting.length);
      },
    });
  }

  /** @param hash of the key. @throws Problem verifier_unavailable */
  verify(hash: string, key: VerificationKey, proof: Proof, signals: readonly string[]): Promise<Answer> {
    const stop = this.seconds.startTimer();
    return this.ask({ hash, key, proof, signals }).finally(() => void stop());
  }

  /** Whether the key's points are valid and its setup was completed. @throws Problem verifier_unavailable */
  checkKey(key: VerificationKey): Promise<Answer> {
    return this.ask({ key });
  }

  async onModuleDestroy(): Promise<void> {
    this.stopped = true;
    for (const task of this.waiting.splice(0)) task.reject(unavailable('The service is stopping.'));
    await Promise.all([...this.threads].map(({ worker }) => worker.terminate()));
  }

  private ask(question: Task['question']): Promise<Answer> {
    if (this.stopped) return Promise.reject(unavailable('The service is stopping.'));
    if (this.waiting.length >= MAX_WAITING) {
      return Promise.reject(unavailable(`${MAX_WAITING} proofs are already waiting. Send the request again shortly.`));
    }
    return new Promise((resolve, reject) => {
      this.waiting.push({ question, attempts: 0, resolve, reject });
      this.assign();
    });
  }

  /** Assigns waiting tasks to idle threads, and starts threads up to the limit. */
  private assign(): void {
    while (this.waiting.length > 0) {
      let thread = [...this.threads].find(({ task }) => task === undefined);
      if (!thread) {
        if (this.threads.size >= THREADS || this.stopped) return;
        thread = this.start();
      }
      const task = this.waiting.shift()!;
      task.attempts++;
      thread.task = task;
      const { worker } = thread;
      thread.timer = setTimeout(() => void worker.terminate(), TIMEOUT_MS);
      worker.postMessage(task.question);
    }
  }

  private start(): Thread {
    const worker = new Worker(new URL('./groth16-worker.mjs', import.meta.url), { stdout: false, stderr: false });
    const thread: Thread = { worker };
    this.threads.add(thread);
    worker.unref();
    worker.on('message', (answer: Answer) => {
      clearTimeout(thread.timer);
      const { task } = thread;
      thread.task = undefined;
      task?.resolve(answer);
      this.assign();
    });
    worker.on('error', (error) => this.logger.error('a proof thread failed', { error: String(error) }));
    // Also emitted after an error, after a timeout, and if the thread ends for another reason.
    worker.on('exit', () => {
      clearTimeout(thread.timer);
      this.threads.delete(thread);
      const { task } = thread;
      if (task) {
        if (task.attempts >= ATTEMPTS || this.stopped) task.reject(unavailable('The proof could not be verified.'));
        else this.waiting.unshift(task);
      }
      this.assign();
    });
    return thread;
  }
}

function unavailable(detail: string): Problem {
  return new Problem('verifier_unavailable', detail, { headers: RETRY_AFTER });
}
