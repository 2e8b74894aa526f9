import { Inject, type OnModuleInit } from '@nestjs/common';
import { CommandHandler, type ICommandHandler } from '@nestjs/cqrs';
import { type Actor, type CommandContext, bodyHash, jobContext } from '../../commands/context.js';
import { CommandWith } from '../../commands/messages.js';
import type { Scope } from '../../credentials/caller.js';
import type { JobStartedDto } from '../../http/common.dto.js';
import type { Json } from '../../kernel/json.js';
import { formatPosition } from '../../kernel/positions.js';
import { Problem } from '../../kernel/problems.js';
import { isDue, mapInParts, yieldIfDue } from '../../kernel/turn.js';
import { Views } from '../../read-side/views.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { JOBS, type Job, JobGivenUp, type Jobs, type RunningJob } from '../../stores/ports/jobs.js';
import { FOREVER_MS, KEY_VALUE, type KeyValue } from '../../stores/ports/key-value.js';
import { AffectedDecisions, differs } from '../access/affected-decisions.js';
import { ownDecisions } from '../access/decisions.handlers.js';
import { changedBy } from '../disc/evidence-reader.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { standing } from '../disc/score.js';
import { JobKinds, ownerOfJob } from '../jobs/job-kinds.js';
import { JobLines, type StoredLines } from '../jobs/job-lines.js';
import { Platforms } from '../organizations/platforms.js';
import type { Reason } from '../relay/domain/relay.events.js';
import { actionIn } from '../relay/domain/withdrawal.js';
import { RecordedActions, refuseUnlessMayChangeSome } from '../relay/recorded-actions.js';
import { dtoOf } from './affected-decisions.handlers.js';
import {
  type AskedWithdrawal,
  WithdrawalAppliedDto,
  WithdrawalDryRunDto,
  type WithdrawalEffectDto,
} from './withdraw-many.dto.js';
import { type SetAction, type SetFilter, findSets } from './withdrawal-sets.js';

const DRY_RUN = { kind: 'withdrawals_dry_run', prefix: 'wdr', plural: 'dry runs of withdrawals' };
const APPLY = { kind: 'withdrawals', prefix: 'wdl' };
const LARGEST = 100;
/** Changed actions that a refusal names. */
const NAMED = 100;
/** How long a set is kept that is being withdrawn. */
const APPLYING_MS = 90 * 86_400_000;

/** `changes`: number of its withdrawals and reinstatements then. */
type SetLine = Pick<SetAction, 'action_id' | 'stream'> & { changes: number };

/** Starts the dry run of a withdrawal of many actions, or the withdrawal of its set. */
export class WithdrawActions extends CommandWith<{ asked: AskedWithdrawal; context: CommandContext }, JobStartedDto> {}

/** Withdraws many actions: a dry run finds and keeps a set of them, and exactly this set can then be withdrawn. */
@CommandHandler(WithdrawActions)
export class WithdrawMany implements ICommandHandler<WithdrawActions>, OnModuleInit {
  constructor(
    private readonly platforms: Platforms,
    private readonly actions: RecordedActions,
    private readonly decisions: AffectedDecisions,
    private readonly identities: IdentityReader,
    private readonly views: Views,
    private readonly kinds: JobKinds,
    private readonly lines: JobLines,
    @Inject(EVENT_STORE) private readonly store: EventStore,
    @Inject(JOBS) private readonly jobs: Jobs,
    @Inject(KEY_VALUE) private readonly keyValue: KeyValue,
  ) {}

  onModuleInit(): void {
    const scope = 'relay:write' as const;
    const lines = ({ result }: Job) => this.lines.read((result as unknown as Found).stored_decisions);
    this.kinds.add({ ...DRY_RUN, scope, shownTo, lines, result: WithdrawalDryRunDto }, (job) => this.find(job));
    this.kinds.add({ ...APPLY, scope, shownTo, result: WithdrawalAppliedDto }, (job) => this.apply(job));
  }

  /** @throws Problem forbidden, idempotency_key_reused, rate_limited; as `startApply` */
  async execute({ input: { asked, context } }: WithdrawActions): Promise<JobStartedDto> {
    refuseUnlessMayChangeSome(context.actor);
    if ('apply' in asked) return this.startApply(asked.apply, context.actor);
    const { organization, scopes } = context.actor;
    const readable = ownDecisions(context.actor);
    const decisions_of = readable === undefined ? null : { owner: readable };
    const input = { ...asked, organization, scopes: [...scopes], decisions_of };
    const { id } = await this.kinds.start(DRY_RUN, input, context);
    return { job_id: id };
  }

