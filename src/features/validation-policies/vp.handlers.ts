import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { type LensRow, lensRow } from '../../../projections/lenses.js';
import { POLICIES, type PolicyRow, policiesOf } from '../../../projections/policies.js';
import type { RecordedEvent } from '../../kernel/event.js';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext, Created, Recorded } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import { decoderFor } from '../../kernel/event-definition.js';
import { formatPosition } from '../../kernel/positions.js';
import { refuseMisspelled } from '../../kernel/problems.js';
import { Views } from '../../read-side/views.js';
import { lensOwner, lensStackOf, lensStream } from '../lenses/domain/lens-stream.js';
import type { PoliciesQuery } from '../access/ap.dto.js';
import { PolicyNames } from '../policy-names/policy-names.js';
import { Lenses, unknownPolicy } from '../lenses/lenses.js';
import {
  LENS_SCOPES,
  lensActivated,
  modelActivated,
  validationPolicyCreated,
  validationPolicyRetired,
} from '../lenses/domain/lenses.events.js';
import type { CreatedPolicyDto, PoliciesDto, PolicyDto, PolicyStatus, RetiredPolicyDto } from './vp.dto.js';
import { refuseUnlessOwner } from './permissions.js';
import {
  type Policy,
  type PolicyContent,
  VP_ID,
  decideCreate,
  decideRetire,
  policyOf,
  policyStream,
  refuseUnsound,
  warningsOf,
  weightsOf,
  writtenInputs,
} from '../lenses/domain/validation-policy.js';

export class CreatePolicy extends CommandWith<
  { content: PolicyContent; context: CommandContext },
  Created<CreatedPolicyDto>
> {}

const VALIDATION_POLICY = {
  streamOf: policyStream,
  ownerIn: (history: readonly RecordedEvent[]) => policyOf(history)?.tris_org,
};

@CommandHandler(CreatePolicy)
export class CreatePolicyHandler implements ICommandHandler<CreatePolicy> {
  constructor(
    private readonly names: PolicyNames,
    private readonly lenses: Lenses,
  ) {}

  /**
   * @throws Problem forbidden, policy_name_not_owned, weight_criticality_mismatch, duplicate_metric,
   * total_weight_out_of_range, policy_conflict
   */
  async execute({ input: { content, context } }: CreatePolicy) {
    const { policy_id, tris_org } = content;
    refuseUnlessOwner(context.actor, tris_org);
    refuseUnsound(content);
    const { position, own } = await this.names.create(policy_id, tris_org, VALIDATION_POLICY, context, (history) =>
      decideCreate(policyOf(history), content),
    );
    return { body: created(await this.lenses.policy(policy_id)), position, own };
  }
}

/** Retires a policy, so that it can no longer be promoted. */
export class RetirePolicy extends CommandWith<
  { policyId: string; context: CommandContext },
  Recorded<RetiredPolicyDto>
> {}

@CommandHandler(RetirePolicy)
export class RetirePolicyHandler implements ICommandHandler<RetirePolicy> {
  constructor(
    private readonly writer: Writer,
    private readonly lenses: Lenses,
  ) {}

  /** @throws Problem policy_not_found, forbidden */
  async execute({ input: { policyId, context } }: RetirePolicy) {
    // A policy's owner never changes.
    const { tris_org } = await this.lenses.policy(policyId);
    refuseUnlessOwner(context.actor, tris_org);
    const { position } = await this.writer.execute(policyStream(policyId), context, (history) =>
      decideRetire(policyOf(history)!),
    );
    return { body: { policy_id: policyId, status: 'retired' as const }, position };
  }
}

/** One policy and its history, read from the streams, so always current. */
export class GetPolicy extends QueryWith<{ policyId: string }, PolicyDto> {}

@QueryHandler(GetPolicy)
export class GetPolicyHandler implements IQueryHandler<GetPolicy> {
  constructor(@Inject(EVENT_STORE) private readonly store: EventStore) {}

