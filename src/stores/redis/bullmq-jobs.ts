import { setTimeout as sleep } from 'node:timers/promises';
import type { DynamicModule, INestApplicationContext, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { BullModule, OnWorkerEvent, Processor, WorkerHost } from '@nestjs/bullmq';
import { type Job as BullJob, type JobState, Queue, UnrecoverableError, WaitingError } from 'bullmq';
import { Cluster, type ClusterOptions, type Redis, type RedisOptions } from 'ioredis';
import { StoreUnavailable } from '../ports/event-store.js';
import type { Json, JsonObject } from '../../kernel/json.js';
import type { Logger } from '../../kernel/logger.js';
import { inTime } from '../../kernel/turn.js';
import { CHECK_MS, createRedis, DEMOTED, leaveReplica, parseRedisUrl } from './connection.js';
import { type Job, JobGivenUp, type JobHandler, type Jobs, type JobStatus, isPassing, waitOf } from '../ports/jobs.js';
import { type Sweeper, finishedBefore, jobSweeper } from '../sweeper.js';

/** How often progress is written and cancellations are polled, ms. */
const POLL_MS = 250;
/**
 * A worker that neither ends a job nor yields for this long loses it to another worker. The lock is renewed after half
 * of this time, so a computing handler must yield at least every second.
 */
const LOCK_MS = 6_000;
/**
 * How long closing waits for handlers after their abort signals, and for workers, which cannot close where Redis gives no
 * answers.
 */
const GRACE_MS = 3_000;
/** How long a retry waits for the run of a cancelled job. */
const RETRY_MS = 5_000;
const LIST_SLICE = 200;
/** The worker limits the number of attempts; the queue must not limit them further. */
const UNCOUNTED = 1_000_000;
/** In place of a wait: there is no further attempt. */
const LAST = -1;

const CANCELLED = 'the job was cancelled';
const TAKEN_OVER = 'another worker has taken the job over';
const PROCESS_ENDED = 'its process ended while it ran';
/** Outcome of a job whose handler succeeded. The outcome of a cancelled job is the time of its cancellation. */
const FINISHED = 'finished';

interface Registration {
  handler: JobHandler;
  attempts: number;
  backoffMs: number;
}

interface Payload {
  id: string;
  input: JsonObject;
}
type StoredJob = BullJob<Payload, Json>;

interface Run {
  job: StoredJob;
  /** The value of the job's lock as long as this worker holds it. */
  token: string;
  /** Progress that is not written yet. */
  progress: Job['progress'] | undefined;
  abort(reason: string): void;
}

/**
 * Jobs in Redis with BullMQ, one queue for each kind. Any number of processes enqueue, read and run jobs; each process
 * runs one job of a kind at a time.
 *
 * Two things that BullMQ does not have are stored beside its keys, in the same hash slot: the order in which jobs were
 * enqueued, and the outcome of a job, written once: that its handler succeeded, or when it was cancelled, whichever
 * came first.
 */
export class BullmqJobs implements Jobs {
  private readonly client: Redis | Cluster;
  private readonly kinds = new Map<string, Registration>();
  private readonly queues = new Map<string, Queue<Payload, Json>>();
  private readonly runs = new Set<Run>();
  private runtime: { context: INestApplicationContext; hosts: WorkerHost[]; client: Redis | Cluster } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private sweeper: Sweeper | undefined;
  private readonly roleTimer: NodeJS.Timeout;
  private closing = false;

  /**
   * @param options.prefix of all keys, in braces so that they share a hash slot
   * @param options.lockMs how long a worker holds a job without a sign of life, for tests
   * @param options.keptMs how long finished jobs are kept, for tests
   * @throws StartError
   */
  constructor(
    private readonly url: string,
    private readonly options: { prefix: string; logger?: Logger; lockMs?: number; keptMs?: number | undefined },
  ) {
    this.client = createRedis(parseRedisUrl(url));
    // Connections recover by themselves; the error of a command is thrown to its caller.
    this.client.on('error', () => undefined);
    connectUntilReady(this.client);
    this.roleTimer = setInterval(() => void leaveReplica(this.client).catch(() => undefined), CHECK_MS).unref();
  }

  handle(kind: string, handler: JobHandler, options: { attempts?: number; backoffMs?: number } = {}): void {
    this.kinds.set(kind, { handler, attempts: options.attempts ?? 3, backoffMs: options.backoffMs ?? 1_000 });
  }

  /** The workers are providers of a separate Nest application, since jobs also run in processes without another one. */
  async start(): Promise<void> {
    if (this.runtime) return;
    const client = clientOfWorkers(this.url);
    client.on('error', () => undefined);
    const processors = [...this.kinds].map(([kind, registration]) => this.processor(kind, registration));
    const runtime: DynamicModule = {
      module: class JobsRuntime {},
      imports: [BullModule.forRoot({ connection: client, prefix: this.options.prefix }), BullModule.registerQueue()],
      providers: processors,
    };
    const options = { logger: this.options.logger ?? false, abortOnError: false } as const;
    const context = await NestFactory.createApplicationContext(runtime, options);
    this.runtime = { context, hosts: processors.map((type) => context.get(type)), client };
    this.timer = setInterval(() => void this.poll(), POLL_MS);
    this.sweeper = jobSweeper((before) => this.sweep(before), Date.now, this.options.keptMs);
  }

  async enqueue(kind: string, id: string, input: JsonObject, owner?: string): Promise<Job> {
    return this.attempt(async () => {
      // In the list of all jobs, once.
      const serial = await this.client.incr(`${this.options.prefix}.serial`);
      await this.client.zadd(this.orderKey, 'NX', serial, `${kind}:${id}`);
      const turn = owner === undefined ? {} : { priority: await this.turnOf(kind, id, owner) };
      await this.queue(kind).add(kind, { id, input }, { ...optionsOf(id), ...turn });
      return (await this.find(kind, id))!;
    });
  }

  get(kind: string, id: string): Promise<Job | undefined> {
    return this.attempt(() => this.find(kind, id));
  }

  list({ status, limit = 100 }: { status?: JobStatus; limit?: number } = {}): Promise<Job[]> {
    return this.attempt(async () => {
      const found: Job[] = [];
      for (let from = 0; found.length < limit; from += LIST_SLICE) {
        const names = await this.client.zrevrange(this.orderKey, from, from + LIST_SLICE - 1);
        const jobs = await Promise.all(names.map((name) => this.find(...splitName(name))));
        found.push(...jobs.filter((job) => job !== undefined).filter((job) => !status || job.status === status));
        if (names.length < LIST_SLICE) break;
      }
      return found.slice(0, limit);
    });
  }

  waiting(): Promise<Record<string, number>> {
    return this.attempt(async () => {
      const counts = [...this.kinds.keys()].map(async (kind): Promise<[string, number]> => {
        return [kind, await this.queue(kind).getJobCountByTypes('waiting', 'prioritized', 'delayed')];
      });
      return Object.fromEntries(await Promise.all(counts));
    });
  }

  async cancel(kind: string, id: string): Promise<Job | undefined> {
    return this.attempt(async () => {
      const job = await this.find(kind, id);
      if (job?.status !== 'queued' && job?.status !== 'running') return job;
      await this.client.set(this.outcomeKey(kind, id), new Date().toISOString(), 'NX');
      for (const run of this.runs) if (run.job.name === kind && run.job.data.id === id) await this.attend(run);
      return this.find(kind, id);
    });
  }

  async retry(kind: string, id: string): Promise<Job | undefined> {
    return this.attempt(async () => {
      const job = await this.find(kind, id);
      if (job?.status !== 'failed' && job?.status !== 'cancelled') return job;
      const stored = (await this.queue(kind).getJob(keyOf(id)))!;
      // The run of a cancelled job may not have ended yet.
      const deadline = performance.now() + RETRY_MS;
      while (!(await this.reopen(kind, id))) {
        if (performance.now() > deadline) return job;
        await sleep(POLL_MS);
      }
      if (await stored.isFailed()) {
        await stored.updateProgress({ done: 0, total: 0 });
        await stored.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true });
      }
      // As it was enqueued, since a worker may already have taken it.
      return { ...job, status: 'queued', progress: { done: 0, total: 0 }, attempts: 0, error: null, finished_at: null };
    });
  }

  async close(): Promise<void> {
    if (this.closing) return;
    this.closing = true;
    clearInterval(this.timer);
    void this.sweeper?.stop();
    clearInterval(this.roleTimer);
    if (this.runtime) {
      const { context, hosts, client } = this.runtime;
      // In this order: a closing worker does not take a job again that it puts back.
      const closed = Promise.all(hosts.map(({ worker }) => worker.close()));
      for (const run of this.runs) run.abort('the process is shutting down');
      await inTime(closed, GRACE_MS).catch(() => undefined);
      // The application contains only the workers. A handler that does not stop loses its lock, and its job is run
      // elsewhere.
      void context.close().catch(() => undefined);
      client.disconnect();
    }
    await Promise.all([...this.queues.values()].map((queue) => queue.close()));
    this.client.disconnect();
  }

  private async find(kind: string, id: string): Promise<Job | undefined> {
    const queue = this.queue(kind);
    // The state first, so that its outcome exists when the job is read.
    const [state, outcome] = await Promise.all([
      queue.getJobState(keyOf(id)),
      this.client.get(this.outcomeKey(kind, id)),
    ]);
    const job = await queue.getJob(keyOf(id));
    return job && publicJob(job, state, outcome);
  }

  /** The turn of a new job, which is its priority: the next one of its owner, or the one that others have now. */
  private async turnOf(kind: string, id: string, owner: string): Promise<number> {
    const queue = this.queue(kind);
    const keys = [queue.toKey('prioritized'), queue.toKey(keyOf(id)), `${this.options.prefix}.turn.${kind}:${owner}`];
    return (await this.client.eval(TURN, keys.length, ...keys)) as number;
  }

  private processor(kind: string, registration: Registration): Type<WorkerHost> {
    const perform = (job: StoredJob, token: string, signal: AbortSignal) =>
      this.perform(job, token, signal, registration);
    const { logger, lockMs = LOCK_MS } = this.options;

    @Processor(
      { name: kind },
      {
        concurrency: 1,
        lockDuration: lockMs,
        // How often workers check for jobs whose worker has lost its lock.
        stalledInterval: Math.ceil(lockMs / 3),
        // Counted as attempts, below.
        maxStalledCount: UNCOUNTED,
        settings: {
          backoffStrategy: (_attempts, _type, error, job) =>
            isPassing(error)
              ? registration.backoffMs
              : (waitOf((job as StoredJob).attemptsStarted, registration) ?? LAST),
        },
      },
    )
    class KindProcessor extends WorkerHost {
      // BullMQ passes a signal to functions that declare three parameters.
      override process(job: StoredJob, token?: string, signal?: AbortSignal): Promise<Json> {
        return perform(job, token!, signal!);
      }

      @OnWorkerEvent('error')
      onError(error: Error): void {
        // The connection of short-lived state logs once that Redis is unavailable, and once that it is back. Of another
        // error there is one line for all workers, which share a server and its errors.
        if (!isOutage(error) && logger?.isNews(error.message)) logger.warn(`workers of jobs: ${error.message}`);
      }

      @OnWorkerEvent('lockRenewalFailed')
      onLockLost(ids: string[]): void {
        for (const id of ids) this.worker.cancelJob(id, TAKEN_OVER);
      }
    }
    return KindProcessor;
  }

  /** One attempt. What it throws makes BullMQ try again later, or give up. */
  private async perform(
    job: StoredJob,
    token: string,
    signal: AbortSignal,
    { handler, attempts }: Registration,
  ): Promise<Json> {
    const outcomeKey = this.outcomeKey(job.name, job.data.id);
    const stopping = new AbortController();
    const run: Run = { job, token, progress: undefined, abort: (reason) => stopping.abort(new Error(reason)) };
    const outcome = await this.attempt(() => this.client.get(outcomeKey)).catch(async (error: unknown) => {
      await this.uncount(run);
      throw error;
    });
    const isCancelled = outcome !== null && outcome !== FINISHED;
    // Of a worker that ended before it had stored the result. Otherwise the job could not be cancelled.
    if (outcome === FINISHED) await this.whileHeld(run, CLEAR, outcomeKey);
    if (isCancelled || job.attemptsStarted > attempts) {
      await this.uncount(run);
      throw new UnrecoverableError(isCancelled ? CANCELLED : PROCESS_ENDED);
    }
    signal.addEventListener('abort', () => run.abort(String(signal.reason ?? CANCELLED)));
    this.runs.add(run);
    try {
      const answer = await handler({
        id: job.data.id,
        input: job.data.input,
        attempt: job.attemptsStarted,
        signal: stopping.signal,
        progress: (done, total) => void (run.progress = { done, total }),
      });
      // Decides between this success and a cancellation.
      const decided = await this.whileHeld(run, FINISH, outcomeKey, FINISHED);
      if (decided === null) throw new Error(TAKEN_OVER);
      if (decided !== FINISHED) throw new UnrecoverableError(CANCELLED);
      return JSON.parse(JSON.stringify(answer ?? null)) as Json;
    } catch (error) {
      if (!this.closing) {
        if (isPassing(error)) await this.uncount(run);
        throw error instanceof JobGivenUp ? new UnrecoverableError(error.message) : error;
      }
      // The attempt did not end by its own fault: the job is put back as if the attempt had not started.
      await this.uncount(run);
      await job.moveToWait(token);
      throw new WaitingError();
    } finally {
      this.runs.delete(run);
      if (run.progress) await this.writeProgress(run).catch(() => undefined);
    }
  }

  /**
   * Removes a job's outcome and its count of attempts, unless a worker runs it: that worker may have read the outcome
   * already.
   * @returns whether it was done
   */
  private async reopen(kind: string, id: string): Promise<boolean> {
    const queue = this.queue(kind);
    const keys = [queue.toKey('active'), this.outcomeKey(kind, id), queue.toKey(keyOf(id))];
    return (await this.client.eval(REOPEN, keys.length, ...keys, keyOf(id))) === 1;
  }

  /** Undoes the count of a started attempt. */
  private async uncount(run: Run): Promise<void> {
    await this.whileHeld(run, UNCOUNT, this.jobKey(run.job));
  }

  private async writeProgress(run: Run): Promise<void> {
    await this.whileHeld(run, PROGRESS, this.jobKey(run.job), JSON.stringify(run.progress));
  }

  /** Runs a script unless another worker has taken the job, as after a pause of this one. @returns null if it has */
  private whileHeld({ job, token }: Run, script: string, key: string, argument = ''): Promise<unknown> {
    const held = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end\n${script}`;
    return this.attempt(() => this.client.eval(held, 2, `${this.jobKey(job)}:lock`, key, token, argument));
  }

  /** Removes the jobs that finished before this time. */
  private async sweep(before: string): Promise<void> {
    for (let kept = 0; ;) {
      const names = await this.client.zrange(this.orderKey, `${kept}`, `${kept + LIST_SLICE - 1}`);
      if (names.length === 0) return;
      for (const name of names) {
        const [kind, id] = splitName(name);
        const job = await this.find(kind, id);
        // Those after it have not finished earlier.
        if (job && job.enqueued_at >= before) return;
        if (finishedBefore(job, before)) {
          await (await this.queue(kind).getJob(keyOf(id)))?.remove();
          await this.client.multi().del(this.outcomeKey(kind, id)).zrem(this.orderKey, name).exec();
        } else kept++;
      }
    }
  }

  private async poll(): Promise<void> {
    await Promise.all([...this.runs].map((run) => this.attend(run).catch(() => undefined)));
  }

  /** Writes the progress of a run, and stops it if it was cancelled. */
  private async attend(run: Run): Promise<void> {
    const outcome = await this.client.get(this.outcomeKey(run.job.name, run.job.data.id));
    if (outcome !== null && outcome !== FINISHED) return run.abort(CANCELLED);
    const { progress } = run;
    if (!progress) return;
    await this.writeProgress(run);
    // Not before: a job that ends meanwhile must write it itself, since later its lock is gone.
    if (run.progress === progress) run.progress = undefined;
  }

  private queue(kind: string): Queue<Payload, Json> {
    let queue = this.queues.get(kind);
    if (!queue) {
      queue = new Queue<Payload, Json>(kind, { connection: this.client, prefix: this.options.prefix });
      queue.on('error', () => undefined);
      this.queues.set(kind, queue);
    }
    return queue;
  }

  /** @throws StoreUnavailable when Redis gives no answer */
  private async attempt<T>(action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      if (error instanceof TypeError) throw error;
      throw new StoreUnavailable(`the jobs in Redis give no answer: ${(error as Error).message}`);
    }
  }

  private get orderKey(): string {
    return `${this.options.prefix}.order`;
  }
  private jobKey({ name, id }: StoredJob): string {
    return this.queue(name).toKey(id!);
  }
  private outcomeKey(kind: string, id: string): string {
    return `${this.options.prefix}.fate.${kind}:${id}`;
  }
}

/** For `whileHeld`, which gives them the second key and argument: the outcome, or the job and its progress. */
const FINISH = `redis.call('SET', KEYS[2], ARGV[2], 'NX')
return redis.call('GET', KEYS[2])`;
const CLEAR = `return redis.call('DEL', KEYS[2])`;
const UNCOUNT = `return redis.call('HINCRBY', KEYS[2], 'ats', -1)`;
const PROGRESS = `return redis.call('HSET', KEYS[2], 'progress', ARGV[2])`;

/** Keys: the list of running jobs, the outcome, the job. Argument: the job's id in the queue. */
const REOPEN = `
if redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[2])
redis.call('HDEL', KEYS[3], 'ats')
return 1`;

/**
 * Keys: the queued jobs of a kind (scored by BullMQ: priority · 2^32 + order), the job, the owner's last turn. An owner who
 * comes after others have had turns goes before whoever has had one more; BullMQ has no priority above 2^21 - 1.
 */
const TURN = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local before = head and math.floor(head / 4294967296) - 1 or 0
local turn = math.min(math.max(before, (redis.call('GET', KEYS[3]) or 0) + 1), 2097151)
redis.call('SET', KEYS[3], turn, 'EX', 86400)
return turn`;

