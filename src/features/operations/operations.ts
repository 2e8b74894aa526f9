import { Inject, type OnModuleInit, type Type } from '@nestjs/common';
import { CommandBus, CommandHandler, type ICommandHandler, QueryBus } from '@nestjs/cqrs';
import type { CommandContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import type { JsonObject } from '../../kernel/json.js';
import { Problem } from '../../kernel/problems.js';
import { type Swapped, rollbackOf } from '../../read-side/generations.js';
import { isIdentical } from '../../read-side/verify.js';
import { JobGivenUp, type RunningJob } from '../../stores/ports/jobs.js';
import { KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { READ_MODELS, type ReadModels } from '../../stores/ports/read-models.js';
import { JobKinds, jobId } from '../jobs/job-kinds.js';
import { RebuiltDto, ServingDto, VerifiedDto } from './operations.dto.js';
import { RebuildViews, ServeGenerations, VerifyReadModels } from './generations.handlers.js';

/** The operations that run as jobs, and how the ids of their jobs begin. */
const PREFIXES = { rebuild: 'rbd', swap: 'swp', rollback: 'rbk', verify: 'vfy' } as const;
export type OperationName = keyof typeof PREFIXES;

/** How long a later attempt of a job finds what an earlier one has done. */
const NOTED_MS = 86_400_000;
/** The maximum number of damaged events in a result. */
const MAX_DAMAGED = 20;

/** Starts an operation of the read models as a job. */
export class StartOperation extends CommandWith<
  { name: OperationName; input: JsonObject; context: CommandContext },
  { job_id: string }
> {}

/** Runs the operations of generations as jobs of the workers, at most one of each at a time. */
@CommandHandler(StartOperation)
export class Operations implements ICommandHandler<StartOperation>, OnModuleInit {
  constructor(
    private readonly commands: CommandBus,
    private readonly queries: QueryBus,
    private readonly kinds: JobKinds,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
  ) {}

  onModuleInit(): void {
    this.handle('rebuild', RebuiltDto, (job) => this.rebuild(job));
    this.handle('swap', ServingDto, ({ id, input }) => this.serve(id, input['generation'] as string));
    // Repeating it must not undo the rollback.
    this.handle('rollback', ServingDto, ({ input }) => this.change({ rollback: input as unknown as Swapped }));
    this.handle('verify', VerifiedDto, (job) => this.verify(job));
  }

  private handle<T extends object>(name: OperationName, result: Type<T>, run: (job: RunningJob) => Promise<T>): void {
    const handler = async (job: RunningJob) => {
      try {
        return await run(job);
      } catch (error) {
        // Only a generation that is being built is free again later.
        const isFinal = error instanceof Problem && error.code !== 'operation_open' && !job.signal.aborted;
        throw isFinal ? new JobGivenUp(error.message) : error;
      }
    };
    // A lease of a process that ended expires after 2 s: a later attempt succeeds.
    this.kinds.add({ kind: name, prefix: PREFIXES[name], scope: 'ops', result }, handler, { attempts: 5 });
  }

  /**
   * Enqueues an operation. A retry with the same Idempotency-Key gets its first job.
   * @throws Problem operation_open while another of the same name is queued or running; idempotency_key_reused;
   * generation_conflict for a rollback if there was no swap
   */
  async execute({ input: { name, input, context } }: StartOperation): Promise<{ job_id: string }> {
    const more = name === 'rollback' ? rollbackOf(await this.readModels.manifest()) : {};
    const mine = { kind: name, id: jobId(PREFIXES[name], context), input: { ...input, ...more } };
    const job = await this.kinds.startInSlot(`operation-open:${name}`, mine, context, ({ id, status }) => {
      throw new Problem('operation_open', `The job ${id} is ${status}: wait for it to finish, or cancel it.`);
    });
    return { job_id: job.id };
  }

  /** An attempt that was interrupted may have built the generation already. */
  private async rebuild({ id, input, signal, progress: onProgress }: RunningJob): Promise<RebuiltDto> {
    const { views, swap } = input as { views: string[] | null; swap: boolean };
    const note = `operation-built:${id}`;
    let built = (await this.keyValue.get(note)) as RebuiltDto | undefined;
    if (!built) {
      built = await this.commands.execute(new RebuildViews({ views: views ?? 'all', signal, onProgress }));
      await this.keyValue.put(note, { ...built }, NOTED_MS);
    }
    if (!swap) return built;
    await this.serve(id, built.generation);
    return { ...built, swapped: true };
  }

  /** Swaps to a generation, unless an attempt of the job that was interrupted has done it. */
  private async serve(jobId: string, generation: string): Promise<ServingDto> {
    const isFirst = await this.keyValue.putIfAbsent(`operation-swap:${jobId}`, generation, NOTED_MS);
    const served = await this.readModels.manifest();
    if (!isFirst && served && Object.values(served.views).includes(generation)) return { views: served.views };
    return this.change({ swap: generation });
  }

  private async change(change: ServeGenerations['input']): Promise<ServingDto> {
    const { views } = await this.commands.execute(new ServeGenerations(change));
    return { views };
  }

  private async verify({ signal, progress }: RunningJob): Promise<VerifiedDto> {
    const onProgress = ({ done, total }: { done: number; total: number }) => progress(done, total);
    const result = await this.queries.execute(new VerifyReadModels({ signal, onProgress }));
    const damaged = result.damaged.slice(0, MAX_DAMAGED).map(({ id, type, stream, position, damage }) => {
      return { id, type, stream, position, damage };
    });
    return { identical: isIdentical(result), ...result, damaged, damaged_events: result.damaged.length };
  }
}
