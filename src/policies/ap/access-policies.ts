import { Inject, Injectable } from '@nestjs/common';
import { EVENT_STORE, type EventStore } from '../../event-store/event-store.js';
import { Problem } from '../../problems.js';
import { AP_ID, type AccessPolicy, accessPolicyOf, accessPolicyStream } from './ap.js';
import { type Evaluator, compile } from './evaluate.js';
import { type Rule, parseRules } from './rules.js';

/** What is kept compiled at most; a policy of 64 nodes takes about 20 kB. */
const CACHED = 1_000;

/** Rules ready to judge by. */
export interface CompiledRules {
  rule: Rule;
  evaluate: Evaluator;
}

/** Access policies by id, each from its own stream, so never behind; and their rules, compiled once. */
@Injectable()
export class AccessPolicies {
  private readonly compiled = new Map<string, CompiledRules>();

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** @throws Problem policy_not_found */
  async get(policyId: string): Promise<AccessPolicy> {
    const history = AP_ID.test(policyId) ? await this.store.readStream(accessPolicyStream(policyId)) : [];
    const policy = accessPolicyOf(history);
    if (!policy) throw unknownAccessPolicy(policyId);
    return policy;
  }

  /** @throws Error if the stored rules are none, which a later build's could be */
  rulesOf({ policy_id, content_hash, rules }: AccessPolicy): CompiledRules {
    const known = this.compiled.get(content_hash);
    if (known) return known;
    const parsed = parseRules(rules);
    if ('errors' in parsed) throw new Error(`the rules of ${policy_id} are not readable: ${parsed.errors[0]?.message}`);
    const compiled = { rule: parsed.rule, evaluate: compile(parsed.rule) };
    if (this.compiled.size >= CACHED) this.compiled.delete(this.compiled.keys().next().value!);
    this.compiled.set(content_hash, compiled);
    return compiled;
  }
}

function unknownAccessPolicy(policyId: string): Problem {
  return new Problem('policy_not_found', `There is no access policy ${policyId}.`);
}
