import { type Actor, ownerOfTurns, refuseUnlessAccepted } from '../../commands/context.js';
import { QueryWith } from '../../commands/messages.js';
import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import type { IdentityState } from '../../../projections/identities.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { endOfHour } from '../disc/coordinates.js';
import { yieldIfDue } from '../../kernel/turn.js';
import { Turns } from '../../kernel/turns.js';
import { IdentityReader, lackingMore } from '../disc/identity-reader.js';
import { Problem, problemMembers } from '../../kernel/problems.js';
import { round } from '../../scoring/exact.js';
import { categoryHealth } from '../../scoring/health.js';
import type { Lens } from '../../scoring/lens.js';
import { MODEL } from '../../scoring/model.js';
import { type Scoring, scoringBy } from '../../scoring/models/all.js';
import type { ModelId } from '../../scoring/models/scoring-model.js';
import { standingOf } from '../../scoring/score.js';
import { AccessProbes } from '../access/access-probes.js';
import { Summarizer } from './comparison.js';
import { reasonsOf } from './reasons.js';
import { lensOwner } from '../lenses/domain/lens-stream.js';
import { type Proposal, Replays, lensesOf } from './replays.js';
import { Lenses } from '../lenses/lenses.js';
import type { LensScope } from '../lenses/domain/lenses.events.js';
import type { EvaluatedSubjectDto, EvaluationDto, PreviewDto, ReasonDto, ReplayResultDto } from './vp.dto.js';
import { refuseUnlessOwner } from './permissions.js';
import { type PolicyContent, contentHash, lensOf, refuseUnsound } from '../lenses/domain/validation-policy.js';

/** Previews over all identities that may wait for their turn, each of another organization or key. */
const MAX_WAITING = 8;

/** Previews the effect of a policy on some identities or on all. Writes nothing. */
export class EvaluatePolicy extends QueryWith<
  {
    /** The id of a stored policy, or the content of one that need not be stored. */
    policy: string | PolicyContent;
    scope: LensScope;
    subjects: readonly string[] | undefined;
    accessPolicies: readonly string[];
    actor: Actor;
    signal: AbortSignal;
    /** Version of the model for both sides. Default: the platform's. */
    model?: ModelId;
  },
  EvaluationDto
> {}

@QueryHandler(EvaluatePolicy)
export class EvaluatePolicyHandler implements IQueryHandler<EvaluatePolicy> {
  private readonly passes = new Turns(1, 1);

