import { randomUUID } from 'node:crypto';
import { readSigned } from './jws.js';
import { CLOCK_SKEW_MS } from '../kernel/clock.js';
import { Problem, type ProblemCode } from '../kernel/problems.js';
import type { SigningKeys } from './signing-keys.js';
import type { Caller, Session } from './caller.js';

/** Lifetime in seconds. A revoked session can still read for this long; its writes are checked against the log. */
export const ACCESS_TOKEN_S = 300;
const TYPE = 'session+jwt';
const AUDIENCE = 'credence-session';
const NO_SCOPES: ReadonlySet<never> = new Set<never>();

/**
 * Access tokens: short Ed25519 JWTs. Their `typ` and audience keep them apart from eligibility tokens, which are signed
 * with the same keys. The issuer is not compared: these keys sign for this deployment only.
 */
export class AccessTokens {
  constructor(private readonly keys: SigningKeys) {}

  sign({ family, wallet, chainId, trisId }: Session, issuer: string): Promise<string> {
    const iat = Math.floor(Date.now() / 1000);
    const claims = {
      iss: issuer,
      sub: trisId ?? wallet,
      aud: AUDIENCE,
      iat,
      exp: iat + ACCESS_TOKEN_S,
      jti: randomUUID(),
      sid: family,
      wallet,
      chain_id: chainId,
      tris_id: trisId,
    };
    return this.keys.sign(claims, TYPE);
  }

  /** @throws Problem token_malformed, token_type, token_algorithm, token_signature, token_audience, token_expired */
  caller(token: string): Caller {
    const read = readSigned(token, TYPE, this.keys.jwks);
    if ('wrong' in read) throw refused(`token_${read.wrong}`, read.detail);
    const { aud, iat, exp, sid, wallet, chain_id, tris_id } = read.payload;
    if (aud !== AUDIENCE) throw refused('token_audience', 'The token is for another audience.');
    const isSession = typeof sid === 'string' && typeof wallet === 'string' && isNumber(iat) && isNumber(exp);
    if (!isSession || !(chain_id === null || isNumber(chain_id)) || !(tris_id === null || typeof tris_id === 'string'))
      throw refused('token_malformed', 'The token lacks a claim, or has one of a wrong type.');
    const now = Date.now() / 1000;
    if (iat > now + CLOCK_SKEW_MS / 1000) throw refused('token_malformed', 'The token was issued in the future.');
    // With a stolen key, somebody could create tokens that never expire, or that were issued after the key was retired.
    if (exp - iat > ACCESS_TOKEN_S)
      throw refused('token_malformed', 'The lifetime of the token is longer than that of any issued token.');
    if (this.keys.wasRetired(read.kid, iat * 1000 - CLOCK_SKEW_MS)) {
      throw refused('token_signature', 'The key of the token no longer signed when the token was issued.');
    }
    if (exp <= now) throw refused('token_expired', 'The access token has expired; refresh it.');
    const keyId = `session:${wallet}`;
    const session = { family: sid, wallet, chainId: chain_id, trisId: tris_id };
    return { keyId, idempotencyScope: keyId, scopes: NO_SCOPES, organization: null, session, expiresAt: exp * 1000 };
  }
}

const isNumber = (value: unknown): value is number => Number.isSafeInteger(value);

function refused(code: ProblemCode, detail: string): Problem {
  const challenge = 'Bearer realm="credence", error="invalid_token"';
  return new Problem(code, detail, { headers: { 'www-authenticate': challenge } });
}