/**
 * The client of all workers. BullMQ duplicates it for each worker, which waits for its next job on the duplicate: that
 * connection is silent as long as there is no job, and BullMQ itself notices when it is dead.
 */
function clientOfWorkers(url: string): Redis | Cluster {
  const client = createRedis(parseRedisUrl(url), { commandTimeout: undefined, enableAutoPipelining: false });
  const silent: RedisOptions = { socketTimeout: undefined };
  connectUntilReady(client);
  if (client instanceof Cluster) {
    const duplicate = client.duplicate.bind(client);
    client.duplicate = (nodes, options: ClusterOptions = {}) =>
      connectUntilReady(duplicate(nodes, { ...options, redisOptions: { ...options.redisOptions, ...silent } }));
  } else {
    const duplicate = client.duplicate.bind(client);
    client.duplicate = (options) => connectUntilReady(duplicate({ ...options, ...silent }));
  }
  return client;
}

/**
 * Makes `connect` wait until the client is ready, however often it must try; it fails only when the client has ended. The
 * library's promise fails at the first attempt, or never ends if a node of a cluster is lost during it. BullMQ connects
 * once, and would not use the client again.
 */
function connectUntilReady<T extends Redis | Cluster>(client: T): T {
  const connect = client.connect.bind(client);
  let waiting: Promise<void> | undefined;
  client.connect = () => {
    waiting ??= new Promise<void>((resolve, reject) => {
      const settle = () => {
        waiting = undefined;
        client.off('ready', settle).off('end', settle);
        if (client.status === 'ready') resolve();
        else reject(new Error('Connection is closed.'));
      };
      client.on('ready', settle).on('end', settle);
    });
    connect().catch(() => undefined);
    return waiting;
  };
  return client;
}

