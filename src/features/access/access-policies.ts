import { Inject, Injectable } from '@nestjs/common';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import { BoundedMap } from '../../kernel/bounded-map.js';
import { Problem, unauthorized } from '../../kernel/problems.js';
import { SharedLookUps } from '../../kernel/turn.js';
import {
  AP_ID,
  type AccessPolicy,
  type Reader,
  accessPolicyOf,
  accessPolicyStream,
  mayReadRules,
} from './domain/access-policy.js';
import { type Rule, parseRules } from './rules.js';

/** Policies and parsed rules kept in memory at most; rules of 64 nodes take about 20 kB. */
const CACHED = 1_000;

/** Access policies by id, each read from its own stream, so always current; and their rules, parsed once. */
@Injectable()
export class AccessPolicies {
  private readonly active = new BoundedMap<string, AccessPolicy>(CACHED);
  private readonly lookUps = new SharedLookUps<AccessPolicy>();
  private readonly parsed = new BoundedMap<string, Rule>(CACHED);

  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** @throws Problem policy_not_found, history_unreadable */
  async get(policyId: string): Promise<AccessPolicy> {
    return this.lookUps.of(policyId, async () => {
      const stream = accessPolicyStream(policyId);
      const known = this.active.get(policyId);
      // The content never changes, but the policy may have been retired since.
      if (known && (await this.store.readStream(stream, { from: 1, limit: 1 })).length === 0) return known;
      const policy = AP_ID.test(policyId) ? accessPolicyOf(await this.store.readStream(stream)) : undefined;
      if (!policy) throw new Problem('policy_not_found', `There is no access policy ${policyId}.`);
      if (policy.retired) this.active.delete(policyId);
      else this.active.set(policyId, policy);
      return policy;
    });
  }

  /**
   * A policy whose rules the caller may read.
   * @param caller null: without a credential
   * @throws Problem as `get`; unauthorized, forbidden
   */
  async readable(policyId: string, caller: Reader | null): Promise<AccessPolicy> {
    const policy = await this.get(policyId);
    if (mayReadRules(policy, caller)) return policy;
    const detail = `The rules of ${policyId} are private: they need a key of its owner, or a key with the scope "ops".`;
    throw caller === null ? unauthorized(false, detail) : new Problem('forbidden', detail);
  }

  /** @throws Problem newer_schema if this build does not know the stored rules: a later one wrote them */
  rulesOf({ policy_id, content_hash, rules }: AccessPolicy): Rule {
    const known = this.parsed.get(content_hash);
    if (known) return known;
    const parsed = parseRules(rules);
    if ('errors' in parsed) {
      const why = parsed.errors[0]?.message ?? '';
      throw new Problem('newer_schema', `The rules of ${policy_id} are not those of this build: ${why}.`);
    }
    this.parsed.set(content_hash, parsed.rule);
    return parsed.rule;
  }
}
