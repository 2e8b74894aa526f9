import type { Worker } from 'node:cluster';
import type { Registry } from 'prom-client';
import type { Logger } from '../kernel/logger.js';
import { BatchPerTurn } from '../kernel/turn.js';
import type { Counts } from '../stores/ports/key-value.js';
import type { CheckResult } from './health.js';

/** The message of a process of a group to the first one when it is ready. */
export interface Started {
  /** Absent: it does not answer requests. */
  url?: string;
  createdDevelopmentKey?: string;
}

/** Why a process of a group cannot start. */
export interface Refused {
  message: string;
  exitCode: number;
}

/** Adds `by` to the count of `key`, which begins again `ttlMs` after its first addition. */
export type Increment = [key: string, ttlMs: number, by: number];
export type Counted = Awaited<ReturnType<Counts['increment']>>;

/** A question to the process at the other end, or the answer to one of its questions. */
interface Message {
  ask?: string;
  answer?: true;
  id: number;
  body?: unknown;
  error?: string;
}

type Answers = Record<string, (body: never) => unknown>;

/** Questions and answers between the first process of a group and one of the others. */
export class Channel {
  private readonly asked = new Map<number, { resolve: (body: never) => void; reject: (error: Error) => void }>();
  private last = 0;

  /** @param answers by the name of the question */
  constructor(
    private readonly worker: Worker,
    private readonly answers: Answers,
  ) {
    worker.on('message', (message: Message) => void this.receive(message));
    worker.once('disconnect', () => {
      for (const { reject } of this.asked.values()) reject(new Error('the other process has ended'));
      this.asked.clear();
    });
  }

  /** @throws Error if the other process cannot answer, or ends before it does */
  ask<T>(question: string, body?: unknown): Promise<T> {
    const id = ++this.last;
    return new Promise<T>((resolve, reject) => {
      this.asked.set(id, { resolve, reject });
      this.send({ ask: question, id, body }, reject);
    });
  }

  private send(message: Message, failed: (error: Error) => void = () => undefined): void {
    this.worker.send(message, (error: Error | null) => {
      if (error) failed(error);
    });
  }

  private async receive({ ask, answer, id, body, error }: Message): Promise<void> {
    if (answer) {
      const asked = this.asked.get(id);
      this.asked.delete(id);
      if (error === undefined) asked?.resolve(body as never);
      else asked?.reject(new Error(error));
      return;
    }
    const work = ask === undefined ? undefined : this.answers[ask];
    if (!work) return;
    try {
      this.send({ answer: true, id, body: await work(body as never) });
    } catch (thrown) {
      this.send({ answer: true, id, error: (thrown as Error).message });
    }
  }
}

/** One process of a group, as seen by itself (`ProcessGroup` is the first one). It ends when the first one has ended. */
export class GroupMember implements Counts {
  private readonly channel: Channel;
  private registry: Registry | undefined;
  private readonly increments = new BatchPerTurn<Increment, Counted>(
    (increments) => this.channel.ask('increment', increments),
    Infinity,
  );

  constructor(worker: Worker, logger: Logger) {
    this.channel = new Channel(worker, { metrics: async () => this.registry?.getMetricsAsJSON() ?? [] });
    worker.once('disconnect', () => {
      logger.error('the first process of the group has ended, so this one ends too: start the service again');
      // Nothing acknowledged is lost, and nobody is left who would restart this process.
      process.exit(1);
    });
  }

  /** @param registry metrics of this process, which count in those of the group from now on */
  started(started: Started, registry: Registry): Promise<void> {
    this.registry = registry;
    return this.channel.ask('started', started);
  }

  refused(refused: Refused): Promise<void> {
    return this.channel.ask('refused', refused);
  }

  /** Counts of all processes of the group together. */
  increment(key: string, ttlMs: number, by = 1): Promise<Counted> {
    return this.increments.add([key, ttlMs, by]);
  }

  /** The metrics of all processes of the group together, as Prometheus text. */
  metrics(): Promise<string> {
    return this.channel.ask('metrics');
  }

  /** Whether every part of the group works. */
  health(): Promise<CheckResult> {
    return this.channel.ask('health');
  }
}
