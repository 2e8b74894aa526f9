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

interface Task {
  caller: string;
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
  /** Waiting tasks by caller. The caller that was served last comes last. */
  private readonly waiting = new Map<string, Task[]>();
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
    const count = () => this.countWaiting();
    const gauge = new Gauge({
      name: 'credence_proofs_waiting',
      help: `Proofs that wait for a thread; beyond ${MAX_WAITING} they are refused`,
      registers: [registry],
      collect() {
        gauge.set(count());
      },
    });
  }

  /**
   * @param hash of the key
   * @param caller the callers share the threads fairly
   * @throws Problem verifier_unavailable
   */
  verify(
    hash: string,
    key: VerificationKey,
    proof: Proof,
    signals: readonly string[],
    caller: string,
  ): Promise<Answer> {
    const stop = this.seconds.startTimer();
    return this.ask(caller, { hash, key, proof, signals }).finally(() => void stop());
  }

  /** Whether the key's points are valid and its setup was completed. @throws Problem verifier_unavailable */
  checkKey(key: VerificationKey, caller: string): Promise<Answer> {
    return this.ask(caller, { key });
  }

  async onModuleDestroy(): Promise<void> {
    this.stopped = true;
    for (const task of [...this.waiting.values()].flat()) task.reject(unavailable('The service is stopping.'));
    this.waiting.clear();
    await Promise.all([...this.threads].map(({ worker }) => worker.terminate()));
  }

  private countWaiting(): number {
    return [...this.waiting.values()].reduce((sum, { length }) => sum + length, 0);
  }

  private ask(caller: string, question: Task['question']): Promise<Answer> {
    if (this.stopped) return Promise.reject(unavailable('The service is stopping.'));
    const own = this.waiting.get(caller) ?? [];
    if (own.length >= MAX_OF_ONE) {
      return Promise.reject(
        unavailable(`${MAX_OF_ONE} proofs of this caller are waiting. Send this one again shortly.`),
      );
    }
    if (this.countWaiting() >= MAX_WAITING) {
      return Promise.reject(unavailable(`${MAX_WAITING} proofs are already waiting. Send the request again shortly.`));
    }
    return new Promise((resolve, reject) => {
      own.push({ caller, question, attempts: 0, resolve, reject });
      this.waiting.set(caller, own);
      this.assign();
    });
  }

  /** Assigns waiting tasks to idle threads, and starts threads up to the limit. */
  private assign(): void {
    while (this.waiting.size > 0) {
      let thread = [...this.threads].find(({ task }) => task === undefined);
      if (!thread) {
        if (this.threads.size >= THREADS || this.stopped) return;
        thread = this.start();
      }
      const task = this.next();
      task.attempts++;
      thread.task = task;
      const { worker } = thread;
      thread.timer = setTimeout(() => void worker.terminate(), TIMEOUT_MS);
      worker.postMessage(task.question);
    }
  }

  /** Takes the oldest task of the caller whose last turn is longest ago. */
  private next(): Task {
    const [caller, tasks] = this.waiting.entries().next().value!;
    const task = tasks.shift()!;
    this.waiting.delete(caller);
    if (tasks.length > 0) this.waiting.set(caller, tasks);
    return task;
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
        else this.waiting.set(task.caller, [task, ...(this.waiting.get(task.caller) ?? [])]);
      }
      this.assign();
    });
    return thread;
  }
}

function unavailable(detail: string): Problem {
  return new Problem('verifier_unavailable', detail, { headers: RETRY_AFTER });
}
