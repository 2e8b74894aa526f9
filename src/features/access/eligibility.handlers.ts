import { Inject } from '@nestjs/common';
import { CommandHandler, type ICommandHandler, type IQueryHandler, QueryHandler } from '@nestjs/cqrs';
import { EVENT_STORE, type EventStore } from '../../stores/ports/event-store.js';
import type { CommandContext, Recorded } from '../../commands/context.js';
import { CommandWith, QueryWith } from '../../commands/messages.js';
import { Writer } from '../../commands/writer.js';
import type { EligibilityClaims } from '../../credentials/jws.js';
import { AccessPolicies } from './access-policies.js';
import { Problem } from '../../kernel/problems.js';
import type { EligibilityDto, RevokedEligibilityDto, VerifyEligibilityDto } from './eligibility.dto.js';
import type { AccessDecision } from './domain/ap.events.js';
import { JTI, accessStream, decideRevoke, grantOf } from './domain/decision.js';
import { EligibilityTokens } from './tokens.js';

/** Whether a token is valid now. */
export class VerifyEligibility extends QueryWith<VerifyEligibilityDto, EligibilityDto> {}

@QueryHandler(VerifyEligibility)
export class VerifyEligibilityHandler implements IQueryHandler<VerifyEligibility> {
  constructor(
    private readonly tokens: EligibilityTokens,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  async execute({ input: { token, audience, policy_id } }: VerifyEligibility): Promise<EligibilityDto> {
    const verification = this.tokens.verify(token, { audience, policy: policy_id });
    if (!verification.active) return verification;
    const { claims } = verification;
    // Read from the stream, so that a revocation takes effect as soon as it is acknowledged.
    const grant = JTI.test(claims.jti) ? grantOf(await this.store.readStream(accessStream(claims.jti))) : undefined;
    if (!grant || !isOf(grant.event.data, claims)) {
      const detail = 'The log does not contain the decision of this token. Check the subject again.';
      return { active: false, reason: 'eligibility_unknown', detail, claims };
    }
    if (grant.revoked) {
      return { active: false, reason: 'eligibility_revoked', detail: 'The token was revoked.', claims };
    }
    return { active: true, claims };
  }
}

/** Whether a token says what was decided: whoever has the signing key can sign other claims with the id of a decision. */
const isOf = (decision: AccessDecision, { sub, aud, exp, policy_id, policy_hash }: EligibilityClaims): boolean =>
  sub === decision.subject_tris &&
  (aud ?? null) === decision.audience &&
  exp === decision.exp &&
  policy_id === decision.policy_id &&
  policy_hash === decision.policy_hash;

/** Revokes a token. */
export class RevokeEligibility extends CommandWith<
  { jti: string; context: CommandContext },
  Recorded<RevokedEligibilityDto>
> {}

@CommandHandler(RevokeEligibility)
export class RevokeEligibilityHandler implements ICommandHandler<RevokeEligibility> {
  constructor(
    private readonly writer: Writer,
    private readonly policies: AccessPolicies,
    @Inject(EVENT_STORE) private readonly store: EventStore,
  ) {}

  /**
   * An organization's key can revoke tokens of its own policies, and those that it requested itself.
   * @throws Problem not_found, forbidden
   */
  async execute({ input: { jti, context } }: RevokeEligibility) {
    const stream = accessStream(jti);
    const grant = grantOf(await this.store.readStream(stream));
    if (!grant) throw new Problem('not_found', `No token has the jti ${jti}.`);
    const { name, organization } = context.actor;
    if (organization !== null && grant.actor !== name) {
      const { owner, policy_id } = await this.policies.get(grant.event.data.policy_id);
      if (owner !== organization) {
        throw new Problem('forbidden', `The token is for ${policy_id}, which ${organization} does not own.`);
      }
    }
    const { position } = await this.writer.execute(stream, context, (now) => decideRevoke(grantOf(now)!));
    return { body: { jti, revoked: true }, position };
  }
}
