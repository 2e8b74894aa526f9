import { Inject } from '@nestjs/common';
import { type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { QueryWith } from '../../commands/messages.js';
import { CLOCK, type Clock } from '../../kernel/clock.js';
import { formatPosition } from '../../kernel/positions.js';
import { isDue, yieldIfDue } from '../../kernel/turn.js';
import { IdentityReader } from '../disc/identity-reader.js';
import { Lenses } from '../lenses/lenses.js';
import { judge } from './access-check.js';
import type { DryRunDto, DryRunResultDto, EvaluateRulesDto } from './ap.dto.js';
import { outcomesOf } from './evaluate.js';
import { codesOf } from './notice.js';
import { validRules } from './rules.js';
import { observe } from './subjects.js';

/** Evaluates the rules of an access policy that need not exist, for some subjects. Records nothing, issues no token. */
export class EvaluateRules extends QueryWith<
  /** `organization`: the one that would own the policy; null: the platform's operators. */
  EvaluateRulesDto & { organization: string | null },
  DryRunDto
> {}

@QueryHandler(EvaluateRules)
export class EvaluateRulesHandler implements IQueryHandler<EvaluateRules> {
  constructor(
    private readonly identities: IdentityReader,
    private readonly lenses: Lenses,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * @throws Problem validation_failed for the rules, policy_not_found for the VP, identity_not_found if a subject is
   * misspelled, projection_rebuilding
   */
  async execute({ input: { rules, vp, subjects, organization } }: EvaluateRules): Promise<DryRunDto> {
    const rule = validRules(rules);
    const policy = { vp: vp ?? null, owner: organization };
    if (policy.vp !== null) await this.lenses.of(policy.vp);
    const observations = await observe(subjects, policy, this.identities, this.clock());
    const results: DryRunResultDto[] = [];
    for (const [i, observation] of observations.entries()) {
      const { seen, model, as_of } = observation;
      const judgement = judge(rule, seen?.facts ?? null, model);
      results.push({
        subject_tris: subjects[i]!,
        ...judgement,
        codes: codesOf(judgement, observation),
        nodes: outcomesOf(rule, seen?.facts ?? null),
        as_of: new Date(as_of).toISOString(),
      });
      if (isDue()) await yieldIfDue();
    }
    const known = observations.find(({ seen }) => seen !== null) ?? observations[0]!;
    const { id, hash } = known.model;
    const lens = known.seen && { policy_id: known.seen.lens.policy_id, content_hash: known.seen.lens.content_hash };
    return { results, lens, model: { id, hash }, position: formatPosition(this.identities.logId, known.position) };
  }
}