function optionsOf(id: string) {
  return { jobId: keyOf(id), attempts: UNCOUNTED, backoff: { type: 'ours' }, stackTraceLimit: 1 };
}

/** BullMQ refuses ids that contain ":" or are integers. */
function keyOf(id: string): string {
  return `id-${encodeURIComponent(id)}`;
}

function splitName(name: string): [kind: string, id: string] {
  const colon = name.indexOf(':');
  return [name.slice(0, colon), name.slice(colon + 1)];
}

/** Whether an error of the client only says that Redis is unavailable. */
function isOutage({ name, message, ...rest }: Error): boolean {
  const isNamed = /^(?:LOADING\b|Connection is closed|Socket timeout)/.test(message);
  return isNamed || DEMOTED.test(message) || 'syscall' in rest || name === 'ClusterAllFailedError';
}

function publicJob(job: StoredJob, state: JobState | 'unknown', outcome: string | null): Job {
  const { name: kind, data, progress, attemptsStarted, timestamp, finishedOn, failedReason, returnvalue } = job;
  const cancelledAt = outcome === null || outcome === FINISHED ? null : outcome;
  const status = cancelledAt === null ? statusOf(state) : 'cancelled';
  const isOver = status === 'completed' || status === 'failed';
  return {
    kind,
    id: data.id,
    status,
    input: data.input,
    progress: typeof progress === 'object' ? (progress as Job['progress']) : { done: 0, total: 0 },
    attempts: attemptsStarted,
    result: status === 'completed' ? (returnvalue ?? null) : null,
    error: status === 'completed' || status === 'cancelled' ? null : (failedReason ?? null),
    enqueued_at: new Date(timestamp).toISOString(),
    finished_at: cancelledAt ?? (isOver && finishedOn ? new Date(finishedOn).toISOString() : null),
  };
}

function statusOf(state: JobState | 'unknown'): JobStatus {
  if (state === 'active') return 'running';
  return state === 'completed' || state === 'failed' ? state : 'queued';
}