  /**
   * Withdraws the set of a dry run. Asked again, continues it if the queue was lost or the job failed.
   * @throws Problem job_not_found, job_not_completed, job_result_expired; withdrawals_changed if an action of
   * the set was withdrawn or reinstated since
   */
  private async startApply(dryRun: string, actor: Actor): Promise<JobStartedDto> {
    const begun = (await this.keyValue.get(begunKey(dryRun))) ?? (await this.begin(dryRun, actor));
    const input = { dry_run: dryRun, ...(begun as Begun) };
    if (!mayUse(actor, { input })) throw unknownDryRun(dryRun);
    const job_id = dryRun.replace(DRY_RUN.prefix, APPLY.prefix);
    const { status } = await this.jobs.enqueue(APPLY.kind, job_id, input, ownerOfJob({ input }));
    if (status === 'failed' || status === 'cancelled') await this.jobs.retry(APPLY.kind, job_id);
    return { job_id };
  }

  /** From now on the set does not expire before it is withdrawn. */
  private async begin(dryRun: string, actor: Actor): Promise<unknown> {
    const job = await this.jobs.get(DRY_RUN.kind, dryRun);
    if (!job || !mayUse(actor, job)) throw unknownDryRun(dryRun);
    if (job.status !== 'completed') throw new Problem('job_not_completed', `The dry run ${dryRun} is ${job.status}.`);
    const { stored, reason, actions } = job.result as unknown as Found;
    await this.refuseChanged(stored);
    const organization = job.input['organization'] as string | null;
    const kept = await this.lines.keep(stored, Date.parse(stored.until) + APPLYING_MS, ownerOfJob(job));
    const mine: Begun = { stored: kept, actions, reason, caller: actor.name, organization };
    await this.keyValue.putIfAbsent(begunKey(dryRun), mine, FOREVER_MS);
    return this.keyValue.get(begunKey(dryRun));
  }

  /** Finds the set, and what its withdrawal would change. */
  private async find({ input, signal, progress }: RunningJob): Promise<Found> {
    const { filter, reason, caller, organization, scopes, decisions_of } = input as unknown as FindInput;
    const actor = { name: caller, organization, scopes: new Set(scopes) };
    const { sets, key_digest } = await findSets(filter, actor, this.platforms, this.store, { signal, progress });
    const position = await this.store.head();
    await this.views.requirePosition(position, 'The read models have not applied all of the log yet.');
    const lines = this.lines.begin(ownerOfJob({ input }));
    for (const [tris_id, actions] of sets) {
      for (const { action_id, stream, platform_id, position: at, states } of actions) {
        const line = { action_id, tris_id, platform_id, position: formatPosition(this.store.logId, at), stream };
        lines.add({ ...line, changes: states.length });
        await lines.store();
        if (isDue()) await yieldIfDue();
      }
      signal.throwIfAborted();
    }
    const stored = await lines.end();
    const sums = { actions: 0, identities: sets.size, ratings_changed: 0, decisions: 0, decisions_differ: 0 };
    const effects: WithdrawalEffectDto[] = [];
    for (const [tris_id, actions] of sets) {
      signal.throwIfAborted();
      const effect = await this.effectOn(tris_id, actions);
      sums.actions += actions.length;
      if (effect.score_rating !== effect.score_rating_after) sums.ratings_changed++;
      effects.push(effect);
      if (effects.length > 2 * LARGEST) keepLargest(effects);
      if (!decisions_of) continue;
      for await (const page of this.decisions.of(tris_id, actions, decisions_of.owner)) {
        for (const decision of page) {
          sums.decisions++;
          if (!differs(decision)) continue;
          sums.decisions_differ++;
          lines.add(dtoOf(decision));
        }
        await lines.store();
      }
    }
    keepLargest(effects);
    return {
      reason,
      key_digest,
      ...sums,
      largest: effects,
      position: formatPosition(this.store.logId, position),
      lines_until: stored.until,
      stored,
      stored_decisions: await lines.end(),
    };
  }

