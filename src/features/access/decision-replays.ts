import { Inject, type OnModuleInit } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { DECISIONS, type DecisionRow, decisionsOf, sortByTime, timeOfSort } from '../../../projections/decisions.js';
import type { Actor, CommandContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import type { JobStartedDto } from '../../http/common.dto.js';
import type { JsonObject } from '../../kernel/json.js';
import { mapInParts } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { Job, RunningJob } from '../../stores/ports/jobs.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { JobKinds, ownerOfJob } from '../jobs/job-kinds.js';
import { JobLines } from '../jobs/job-lines.js';
import { AccessPolicies } from './access-policies.js';
import { DecisionsReplayDto, type ReplayedPolicyDto } from './ap.dto.js';
import { readableBy } from './decisions.handlers.js';
import { accessStream, checkedAt, decisionOf } from './domain/decision.js';
import { TRUE, evaluate } from './evaluate.js';
import { SubjectFacts } from './facts.js';
import { knownThen } from './notice.js';
import { type Rule, validRules } from './rules.js';

/** The candidate, a stored policy or rules, and the times of the checks, ms, both inclusive. Stored as JSON. */
export type ReplayRequest = { policy_id: string | null; rules: JsonObject | null; from: number; to: number };

const REPLAY = { kind: 'ap_replay', prefix: 'apr', plural: 'replays of decisions' };
const READ_AT_ONCE = 250;

/** Starts a replay of recorded decisions under a candidate. */
export class ReplayDecisions extends CommandWith<{ asked: ReplayRequest; context: CommandContext }, JobStartedDto> {}

/** Decides recorded decisions again by a candidate, each as of its own check, as a job. Records nothing. */
@CommandHandler(ReplayDecisions)
export class DecisionReplays implements ICommandHandler<ReplayDecisions>, OnModuleInit {
  constructor(
    private readonly views: Views,
    private readonly identities: IdentityReader,
    private readonly policies: AccessPolicies,
    private readonly kinds: JobKinds,
    private readonly jobLines: JobLines,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  onModuleInit(): void {
    // Of the operators' keys, not each may read the decisions.
    const shownTo = async ({ name, organization, scopes }: Actor, job: Job) =>
      organization !== null || scopes.has('ops') || job.input['caller'] === name ? job : undefined;
    const lines = ({ result }: Job) => this.jobLines.ofResult(result);
    const shown = { scope: 'policies:write' as const, shownTo, lines, result: DecisionsReplayDto };
    this.kinds.add({ ...REPLAY, ...shown }, (job) => this.run(job));
  }

  /** @throws Problem policy_not_found, forbidden, idempotency_key_reused, rate_limited */
  async execute({ input: { asked, context } }: ReplayDecisions): Promise<JobStartedDto> {
    const { owner } = readableBy(context.actor);
    if (asked.policy_id !== null) await this.policies.readable(asked.policy_id, context.actor);
    const { id } = await this.kinds.start(REPLAY, { ...asked, organization: owner }, context);
    return { job_id: id };
  }

  /** @returns the result, and where its lines are @throws Problem policy_not_found, projection_behind, projection_rebuilding */
  private async run({ input, signal, progress }: RunningJob) {
    const { policy_id, rules, from, to, organization } = input as ReplayRequest & { organization: string | null };
    const policy = policy_id === null ? null : await this.policies.get(policy_id);
    const rule = policy ? this.policies.rulesOf(policy) : validRules(rules);
    await this.views.requirePosition(await this.store.head(), 'The read models have not applied all of the log yet.');
    const all = organization === null ? DECISIONS : decisionsOf(organization);
    const list = { ...all, after: sortByTime(to + 1), reverse: true, limit: READ_AT_ONCE };
    const lines = this.jobLines.begin(ownerOfJob({ input }));
    const sums = new Map<string, ReplayedPolicyDto>();
    let decisions = 0;
    for await (const rows of this.views.parts(list)) {
      signal.throwIfAborted();
      const wanted = rows.filter(({ sort }) => timeOfSort(sort) >= from);
      const replayed = await mapInParts(wanted, ({ value }) =>
        this.replay((value as DecisionRow).jti, rule, policy?.vp ?? undefined),
      );
      for (const decision of replayed) {
        const { was, would_be } = decision;
        const none = { policy_id: decision.policy_id, decisions: 0, granted: 0, gained: 0, lost: 0 };
        const sum = sums.get(decision.policy_id) ?? none;
        sums.set(decision.policy_id, sum);
        sum.decisions++;
        if (was.granted) sum.granted++;
        if (was.granted === would_be.granted) continue;
        sum[would_be.granted ? 'gained' : 'lost']++;
        lines.add(decision);
      }
      await lines.store();
      decisions += wanted.length;
      progress(decisions, decisions);
      if (wanted.length < rows.length) break;
    }
    const { until, ...stored } = await lines.end();
    const policies = [...sums.values()].sort((a, b) => (a.policy_id < b.policy_id ? -1 : 1));
    return { policy_id, decisions, policies, lines_until: until, stored };
  }

  /** @param vp the lens of the candidate. Default: that of the decision */
  private async replay(jti: string, rule: Rule, vp: string | undefined) {
    const { event } = decisionOf(await this.store.readStream(accessStream(jti)))!;
    const { data, occurred_at } = event;
    const { as_of, seen } = await knownThen(event, this.identities, vp);
    const facts = seen && new SubjectFacts(seen.state, seen.lens, as_of, seen.trusts);
    return {
      jti,
      policy_id: data.policy_id,
      subject_tris: data.subject_tris,
      checked_at: new Date(checkedAt(data, occurred_at)).toISOString(),
      was: { granted: data.granted, score: data.score },
      would_be: { granted: facts !== null && evaluate(rule, facts) === TRUE, score: facts?.score ?? null },
    };
  }
}
