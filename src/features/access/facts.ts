import { type IdentityState, isIncomplete, newIdentity } from '../../../projections/identities.js';
import { healthOf } from '../../scoring/health.js';
import { MODEL_LENS, counts } from '../../scoring/lens.js';
import { type Category, MODEL, type Rating } from '../../scoring/model.js';
import { type Scoring, scoringBy } from '../../scoring/models/all.js';
import type { Assessment, ScoringModel } from '../../scoring/models/scoring-model.js';
import { netTct, ratingOf, scoreOf } from '../../scoring/score.js';
import type { Verification } from '../identity/domain/identity.js';
import type { Condition, Status } from './rules.js';

/** The measured inputs of rules. null means unknown: without evidence there is no value, not even a low one. */
export interface Measured {
  /** An event about the identity could not be decoded and has not been acknowledged, so that everything is unknown. */
  incomplete: boolean;
  /** Earned minus forfeited TCT, a whole number. */
  net_tct: number;
  /** Number of actions of any metric. */
  actions: number;
  /** Explicit BAD level 1..6, which overrides the score; null: none. */
  bad_level: number | null;
  /** 0..1; null without any evidence that counts under the lens, and from disc-2 on while evidence is below 1. */
  reliability: number | null;
  /** How much evidence reliability rests on; null or absent in versions of the model that do not say. */
  evidence?: number | null;
  /** 0..1 by category; null without evidence in it. */
  health: (category: Category) => number | null;
  /** Verification statuses that are not expired and count for a policy that names no issuer. */
  verified: ReadonlySet<string>;
  /** All verifications that have not expired, for policies that name issuers or schemes. Default: none. */
  grants?: readonly Pick<Verification, 'status' | 'issuer' | 'scheme'>[];
}

/** The measured values and those derived from them. */
export interface Facts extends Measured {
  score: number;
  score_rating: Rating;
  total_tct: number;
  holds: Record<Status, boolean>;
}

export function factsFrom(measured: Measured): Facts {
  const { net_tct, actions, bad_level, verified } = measured;
  const score = bad_level ?? scoreOf(net_tct);
  return {
    ...measured,
    score,
    score_rating: ratingOf(score),
    total_tct: Math.max(0, net_tct),
    holds: holdsOf(verified, actions, bad_level, score),
  };
}

const WITHOUT_EVIDENCE = new Map<ScoringModel, Facts>();

/** The facts of an identity that is known but has no evidence, as a version of the model measures them, once for all. */
export function factsWithoutEvidence(model: ScoringModel): Facts {
  let facts = WITHOUT_EVIDENCE.get(model);
  if (!facts) {
    facts = new SubjectFacts(newIdentity(), scoringBy(MODEL_LENS, model), 0, () => false);
    WITHOUT_EVIDENCE.set(model, facts);
  }
  return facts;
}

/** Whether the subject holds a verification as a condition requires it: an accredited one, or one by whom it names. */
export function isVerified(facts: Facts, { status, issuers, schemes }: Condition & { rule: 'verification' }): boolean {
  if (!issuers && !schemes) return facts.holds[status];
  return (facts.grants ?? []).some(
    (held) =>
      held.status === status && (issuers?.includes(held.issuer) ?? true) && (schemes?.includes(held.scheme) ?? true),
  );
}

function holdsOf(verified: ReadonlySet<string>, actions: number, badLevel: number | null, score: number) {
  return {
    'zk-KYH': verified.has('zk-KYH'),
    'zk-KYC (ID only)': verified.has('zk-KYC (ID only)'),
    'zk-KYC (ID + AML)': verified.has('zk-KYC (ID + AML)'),
    'BAD Status validation': actions > 0 && badLevel === null && score > MODEL.bad_level,
  };
}

/** The facts of an identity under a lens. Each is measured when a rule first uses it, since most rules use few. */
export class SubjectFacts implements Facts {
  readonly incomplete: boolean;
  readonly actions: number;
  readonly bad_level: number | null;
  private readonly measured: Partial<Pick<Facts, 'net_tct' | 'score' | 'reliability' | 'holds'>> = {};
  private assessment: Assessment | undefined;
  private readonly healths = new Map<Category, number | null>();

  /**
   * @param asOf ms: verifications that have expired by then do not count
   * @param trusts whether a verification counts for a policy that names no issuer
   */
  constructor(
    private readonly state: IdentityState,
    private readonly lens: Scoring,
    private readonly asOf: number,
    private readonly trusts: (held: Verification) => boolean,
  ) {
    this.incomplete = isIncomplete(state);
    this.actions = state.actions;
    this.bad_level = state.bad_status?.level ?? null;
  }

  get net_tct(): number {
    return (this.measured.net_tct ??= netTct(this.lens.model.ledger(this.state.evidence, this.lens)));
  }
  get score(): number {
    return (this.measured.score ??= this.bad_level ?? scoreOf(this.net_tct));
  }
  get score_rating(): Rating {
    return ratingOf(this.score);
  }
  get total_tct(): number {
    return Math.max(0, this.net_tct);
  }
  get evidence(): number | null {
    return this.assessed.evidence?.amount ?? null;
  }
  private get assessed(): Assessment {
    return (this.assessment ??= this.lens.model.assess(this.state.evidence, this.lens, this.asOf));
  }
  get reliability(): number | null {
    // Not `??=`, which would measure null again.
    if (this.measured.reliability === undefined) {
      // Flags are evidence too.
      const hasEvidence = Object.keys(this.state.evidence).some((metric) => counts(this.lens, metric));
      const isKnown = hasEvidence && (this.evidence ?? 1) >= 1;
      this.measured.reliability = isKnown ? this.assessed.reliability : null;
    }
    return this.measured.reliability;
  }
  readonly health = (category: Category): number | null => {
    let health = this.healths.get(category);
    if (health === undefined) {
      health = healthOf(this.state.evidence, category, this.lens, this.asOf);
      this.healths.set(category, health);
    }
    return health;
  };
  get verified(): ReadonlySet<string> {
    return new Set(this.grants.filter(this.trusts).map(({ status }) => status));
  }
  get grants(): readonly Verification[] {
    return this.state.verifications.filter(
      ({ expires_at }) => expires_at === null || Date.parse(expires_at) > this.asOf,
    );
  }
  get holds(): Facts['holds'] {
    return (this.measured.holds ??= holdsOf(this.verified, this.actions, this.bad_level, this.score));
  }
}