  private async effectOn(tris_id: string, actions: readonly SetAction[]): Promise<WithdrawalEffectDto> {
    // With what occurs only after this hour: by nothing else an identity may be known.
    const snapshot = await this.identities.snapshot(tris_id, { now: Infinity });
    const now = standing(snapshot);
    const after = standing({ ...snapshot, state: changedBy(snapshot.state, actions, -1, snapshot.lens) });
    return {
      tris_id,
      actions: actions.length,
      score: now.score,
      score_after: after.score,
      score_rating: now.score_rating,
      score_rating_after: after.score_rating,
    };
  }

  /** Withdraws each action of the set. One that was changed since, by an earlier attempt or others, is left as it is. */
  private async apply({ input, signal, progress }: RunningJob): Promise<WithdrawalAppliedDto> {
    const { dry_run, stored, actions: total, reason, caller } = input as unknown as Begun & { dry_run: string };
    let [done, last] = [0, await this.store.head()];
    progress(done, total);
    for await (const text of await this.lines.read(stored)) {
      const actions = linesIn(text);
      await mapInParts(actions, async ({ action_id, stream, changes }) => {
        signal.throwIfAborted();
        const action = actionIn(await this.store.readStream(stream), action_id);
        if (!action) throw new JobGivenUp(`The action ${action_id} is not in its stream.`);
        if (action.changes.length !== changes) return;
        const context = jobContext(caller, dry_run, bodyHash({ action_id, to: 'withdrawn', reason }));
        const position = await this.actions.change({ action, to: 'withdrawn', reason, context });
        last = Math.max(last, position);
      });
      done += actions.length;
      progress(done, total);
    }
    return { dry_run, actions: done, position: formatPosition(this.store.logId, last) };
  }

  /** @throws Problem withdrawals_changed */
  private async refuseChanged(stored: StoredLines): Promise<void> {
    const changed: string[] = [];
    for await (const text of await this.lines.read(stored)) {
      await mapInParts(linesIn(text), async ({ action_id, stream, changes }) => {
        const action = actionIn(await this.store.readStream(stream), action_id);
        if (action?.changes.length !== changes) changed.push(action_id);
      });
    }
    if (changed.length === 0) return;
    const errors = changed.slice(0, NAMED).map((id) => {
      return { pointer: '/apply', code: 'changed', message: `${id} was withdrawn or reinstated since` };
    });
    const detail = `${changed.length} actions of the set were changed since the dry run: start another one.`;
    throw new Problem('withdrawals_changed', detail, { errors });
  }
}

/** What `find` is given. */
interface FindInput {
  filter: SetFilter;
  reason: Reason;
  caller: string;
  organization: string | null;
  scopes: Scope[];
  /** The decisions that the caller may read: those by the policies of an organization, or all; null: none. */
  decisions_of: { owner: string | null } | null;
}

/** What a dry run found, and where its lines are: those of the set, and these with the decisions that would differ. */
type Found = WithdrawalDryRunDto & { stored: StoredLines; stored_decisions: StoredLines };

/** A set that is being withdrawn, or was. A type, not an interface: it is stored as JSON. */
type Begun = { stored: StoredLines; actions: number; reason: Reason; caller: string; organization: string | null };

const unknownDryRun = (dryRun: string) => new Problem('job_not_found', `There is no dry run ${dryRun}.`);
const begunKey = (dryRun: string): string => `withdrawals:${dryRun}`;

/** Whether a caller may read and use a dry run: its organization's, its own without one, or any with `ops`. */
function mayUse({ name, organization, scopes }: Actor, { input }: Pick<Job, 'input'>): boolean {
  if (scopes.has('ops')) return true;
  // The same key has found with `ops` what it may neither see nor withdraw without.
  if ((input['scopes'] as Scope[] | undefined)?.includes('ops')) return false;
  return organization === null ? input['caller'] === name : input['organization'] === organization;
}

/** What a caller may see of a job: of a dry run, decisions that would differ only if it may read them. */
async function shownTo(actor: Actor, job: Job): Promise<Job | undefined> {
  if (!mayUse(actor, job)) return undefined;
  const own = ownDecisions(actor);
  const of = job.input['decisions_of'] as FindInput['decisions_of'];
  if (!job.result || !of || own === null || own === of.owner) return job;
  const found = job.result as unknown as Found;
  return { ...job, result: { ...found, stored_decisions: found.stored } as unknown as Json };
}

function linesIn(text: string): SetLine[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as SetLine);
}

function keepLargest(effects: WithdrawalEffectDto[]): void {
  const size = ({ score, score_after }: WithdrawalEffectDto) => Math.abs(score - score_after);
  effects.sort((a, b) => size(b) - size(a)).splice(LARGEST);
}
