import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { ACCESS_POLICIES, type AccessPolicyRow, accessPoliciesOf } from '../../../projections/access-policies.js';
import type { RecordedEvent } from '../../kernel/event.js';
import type { CommandContext, Created, Recorded } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { refuseMisspelled } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { PolicyNames } from '../policy-names/policy-names.js';
import { Lenses } from '../lenses/lenses.js';
import { AccessPolicies } from './access-policies.js';
import type {
  AccessPoliciesDto,
  AccessPolicyDto,
  AccessPolicyParams,
  PoliciesQuery,
  RetiredAccessPolicyDto,
} from './ap.dto.js';
import {
  AP_ID,
  type AccessPolicy,
  type AccessPolicyContent,
  type Reader,
  accessPolicyOf,
  accessPolicyStream,
  decideCreate,
  decideRetire,
  mayReadRules,
} from './domain/access-policy.js';

/** Creates an access policy, which can never be changed. Its rules have already been validated. */
export class CreateAccessPolicy extends CommandWith<
  { content: AccessPolicyContent; context: CommandContext },
  Created<AccessPolicyDto>
> {}

const ACCESS_POLICY = {
  streamOf: accessPolicyStream,
  ownerIn: (history: readonly RecordedEvent[]) => accessPolicyOf(history)?.owner,
};

@CommandHandler(CreateAccessPolicy)
export class CreateAccessPolicyHandler implements ICommandHandler<CreateAccessPolicy> {
  constructor(
    private readonly names: PolicyNames,
    private readonly policies: AccessPolicies,
    private readonly lenses: Lenses,
  ) {}

  /** @throws Problem policy_not_found for the VP, policy_conflict, policy_name_not_owned */
  async execute({ input: { content, context } }: CreateAccessPolicy) {
    const { policy_id, vp } = content;
    const { organization } = context.actor;
    if (vp !== null) await this.lenses.of(vp);
    const { position, own } = await this.names.create(policy_id, organization, ACCESS_POLICY, context, (history) =>
      decideCreate(accessPolicyOf(history), content, context.actor),
    );
    return { body: policyDto(await this.policies.get(policy_id)), position, own };
  }
}

/** Retires an access policy, so that it can no longer be checked. */
export class RetireAccessPolicy extends CommandWith<
  AccessPolicyParams & { context: CommandContext },
  Recorded<RetiredAccessPolicyDto>
> {}

@CommandHandler(RetireAccessPolicy)
export class RetireAccessPolicyHandler implements ICommandHandler<RetireAccessPolicy> {
  constructor(
    private readonly writer: Writer,
    private readonly policies: AccessPolicies,
  ) {}

  /** @throws Problem policy_not_found, forbidden */
  async execute({ input: { policy_id, context } }: RetireAccessPolicy) {
    await this.policies.get(policy_id);
    const { position } = await this.writer.execute(accessPolicyStream(policy_id), context, (history) =>
      decideRetire(accessPolicyOf(history)!, context.actor.organization),
    );
    return { body: { policy_id, status: 'retired' as const }, position };
  }
}

interface AskedBy {
  /** null: without a credential. */
  caller: Reader | null;
}

/** One access policy, read from its own stream, so always current. */
export class GetAccessPolicy extends QueryWith<AccessPolicyParams & AskedBy, AccessPolicyDto> {}

@QueryHandler(GetAccessPolicy)
export class GetAccessPolicyHandler implements IQueryHandler<GetAccessPolicy> {
  constructor(private readonly policies: AccessPolicies) {}

  /** @throws Problem policy_not_found, unauthorized, forbidden */
  async execute({ input: { policy_id, caller } }: GetAccessPolicy): Promise<AccessPolicyDto> {
    return policyDto(await this.policies.readable(policy_id, caller));
  }
}

/** Access policies by id. */
export class ListAccessPolicies extends QueryWith<PoliciesQuery & AskedBy, AccessPoliciesDto> {}

@QueryHandler(ListAccessPolicies)
export class ListAccessPoliciesHandler implements IQueryHandler<ListAccessPolicies> {
  constructor(private readonly views: Views) {}

  /** @throws Problem identity_not_found if the TRIS id is misspelled, unknown_cursor */
  async execute({ input: { limit, cursor, tris_org, caller } }: ListAccessPolicies): Promise<AccessPoliciesDto> {
    const list = tris_org === undefined ? ACCESS_POLICIES : accessPoliciesOf(tris_org);
    const { page, next_cursor } = await this.views.page<AccessPolicyRow>(list, { cursor, limit }, AP_ID);
    if (page.length === 0) refuseMisspelled(tris_org);
    return {
      policies: page.map(({ created_at, retired, content_hash, ...row }) => ({
        ...row,
        // The hash would confirm a guess of simple rules.
        content_hash: mayReadRules({ owner: row.tris_org, visibility: row.visibility }, caller) ? content_hash : null,
        status: statusOf(retired),
        created_at: new Date(created_at).toISOString(),
      })),
      next_cursor,
    };
  }
}

function policyDto({ owner: tris_org, retired, created_at: at, ...policy }: AccessPolicy): AccessPolicyDto {
  const { policy_id, content_hash, ttl_seconds, rules, vp, visibility } = policy;
  const status = statusOf(retired);
  const created_at = new Date(at).toISOString();
  return { policy_id, status, content_hash, ttl_seconds, rules, vp, tris_org, visibility, created_at };
}

const statusOf = (retired: boolean) => (retired ? 'retired' : 'active');
