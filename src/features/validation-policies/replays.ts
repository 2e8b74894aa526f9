import { Inject, type OnModuleInit } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { endOfHour } from '../disc/coordinates.js';
import type { Actor, CommandContext } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import type { Position } from '../../kernel/event.js';
import { formatPosition } from '../../kernel/positions.js';
import { JOBS, type Job, type Jobs, type RunningJob } from '../../stores/ports/jobs.js';
import type { Json } from '../../kernel/json.js';
import { Problem } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { type Manifest, READ_MODELS, type ReadModels } from '../../stores/ports/read-models.js';
import type { Lens } from '../../scoring/lens.js';
import { type Scoring, modelOf, scoringBy } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import { type AccessProbe, AccessProbes } from '../access/access-probes.js';
import type { Reader } from '../access/domain/access-policy.js';
import { type Comparison, Summarizer } from './comparison.js';
import { type LensOwner, lensOwner } from '../lenses/domain/lens-stream.js';
import { JobKinds, stateOfJob } from '../jobs/job-kinds.js';
import { eachIdentity, openPopulation } from '../disc/population.js';
import { reasonsOf } from './reasons.js';
import { Lenses } from '../lenses/lenses.js';
import type { LensScope, ModelName } from '../lenses/domain/lenses.events.js';
import { refuseUnlessOwner } from './permissions.js';
import { type ReplayDto, ReplayResultDto, type ScoringNameDto } from './vp.dto.js';

const REPLAY = { kind: 'vp_replay', prefix: 'rpl', plural: 'replays' };

/** A lens and the version of the model, by name. */
function nameOf({ policy_id, content_hash, model: { id, hash } }: Scoring): ScoringNameDto {
  return { policy_id, content_hash, model: { id, hash } };
}

/** The lenses that a comparison of two uses. */
export function lensesOf(before: Lens, after: Lens, probes: readonly AccessProbe[]): Lens[] {
  return [before, after, ...probes.flatMap(({ lens }) => lens ?? [])];
}

/** What may be promoted: a lens, or a version of the model. */
export interface Proposal {
  /** Default: the one that it would replace. */
  lens?: Lens;
  /** Whose lens it would replace. */
  owner: LensOwner;
  /** Version of the model for both sides. Default: the platform's. */
  model?: ModelId;
  /** That of the side after. */
  promotes?: ModelName;
  /** To whom the effect is shown; undefined: may read all rules. */
  reader?: Reader;
}

/** Starts a replay over the whole population. */
export class StartReplay extends CommandWith<
  {
    /** What is compared with what serves: a policy, by a version of the model (default: the platform's), or a version. */
    of: { policyId: string; scope: LensScope; model?: ModelId } | { modelId: ModelId };
    accessPolicies: readonly string[] | undefined;
    context: CommandContext;
  },
  ReplayDto
> {}