  constructor(
    private readonly identities: IdentityReader,
    private readonly lenses: Lenses,
    private readonly replays: Replays,
    private readonly access: AccessProbes,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * @throws Problem policy_not_found, forbidden, weight_criticality_mismatch, duplicate_metric,
   * total_weight_out_of_range, preview_busy, projection_rebuilding
   */
  async execute({ input }: EvaluatePolicy): Promise<EvaluationDto> {
    const { policy, scope, subjects, accessPolicies, actor, signal, model } = input;
    const content = typeof policy === 'string' ? await this.lenses.policy(policy) : policy;
    refuseUnlessOwner(actor, content.tris_org);
    if (typeof policy !== 'string') refuseUnsound(content, '/policy');
    const { policy_id, tris_org } = content;
    const lens = lensOf({ ...content, content_hash: contentHash(content) });
    const proposal = { lens, owner: lensOwner(scope, tris_org), model, reader: actor };
    const compared =
      subjects === undefined
        ? { ...(await this.everyone(actor, proposal, accessPolicies, signal)), results: [] }
        : await this.evaluate(subjects, proposal, accessPolicies);
    const { results, before, after: _, position, generation, as_of, ...summary } = compared;
    return {
      policy_id,
      content_hash: lens.content_hash,
      evaluated_at: new Date(this.clock()).toISOString(),
      lens: { policy_id: before.policy_id, content_hash: before.content_hash },
      model: before.model,
      as_of,
      position,
      generation,
      results,
      summary,
    };
  }

  /** One pass at a time in this process, since each takes as long as a replay. Callers take turns. */
  private async everyone(actor: Actor, ...pass: Parameters<Replays['compare']>): Promise<ReplayResultDto> {
    const owner = ownerOfTurns(actor);
    if (this.passes.countOf(owner) > 0 || this.passes.waiting.size >= MAX_WAITING) {
      const detail =
        'Other previews over all identities are running. Send it again later, or start a replay, which is queued.';
      throw new Problem('preview_busy', detail, { headers: { 'retry-after': '5' } });
    }
    return this.passes.run(owner, () => {
      refuseUnlessAccepted(actor);
      return this.replays.compare(...pass);
    });
  }

  private async evaluate(
    subjects: readonly string[],
    { lens, owner, model, reader }: Proposal & { lens: Lens },
    accessPolicies: readonly string[],
  ): Promise<ReplayResultDto & { results: EvaluatedSubjectDto[] }> {
    const probes = await this.access.probes(owner, accessPolicies, reader);
    // As of any time, as the summary of all identities.
    const coordinates = { organization: owner.tris_org, model, as_of: Infinity };
    const { readers, lens: before, unattributed, ...read } = await this.identities.find(subjects, coordinates);
    const after = scoringBy(lens, before.model);
    const now = this.clock();
    const as_of = endOfHour(now);
    const fold = new Summarizer(before, after, probes, now);
    const lenses = lensesOf(before, after, probes);
    const results: EvaluatedSubjectDto[] = [];
    for (const [i, reader] of readers.entries()) {
      if (reader instanceof Problem) {
        results.push({ tris_id: subjects[i]!, ...NOTHING, problem: problemMembers(reader) });
        continue;
      }
      const { tris_id } = reader;
      const state = lackingMore(await reader.state(lenses), unattributed);
      const reasons = await reasonsOf(reader, state, before, after);
      await yieldIfDue();
      fold.add(tris_id, state, () => Promise.resolve(reasons));
      await yieldIfDue();
      results.push(await changeOf(tris_id, state, reasons, fold, as_of));
    }
    return { ...(await this.replays.resultOf(fold, read, as_of)), results };
  }
}

/** What is said of an unknown identity. */
const NOTHING = { current: null, projected: null, delta: null, rating_change: null, reasons: [], access: [] };

/** @param asOf for the evidence, ms */
async function changeOf(
  tris_id: string,
  state: IdentityState,
  reasons: readonly ReasonDto[],
  { comparison, probes, now }: Summarizer,
  asOf: number,
): Promise<EvaluatedSubjectDto> {
  const { lensBefore: before, lensAfter: after } = comparison;
  const current = await preview(state, before, asOf);
  const projected = await preview(state, after, asOf);
  const access: EvaluatedSubjectDto['access'] = [];
  for (const probe of probes) {
    const grants = { before: probe.grants(state, before, now), after: probe.grants(state, after, now) };
    access.push({ policy_id: probe.policy_id, ...grants });
    await yieldIfDue();
  }
  const metrics: Record<string, number> = {};
  for (const category of MODEL.categories) {
    metrics[category] = round(projected.disc_metrics[category] - current.disc_metrics[category], 4);
  }
  const total_tct = projected.total_tct - current.total_tct;
  const delta = { score: round(projected.score - current.score, 1), total_tct, metrics };
  const [from, to] = [current.score_rating, projected.score_rating];
  const rating_change = from === to ? null : { from, to };
  return { tris_id, current, projected, delta, rating_change, reasons: [...reasons], access };
}

async function preview({ evidence, bad_status }: IdentityState, lens: Scoring, asOf: number): Promise<PreviewDto> {
  const { model } = lens;
  const { score, score_rating, total_tct } = standingOf(model.ledger(evidence, lens), bad_status?.level ?? null);
  await yieldIfDue();
  const assessed = model.assess(evidence, lens, asOf);
  await yieldIfDue();
  const disc_metrics = categoryHealth(evidence, lens, asOf);
  await yieldIfDue();
  return { score, score_rating, total_tct, ...(assessed.evidence && assessed), disc_metrics };
}
