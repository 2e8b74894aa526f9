import { type IdentityState, evolve, newIdentity } from '../../../projections/identities.js';
import { type IdentityEvent, subjectOf } from '../../../projections/identity-events.js';
import type { Position } from '../../kernel/event.js';
import type { EventStore } from '../../stores/ports/event-store.js';
import { type EventOf, decodeEvent } from '../../../projections/events.js';
import { countsAsOf } from '../disc/evidence-reader.js';
import { canonicalJson } from '../../kernel/hash.js';
import { Problem } from '../../kernel/problems.js';
import { MODEL_LENS } from '../../scoring/lens.js';
import { modelOrFirst, scoringBy } from '../../scoring/models/all.js';
import { Lenses } from '../lenses/lenses.js';
import { AccessPolicies } from './access-policies.js';
import { coordinatesOf } from './affected-decisions.js';
import { judge } from './access-check.js';
import type { DecisionDto } from './decisions.dto.js';
import { accessStream, checkedAt } from './domain/decision.js';
import { type Accreditation, evolve as evolveAccreditation, isTrusted } from '../identity/domain/accreditation.js';
import type { Verification } from '../identity/domain/identity.js';
import { SubjectFacts } from './facts.js';

/** A recorded decision, and how it differs from the one derived again from the log. */
export interface Audited extends Pick<DecisionDto, 'jti' | 'checked_at' | 'policy_id' | 'granted' | 'score'> {
  /** Position of the record in the log. */
  position: Position;
  /** Each is `<what>: recorded …, derived …`. */
  differences: string[];
}

/**
 * Derives all recorded decisions about a subject again, in log order, from the log alone: from the subject's events up
 * to the position and time of the decision, its lens and its policy. For a decision that was recorded in another log,
 * whose positions mean nothing here, it uses the events that precede the record.
 * @param onProgress number of events read, and number of events when the audit began
 * @throws NewerSchema
 */
export async function* audit(
  store: EventStore,
  subject: string,
  onProgress: (done: number, total: number) => void = () => undefined,
): AsyncIterable<Audited> {
  const policies = new AccessPolicies(store);
  const lenses = new Lenses(store);
  const events: IdentityEvent[] = [];
  const issuers = new Map<string, Accreditation>();
  const total = await store.countAfter(0);
  let done = 0;
  for await (const slice of store.readAll(0)) {
    for (const recorded of slice) {
      const { tris_id, tris_org, subject_tris } = recorded.data;
      // Most events name another identity and need not be decoded.
      if ([tris_id, tris_org, subject_tris].some((named) => typeof named === 'string' && named !== subject)) continue;
      const event = decodeEvent(recorded);
      if (event.type === 'IssuerAccredited' || event.type === 'AccreditationWithdrawn') {
        issuers.set(event.data.issuer, evolveAccreditation(issuers.get(event.data.issuer), event));
      }
      const about = subjectOf(event);
      if (about?.tris_id === subject) events.push(about.event);
      if (event.type === 'AccessChecked') {
        const { position: at, as_of } = coordinatesOf(event, store.logId);
        const trusts = (held: Verification) => event.data.trust === 1 || isTrusted(held, issuers.get(held.issuer), at);
        yield await derive(event, stateAt(events, at, as_of), trusts, policies, lenses);
      }
      if (event.type === 'Undecodable' && subject_tris === subject) yield unreadable(event);
    }
    done += slice.length;
    onProgress(done, total);
  }
}

async function derive(
  { data, position, occurred_at }: EventOf<'AccessChecked'>,
  state: IdentityState | null,
  trusts: (held: Verification) => boolean,
  policies: AccessPolicies,
  lenses: Lenses,
): Promise<Audited> {
  const { jti, policy_id, granted, score, as_of } = data;
  const checked_at = new Date(checkedAt(data, occurred_at)).toISOString();
  const audited: Audited = { jti, position, checked_at, policy_id, granted, score, differences: [] };
  const compare = (what: string, recorded: unknown, derived: unknown) => {
    const [before, now] = [canonicalJson(recorded), canonicalJson(derived)];
    if (before !== now) audited.differences.push(`${what}: recorded ${before}, derived ${now}`);
  };
  const model = modelOrFirst(data.model_hash);
  compare('model', data.model_hash, model.hash);
  try {
    const policy = await policies.get(policy_id);
    compare('policy', data.policy_hash, policy.content_hash);
    const rule = policies.rulesOf(policy);
    const lens = data.lens_policy_id === null ? MODEL_LENS : await lenses.of(data.lens_policy_id);
    compare('lens', data.lens_hash, state && lens.content_hash);
    const facts = state && new SubjectFacts(state, scoringBy(lens, model), Date.parse(as_of), trusts);
    const judgement = judge(rule, facts, model, data.advice);
    compare('granted', granted, judgement.granted);
    compare('score', score, judgement.score);
    compare('reasons', data.reasons, judgement.reasons);
    compare('how_to_pass', data.how_to_pass, judgement.how_to_pass);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    audited.differences.push(error.message);
  }
  return audited;
}

function unreadable({ data, stream, position, recorded_at }: EventOf<'Undecodable'>): Audited {
  const jti = stream.slice(accessStream('').length);
  const checked_at = new Date(recorded_at).toISOString();
  const differences = [`the record cannot be decoded: ${data.reason}`];
  return { jti, position, checked_at, policy_id: '', granted: false, score: null, differences };
}

/** What events of a subject make of it at a position and a time, ms. @returns null if it was unknown */
function stateAt(events: readonly IdentityEvent[], at: Position, as_of: number): IdentityState | null {
  const state = newIdentity();
  for (const event of events) {
    if (event.position > at) break;
    if (countsAsOf(event, { as_of, isPresent: true })) evolve(state, event);
  }
  return state.changed === 0 ? null : state;
}