  /** @throws Problem policy_not_found */
  async execute({ input: { policyId } }: GetPolicy): Promise<PolicyDto> {
    const own = VP_ID.test(policyId) ? await this.store.readStream(policyStream(policyId)) : [];
    const policy = policyOf(own);
    if (!policy) throw unknownPolicy(policyId);
    const active_for: PolicyDto['active_for'] = [];
    const events = [...own];
    for (const scope of LENS_SCOPES) {
      const owner = lensOwner(scope, policy.tris_org);
      const activations = await this.store.readStream(lensStream(owner));
      if (lensStackOf(activations, owner).at(-1)!.policy_id === policyId) active_for.push(scope);
      events.push(...activations);
    }
    events.sort((a, b) => a.position - b.position);
    const history = events.flatMap((event) => stateOf(event, policyId, this.store.logId) ?? []);
    return { ...created(policy), inputs: writtenInputs(policy), metadata: policy.metadata, active_for, history };
  }
}

/** Validation policies, all or those of an organization. */
export class ListPolicies extends QueryWith<PoliciesQuery, PoliciesDto> {}

@QueryHandler(ListPolicies)
export class ListPoliciesHandler implements IQueryHandler<ListPolicies> {
  constructor(private readonly views: Views) {}

  /** @throws Problem identity_not_found if the TRIS id is misspelled, unknown_cursor */
  async execute({ input: { limit, cursor, tris_org } }: ListPolicies): Promise<PoliciesDto> {
    const list = tris_org === undefined ? POLICIES : policiesOf(tris_org);
    const { page, next_cursor } = await this.views.page<PolicyRow>(list, { cursor, limit }, VP_ID);
    if (page.length === 0) {
      refuseMisspelled(tris_org);
      return { policies: [], next_cursor };
    }
    const owners = [...new Set(page.map((row) => row.tris_org))];
    const { manifest, results } = await this.views.read(owners.map((owner) => ({ get: lensRow(owner) })));
    const own = new Map(owners.map((owner, i) => [owner, (results[i] as LensRow | undefined)?.policy_id]));
    return {
      policies: page.map(({ created_at, retired, ...row }) => ({
        ...row,
        status: statusOf(retired),
        active_for: [
          ...(manifest.lens.policy_id === row.policy_id ? (['platform'] as const) : []),
          ...(own.get(row.tris_org) === row.policy_id ? (['organization'] as const) : []),
        ],
        created_at: new Date(created_at).toISOString(),
      })),
      next_cursor,
    };
  }
}

function created(policy: Policy): CreatedPolicyDto {
  const { policy_id, tris_org, content_hash, retired, inputs } = policy;
  const about = { policy_id, tris_org, status: statusOf(retired), content_hash };
  return { ...about, ...weightsOf(inputs), warnings: warningsOf(policy) };
}

function statusOf(retired: boolean): PolicyStatus {
  return retired ? 'retired' : 'available';
}

const decodePolicyEvent = decoderFor([validationPolicyCreated, validationPolicyRetired, lensActivated, modelActivated]);

/** The history entry for an event of the policy's own stream or of a lens; undefined if it is not about the policy. */
function stateOf(recorded: RecordedEvent, policyId: string, logId: string): PolicyDto['history'][number] | undefined {
  const event = decodePolicyEvent(recorded);
  const when = { at: new Date(event.recorded_at).toISOString(), position: formatPosition(logId, event.position) };
  switch (event.type) {
    case 'ValidationPolicyCreated':
      return { status: 'created', ...when };
    case 'ValidationPolicyRetired':
      return { status: 'retired', ...when };
    case 'LensActivated': {
      const { reason, scope, policy_id, previous, replay_id } = event.data;
      if (reason === 'promoted' && policy_id === policyId) return { status: reason, scope, replay_id, ...when };
      if (reason === 'rolled_back' && previous.policy_id === policyId) return { status: reason, scope, ...when };
      return undefined;
    }
    default:
      return undefined;
  }
}
