import { Inject, type OnModuleInit } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import type { IdentityRow } from '../../../projections/identities.js';
import type { Actor, CommandContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import type { JobStartedDto } from '../../http/common.dto.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { formatPosition } from '../../kernel/positions.js';
import { Views } from '../../read-side/views.js';
import type { Job, RunningJob } from '../../stores/ports/jobs.js';
import { READ_MODELS, type ReadModels } from '../../stores/ports/read-models.js';
import { JobKinds, ownerOfJob } from '../jobs/job-kinds.js';
import { JobLines } from '../jobs/job-lines.js';
import { Lenses } from '../lenses/lenses.js';
import { eachIdentity, openPopulation } from '../disc/population.js';
import { AccessPolicies } from './access-policies.js';
import { trustedNow } from './access-probes.js';
import { PopulationResultDto } from './ap.dto.js';
import { mayReadRules } from './domain/access-policy.js';
import { TRUE, UNKNOWN, evaluate } from './evaluate.js';
import { SubjectFacts } from './facts.js';

const POPULATION = { kind: 'ap_population', prefix: 'pop', plural: 'evaluations of all identities' };

/** Starts the evaluation of a policy for all identities. */
export class StartPopulation extends CommandWith<{ policy_id: string; context: CommandContext }, JobStartedDto> {}

/** Evaluates an access policy for all identities, as a job that survives a crash. Records no decisions. */
@CommandHandler(StartPopulation)
export class Populations implements ICommandHandler<StartPopulation>, OnModuleInit {
  constructor(
    private readonly views: Views,
    private readonly policies: AccessPolicies,
    private readonly lenses: Lenses,
    private readonly kinds: JobKinds,
    private readonly jobLines: JobLines,
    @Inject(READ_MODELS) private readonly readModels: ReadModels,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  onModuleInit(): void {
    const shownTo = async (actor: Actor, job: Job) => {
      // Whom a policy grants reveals as much as its rules. An organization's own job is about rules that it may read.
      if (actor.organization !== null || actor.scopes.has('ops')) return job;
      const policy = await this.policies.get(job.input['policy_id'] as string);
      return mayReadRules(policy, actor) ? job : undefined;
    };
    const lines = ({ result }: Job) => this.jobLines.ofResult(result);
    const shown = { scope: 'policies:write' as const, shownTo, lines, result: PopulationResultDto };
    this.kinds.add({ ...POPULATION, ...shown }, (job) => this.run(job));
  }

  /** @throws Problem policy_not_found, forbidden, idempotency_key_reused, rate_limited */
  async execute({ input: { policy_id, context } }: StartPopulation): Promise<JobStartedDto> {
    // A list of those who pass reveals as much as the rules.
    await this.policies.readable(policy_id, context.actor);
    const { organization } = context.actor;
    const { id } = await this.kinds.start(POPULATION, { policy_id, organization }, context);
    return { job_id: id };
  }

  /** @returns the result, and where its lines are @throws Problem policy_not_found, projection_rebuilding */
  private async run({ input, signal, progress }: RunningJob) {
    const policy = await this.policies.get(input['policy_id'] as string);
    const rule = this.policies.rulesOf(policy);
    const selector = { organization: policy.owner, ...(policy.vp !== null && { vp: policy.vp }) };
    const { lens, manifest } = await this.lenses.current(selector, this.views);
    const trusts = await trustedNow(this.views);
    const population = await openPopulation(this.readModels, manifest);
    const now = this.clock();
    const sums = { count: 0, granted: 0, denied: 0, unknown: 0 };
    const lines = this.jobLines.begin(ownerOfJob({ input }));
    progress(0, population.total);
    await eachIdentity(
      this.readModels,
      this.views,
      [lens],
      population,
      signal,
      (state, { tris_id }) => {
        // As a check: as of now or, if it is later, of the latest time that a server has given to an event about it.
        const asOf = Math.max(now, (state as IdentityRow).stamped);
        const value = evaluate(rule, new SubjectFacts(state, lens, asOf, trusts));
        const outcome = value === TRUE ? 'granted' : value === UNKNOWN ? 'unknown' : 'denied';
        sums.count++;
        sums[outcome]++;
        lines.add({ tris_id, outcome });
      },
      async (done) => {
        await lines.store();
        progress(done, Math.max(done, population.total));
      },
    );
    const { until, ...stored } = await lines.end();
    return {
      policy_id: policy.policy_id,
      policy_hash: policy.content_hash,
      ...sums,
      lens: { policy_id: lens.policy_id, content_hash: lens.content_hash },
      model: { id: lens.model.id, hash: lens.model.hash },
      position: formatPosition(this.views.logId, population.position),
      as_of: new Date(now).toISOString(),
      lines_until: until,
      stored,
    };
  }
}
