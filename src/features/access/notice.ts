import { Problem } from '../../kernel/problems.js';
import { counts } from '../../scoring/lens.js';
import { isFlags } from '../../scoring/names.js';
import { netTct, scoreOf } from '../../scoring/score.js';
import { modelOrFirst } from '../../scoring/models/all.js';
import type { ScoringModel } from '../../scoring/models/scoring-model.js';
import type { IdentityReader, IdentitySnapshot } from '../disc/identity-reader.js';
import type { Verification } from '../identity/domain/identity.js';
import type { Judgement, Observation } from './access-check.js';
import type { AccessReasonDto, FactChangeDto } from './ap.dto.js';
import { type DecisionEvent, subjectThen } from './affected-decisions.js';
import type { RecordedDecision } from './domain/decision.js';
import { priceOf } from './how-to-pass.js';
import type { NoticeReasonDto } from './notice.dto.js';

/** The codes of reasons, and what each says. They never change their meaning. */
export const NOTICE_CODES = {
  score_below_minimum: 'the score is below the minimum',
  tct_below_minimum: 'the net TCT is below the minimum',
  negative_evidence_recent: 'without negative evidence, the last of it at most 90 days old, the score would be enough',
  negative_evidence_severe: 'without negative evidence, all of it older than 90 days, the score would be enough',
  reliability_below_minimum: 'the reliability is below the minimum',
  evidence_not_enough: 'there is too little evidence',
  evidence_old: 'there is too little evidence, and none from the last 365 days',
  category_below_minimum: 'the health of a category is below the minimum',
  category_without_evidence: 'there is no evidence in a category',
  verification_missing: 'a verification is missing',
  verification_expired: 'a verification has expired',
  verification_issuer_not_accepted: 'a verification is held, but the policy does not accept its issuer or its scheme',
  bad_status: 'a BAD status is set',
  identity_unknown: 'nothing is known of the identity',
  record_incomplete: 'an event about the identity cannot be read',
  above_maximum: 'a value is higher than the policy allows, or a status is held that it excludes',
} as const;
export type NoticeCode = keyof typeof NOTICE_CODES;

const DAY_MS = 86_400_000;
const RECENT_MS = 90 * DAY_MS;
const OLD_MS = 365 * DAY_MS;
/** The most reasons in a notice. */
const MOST = 4;

/** What was known of a subject when it was checked, from which the causes follow. Times in ms. */
export interface Causes {
  as_of: number;
  /** TCT that negative evidence takes away. */
  forfeited: number;
  /** When the last negative evidence, and the last evidence of any kind, occurred; -Infinity without any. */
  last_negative: number;
  last: number;
  /** All that are not revoked, expired ones included. */
  verifications: readonly Pick<Verification, 'status' | 'expires_at'>[];
}

/** What was known of a subject: see `Observation`. */
export type Known = Pick<Observation, 'as_of' | 'model'> & { seen: Pick<IdentitySnapshot, 'state' | 'lens'> | null };

/** What was known of the subject of a recorded decision then. @param vp as of `subjectThen` */
export async function knownThen(
  event: DecisionEvent,
  identities: IdentityReader,
  vp?: string,
): Promise<Known & { seen: IdentitySnapshot | null }> {
  const known = { as_of: Date.parse(event.data.as_of), model: modelOrFirst(event.data.model_hash) };
  try {
    return { ...known, seen: await subjectThen(event, identities, vp) };
  } catch (error) {
    if (error instanceof Problem && error.code === 'identity_not_found') return { ...known, seen: null };
    throw error;
  }
}

/** The principal reasons of a recorded decision, by what was known then; none if access was granted. See `noticeReasons`. */
export async function reasonsOf(
  event: RecordedDecision['event'],
  identities: IdentityReader,
  showsRules: boolean,
): Promise<NoticeReasonDto[]> {
  if (event.data.granted) return [];
  return reasonsBy(event.data as unknown as Denial, await knownThen(event, identities), showsRules);
}

/** The codes of the principal reasons; none if access was granted. */
export function codesOf(denial: Denial, known: Known): NoticeCode[] {
  return reasonsBy(denial, known, false).map(({ code }) => code);
}

function reasonsBy(denial: Denial, known: Known, showsRules: boolean): NoticeReasonDto[] {
  // They take time, and only advice needs them.
  const causes = denial.how_to_pass.length > 0 ? causesOf(known) : null;
  return noticeReasons(denial, known.model, causes, showsRules);
}

function causesOf({ as_of, seen }: Known): Causes | null {
  if (!seen) return null;
  const { state, lens } = seen;
  const ledger = lens.model.ledger(state.evidence, lens);
  const lasts = Object.entries(state.evidence).filter(([metric]) => counts(lens, metric));
  const latest = (of: typeof lasts) => of.reduce((last, [, row]) => Math.max(last, row.last), -Infinity);
  return {
    as_of,
    forfeited: ledger.earned - netTct(ledger),
    last_negative: latest(lasts.filter(([metric]) => isFlags(metric))),
    last: latest(lasts),
    verifications: state.verifications,
  };
}

