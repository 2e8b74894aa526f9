import { Inject, Injectable } from '@nestjs/common';
import { CLOCK, CLOCK_SKEW_MS, type Clock } from '../../kernel/clock.js';
import { formatPosition, POSITION_GATE, type PositionGate } from '../../kernel/positions.js';
import { PublicAddress } from '../../kernel/public-address.js';
import { SigningKeys } from '../../credentials/signing-keys.js';
import type { AccessDecision } from './domain/ap.events.js';
import { type EligibilityVerification, verify } from '../../credentials/jws.js';

/** Signs eligibility tokens for recorded decisions, and verifies them as an integrator would. */
@Injectable()
export class EligibilityTokens {
  constructor(
    /** Whoever decides records which of them signs, and under which address. */
    readonly keys: SigningKeys,
    readonly address: PublicAddress,
    @Inject(POSITION_GATE) private readonly gate: PositionGate,
    @Inject(CLOCK) private readonly clock: Clock,
  ) {}

  /**
   * The token of a decision, always the same bytes. null if the decision did not grant, if its key has been pruned,
   * which is done only after its last token has expired, or if its key was revoked.
   */
  async sign(decision: AccessDecision): Promise<string | null> {
    const { iss, kid, iat, exp, lens_hash, audience } = decision;
    if (iss === null || kid === null || iat === null || exp === null || !this.keys.signsWith(kid)) return null;
    const claims = {
      iss,
      sub: decision.subject_tris,
      ...(audience !== null && { aud: audience }),
      jti: decision.jti,
      iat,
      exp,
      policy_id: decision.policy_id,
      policy_hash: decision.policy_hash,
      as_of: decision.as_of,
      position: formatPosition(decision.log ?? this.gate.logId, decision.position),
      lens: { policy_id: decision.lens_policy_id, content_hash: lens_hash },
      model: { id: decision.model_id, hash: decision.model_hash },
    };
    return this.keys.sign(claims, 'eligibility+jwt', kid);
  }

  /** Verifies the token itself. Whether it was revoked is only in the log. */
  verify(token: string, expected: { audience?: string; policy?: string }): EligibilityVerification {
    const verified = verify(token, { jwks: this.keys.jwks, now: this.clock(), ...expected });
    if (!verified.active || !this.keys.wasRetired(kidOf(token), verified.claims.iat * 1000 - CLOCK_SKEW_MS))
      return verified;
    const detail = 'The key of the token no longer signed when the token was issued.';
    return { active: false, reason: 'eligibility_signature', detail };
  }
}

/** The key that a verified token names in its header. */
const kidOf = (token: string): string =>
  (JSON.parse(Buffer.from(token.split('.', 1)[0]!, 'base64url').toString()) as { kid: string }).kid;