/** Compares two lenses over the whole population: within a request, or as a job that survives a crash. */
@CommandHandler(StartReplay)
export class Replays implements ICommandHandler<StartReplay>, OnModuleInit {
  constructor(
    private readonly views: Views,
    private readonly lenses: Lenses,
    private readonly kinds: JobKinds,
    private readonly access: AccessProbes,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
    @Inject(JOBS) private readonly jobs: Jobs,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  onModuleInit(): void {
    const isOf = (organization: string, { input }: Job) => input['tris_org'] === organization;
    const shownTo = (actor: Reader, job: Job) => this.shownTo(actor, job);
    this.kinds.add({ ...REPLAY, scope: 'policies:write', isOf, shownTo, result: ReplayResultDto }, (job) =>
      this.run(job),
    );
  }

  /**
   * Enqueues a replay. A retry with the same Idempotency-Key gets the first one.
   * @throws Problem policy_not_found, also for an access policy; forbidden, idempotency_key_reused, rate_limited
   */
  async execute({ input: { of, accessPolicies, context } }: StartReplay): Promise<ReplayDto> {
    const { actor } = context;
    const replayed = await this.replayed(of);
    refuseUnlessOwner(actor, replayed.tris_org);
    await this.access.probes(lensOwner(replayed.scope, replayed.tris_org ?? ''), accessPolicies, actor);
    const access_policies = accessPolicies === undefined ? null : [...accessPolicies];
    const reader = { organization: actor.organization, ops: actor.scopes.has('ops') };
    const job = await this.kinds.start(REPLAY, { ...replayed, access_policies, reader }, context);
    return replayOf(await this.shownTo(actor, job));
  }

  private async replayed(of: StartReplay['input']['of']): Promise<Omit<ReplayInput, 'access_policies' | 'reader'>> {
    if ('modelId' in of) {
      const { id, hash } = modelOf(of.modelId);
      return { policy_id: null, tris_org: null, content_hash: null, scope: 'platform', promotes: { id, hash } };
    }
    const { policy_id, tris_org, content_hash } = await this.lenses.policy(of.policyId);
    return { policy_id, tris_org, content_hash, scope: of.scope, ...(of.model && { model: of.model }) };
  }

  /** A replay, without asking who may read it. @throws Problem replay_not_found */
  async find(replayId: string): Promise<ReplayDto> {
    const job = await this.jobs.get(REPLAY.kind, replayId);
    if (!job) throw unknownReplay(replayId);
    return replayOf(job);
  }

  /** Its result without the access policies whose rules the reader may not read: another caller may have started it. */
  private async shownTo(reader: Reader, job: Job): Promise<Job> {
    const result = job.result as Partial<ReplayResultDto> | null;
    if (!result?.access?.length) return job;
    const ids = result.access.map(({ policy_id }) => policy_id);
    const readable = await this.access.readable(ids, reader);
    const access = result.access.filter(({ policy_id }) => readable.has(policy_id));
    return { ...job, result: { ...result, access } as unknown as Json };
  }

  /**
   * Folds all identities under what is active and what is proposed. Each run starts from the beginning, so that a
   * crash only costs time.
   * @throws Problem projection_rebuilding
   */
  async compare(
    { lens, owner, model, promotes, reader }: Proposal,
    accessPolicies: readonly string[] | undefined,
    signal: AbortSignal,
    onPage?: (done: number, total: number) => void,
  ): Promise<ReplayResultDto> {
    const { lens: before, manifest } = await this.lenses.current({ organization: owner.tris_org, model }, this.views);
    const probes = await this.access.probes(owner, accessPolicies, reader);
    const after = scoringBy(lens ?? before, promotes ? modelOf(promotes.id) : before.model);
    return this.between(before, after, manifest, probes, signal, { onPage });
  }

  /**
   * Folds all identities under two lenses.
   * @param watch `onIdentity` gets the comparison of each identity, which is only valid until it returns
   * @throws Problem projection_rebuilding
   */
  async between(
    before: Scoring,
    after: Scoring,
    manifest: Manifest,
    probes: readonly AccessProbe[],
    signal: AbortSignal,
    watch: {
      onIdentity?: (trisId: string, comparison: Comparison) => void;
      onPage?: (done: number, total: number) => void | Promise<void>;
    },
  ): Promise<ReplayResultDto> {
    const population = await openPopulation(this.readModels, manifest);
    const now = this.clock();
    const as_of = endOfHour(now);
    // Scores are as of the end of the hour, as in public answers; access is decided as of now, as in checks.
    const fold = new Summarizer(before, after, probes, now);
    const { total } = population;
    await watch.onPage?.(0, total);
    await eachIdentity(
      this.readModels,
      this.views,
      lensesOf(before, after, probes),
      population,
      signal,
      (state, reader) => {
        fold.add(reader.tris_id, state, () => reasonsOf(reader, state, before, after));
        watch.onIdentity?.(reader.tris_id, fold.comparison);
      },
      (done) => watch.onPage?.(done, Math.max(done, total)),
    );
    const result = await this.resultOf(fold, population, as_of);
    await watch.onPage?.(result.count, result.count);
    return result;
  }

  /** @param asOf of the scores */
  async resultOf(
    fold: Summarizer,
    { generation, position }: { generation: string; position: Position },
    asOf: number,
  ): Promise<ReplayResultDto> {
    const { lensBefore, lensAfter } = fold.comparison;
    return {
      ...(await fold.summary()),
      before: nameOf(lensBefore),
      after: nameOf(lensAfter),
      generation,
      position: formatPosition(this.views.logId, position),
      as_of: new Date(asOf).toISOString(),
    };
  }

  private async run({ input, signal, progress }: RunningJob): Promise<ReplayResultDto> {
    const { policy_id, tris_org, scope, access_policies, model, promotes, reader: by } = input as ReplayInput;
    const lens = policy_id === null ? undefined : await this.lenses.of(policy_id);
    const scopes = new Set(by.ops ? (['ops'] as const) : []);
    const reader = { organization: by.organization, scopes, session: null };
    const proposal = { lens, owner: lensOwner(scope, tris_org ?? ''), model, promotes, reader };
    return this.compare(proposal, access_policies ?? undefined, signal, progress);
  }
}

type ReplayInput = {
  /** Null, as the next two, of a version of the model. */
  policy_id: string | null;
  tris_org: string | null;
  content_hash: string | null;
  scope: LensScope;
  access_policies: string[] | null;
  /** Absent: the platform's. */
  model?: ModelId;
  /** The version of the model that is compared with the platform's. */
  promotes?: ModelName;
  /** Who started it. */
  reader: { organization: string | null; ops: boolean };
};

function replayOf(job: Job): ReplayDto {
  const { policy_id, tris_org, content_hash, scope, promotes = null } = job.input as ReplayInput;
  const about = { replay_id: job.id, promotes, policy_id, tris_org, content_hash, scope };
  return { ...about, ...stateOfJob<ReplayResultDto>(job) };
}

function unknownReplay(replayId: string): Problem {
  return new Problem('replay_not_found', `There is no replay ${replayId}.`);
}

/** Progress and result of a replay. */
export class GetReplay extends QueryWith<{ replayId: string; actor: Actor }, ReplayDto> {}

@QueryHandler(GetReplay)
export class GetReplayHandler implements IQueryHandler<GetReplay> {
  constructor(private readonly kinds: JobKinds) {}

  /** @throws Problem replay_not_found, also for a replay that the actor may not read */
  async execute({ input: { replayId, actor } }: GetReplay): Promise<ReplayDto> {
    return replayOf((await this.kinds.find(replayId, actor, unknownReplay)).job);
  }
}

/** Cancels a queued or running replay. */
export class CancelReplay extends CommandWith<{ replayId: string; actor: Actor }, ReplayDto> {}

@CommandHandler(CancelReplay)
export class CancelReplayHandler implements ICommandHandler<CancelReplay> {
  constructor(private readonly kinds: JobKinds) {}

  /** @throws Problem replay_not_found, also for a replay that the actor may not read */
  async execute({ input: { replayId, actor } }: CancelReplay): Promise<ReplayDto> {
    return replayOf(await this.kinds.cancel(replayId, actor, unknownReplay));
  }
}