type Denial = Pick<Judgement, 'score' | 'reasons' | 'how_to_pass'>;

/**
 * The principal reasons of a denial: one for each change of `how_to_pass`, the most expensive first. If no changes would
 * pass, one for each kind of rule that denied.
 * @param causes null: nothing was known of the subject
 * @param showsRules whether the reader may read the rules
 */
export function noticeReasons(
  denial: Denial,
  model: ScoringModel,
  causes: Causes | null,
  showsRules: boolean,
): NoticeReasonDto[] {
  const changes = denial.how_to_pass.toSorted((a, b) => priceOf(b, model) - priceOf(a, model));
  const found = changes.length > 0 ? changes.map((change) => ofChange(change, denial, causes)) : withoutChange(denial);
  return found.slice(0, MOST).map(({ limit, required, ...reason }) => ({
    ...reason,
    ...(showsRules && { required }),
    sentence: `${reason.sentence}${showsRules && limit !== '' ? ` The policy asks for ${limit}.` : ''}`,
  }));
}

type Found = Required<NoticeReasonDto> & { limit: string };

function ofChange(change: FactChangeDto, { score }: Denial, causes: Causes | null): Found {
  const { fact, required, actual } = change;
  const code = codeOf(change, causes);
  const [, name = fact] = fact.split(/\.(.*)/);
  const own = actual ?? 'none';
  const found = (what: string, limit = ''): Found => {
    return { code, fact, actual, required, sentence: `${saying(code)}: ${what}.`, limit };
  };
  if (fact === 'net_tct') {
    const limit = `a net TCT of at least ${required}, which is a score of ${scoreOf(Number(required))}`;
    return found(`the score was ${score ?? 'none'}, the net TCT ${own}`, limit);
  }
  if (fact.startsWith('verification.')) {
    const by = [...(change.issuers ?? []), ...(change.schemes ?? [])].join(' or ');
    return found(name, by && `${name} by ${by}`);
  }
  if (fact === 'bad_status') return found(`level ${own}`);
  return found(`${name} was ${own}`, `at least ${required}`);
}

function codeOf(
  { fact, required, actual, below = Infinity, pointers }: FactChangeDto,
  causes: Causes | null,
): NoticeCode {
  const tooLittle =
    causes && causes.last < causes.as_of - OLD_MS && causes.last > 0 ? 'evidence_old' : 'evidence_not_enough';
  if (fact === 'bad_status') return 'bad_status';
  if (fact === 'actions') return 'identity_unknown';
  if (fact === 'evidence') return tooLittle;
  if (fact === 'reliability') return actual === null ? tooLittle : 'reliability_below_minimum';
  if (fact.startsWith('health.')) return actual === null ? 'category_without_evidence' : 'category_below_minimum';
  if (fact === 'net_tct') {
    const without = Number(actual) + (causes?.forfeited ?? 0);
    if (causes && causes.forfeited > 0 && without >= Number(required) && without < below) {
      return causes.last_negative >= causes.as_of - RECENT_MS ? 'negative_evidence_recent' : 'negative_evidence_severe';
    }
    return pointers.every((pointer) => pointer.endsWith('/tct_min')) ? 'tct_below_minimum' : 'score_below_minimum';
  }
  const held = causes?.verifications.filter(({ status }) => fact === `verification.${status}`) ?? [];
  if (held.length === 0) return 'verification_missing';
  const isExpired = held.every(({ expires_at }) => expires_at !== null && Date.parse(expires_at) <= causes!.as_of);
  return isExpired ? 'verification_expired' : 'verification_issuer_not_accepted';
}

const BY_RULE: Partial<Record<AccessReasonDto['rule'], NoticeCode>> = {
  disc_min: 'score_below_minimum',
  rating_min: 'score_below_minimum',
  tct_min: 'tct_below_minimum',
  reliability_min: 'reliability_below_minimum',
  evidence_min: 'evidence_not_enough',
  metrics: 'category_below_minimum',
  verification: 'verification_missing',
  not: 'above_maximum',
};

function withoutChange({ reasons }: Denial): Found[] {
  const byCode = new Map<NoticeCode, Found>();
  for (const { rule, required, actual } of reasons) {
    const unreadable = required === 'complete' ? 'record_incomplete' : 'identity_unknown';
    const code = rule === 'identity' ? unreadable : BY_RULE[rule];
    if (code === undefined || byCode.has(code)) continue;
    const own = rule === 'identity' || rule === 'not' ? '' : `: the value was ${actual ?? 'none'}`;
    byCode.set(code, { code, fact: null, actual, required, sentence: `${saying(code)}${own}.`, limit: '' });
  }
  return [...byCode.values()];
}

const saying = (code: NoticeCode): string => NOTICE_CODES[code].replace(/^./, (first) => first.toUpperCase());
