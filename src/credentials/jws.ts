import { type KeyObject, createPublicKey, verify as verifySignature } from 'node:crypto';

/**
 * Verifies eligibility tokens without calling the service: `import { verify } from 'credence/eligibility'`.
 * Depends on node:crypto only. It cannot see revocations: call POST /v1/eligibility/verify where a revocation must
 * count before the token expires.
 */

/** An Ed25519 public key of `/.well-known/jwks.json` (RFC 7517, RFC 8037). */
export interface EligibilityJwk {
  kty: string;
  crv?: string;
  x?: string;
  kid?: string;
}

/** The claims of a token. Times in seconds since the epoch (RFC 7519). */
export interface EligibilityClaims {
  /** Address of the service that decided. */
  iss: string;
  /** TRIS id that was checked. */
  sub: string;
  /** The audience; absent: anyone. */
  aud?: string;
  jti: string;
  iat: number;
  exp: number;
  policy_id: string;
  /** Content hash of the policy. */
  policy_hash: string;
  /** The coordinates of the score: equal coordinates always give equal scores. */
  as_of: string;
  position: string;
  lens: { policy_id: string | null; content_hash: string };
  model: { id: string; hash: string };
}

export type EligibilityRefusal =
  | 'eligibility_malformed'
  | 'eligibility_signature'
  | 'eligibility_issuer'
  | 'eligibility_audience'
  | 'eligibility_policy'
  | 'eligibility_not_yet_valid'
  | 'eligibility_expired';

export type EligibilityVerification =
  | { active: true; claims: EligibilityClaims }
  /** `claims` only where the signature is sound. */
  | { active: false; reason: EligibilityRefusal; detail: string; claims?: EligibilityClaims };

export interface VerifyOptions {
  /** The service's key set. Fetch it again when a token is refused with `eligibility_signature`: keys rotate. */
  jwks: { keys: readonly EligibilityJwk[] };
  /** The expected audience. Tokens with an audience are refused without it; tokens without one are refused with it. */
  audience?: string;
  /** The id of the only policy to accept. Without it, a token of any policy is accepted. */
  policy?: string;
  /** The only issuer to accept. */
  issuer?: string;
  /** Milliseconds since the epoch; default: now. */
  now?: number;
}

const TYPE = 'eligibility+jwt';
/** How far ahead of ours the issuer's clock may be. Expiry has no tolerance. */
const CLOCK_SKEW_S = 60;
const MAX_TOKEN_LENGTH = 8_192;

/** Never throws, for any token and any options. */
export function verify(token: unknown, options: VerifyOptions): EligibilityVerification {
  try {
    const read = readSigned(token, TYPE, options.jwks);
    if ('wrong' in read) {
      return refused(read.wrong === 'signature' ? 'eligibility_signature' : 'eligibility_malformed', read.detail);
    }
    if (isClaims(read.payload)) return judge(read.payload, options);
    return refused('eligibility_malformed', 'The token lacks a claim, or has one of a wrong type.');
  } catch {
    return refused('eligibility_malformed', 'The token or the options of its verification are malformed.');
  }
}

/** The content of a signed token, or what is wrong with its form or its signature. */
export type Signed =
  | { payload: Record<string, unknown>; kid: string }
  | { wrong: 'malformed' | 'type' | 'algorithm' | 'signature'; detail: string };

/** Reads a compact JWT (RFC 7519) of one `typ`, signed with EdDSA by a key of the set. Its claims are not checked. */
export function readSigned(token: unknown, type: string, jwks: VerifyOptions['jwks']): Signed {
  const parts = typeof token === 'string' && token.length <= MAX_TOKEN_LENGTH ? token.split('.') : [];
  const [header, payload] = parts.slice(0, 2).map(jsonOf);
  const malformed: Signed = { wrong: 'malformed', detail: 'This is not a compact signed JWT.' };
  if (!header || !payload || parts.length !== 3) return malformed;
  if (header['typ'] !== type) return { wrong: 'type', detail: `The token is not of the type ${type}.` };
  if (header['alg'] !== 'EdDSA') return { wrong: 'algorithm', detail: 'The token is not signed with EdDSA.' };
  const signature = bytesOf(parts[2]!);
  if (!signature || 'crit' in header || 'b64' in header) return malformed;
  const key = keyFor(header['kid'], jwks);
  if (!key)
    return { wrong: 'signature', detail: 'No key of the key set has the token’s kid; fetch the key set again.' };
  if (!verifySignature(null, Buffer.from(`${parts[0]}.${parts[1]}`), key, signature)) {
    return { wrong: 'signature', detail: 'The signature is not by the key that the token names.' };
  }
  return { payload, kid: header['kid'] as string };
}

function judge(claims: EligibilityClaims, { audience, policy, issuer, now = Date.now() }: VerifyOptions) {
  const seconds = now / 1000;
  const no = (reason: EligibilityRefusal, detail: string) => ({ ...refused(reason, detail), claims });
  if (issuer !== undefined && claims.iss !== issuer) {
    return no('eligibility_issuer', `The token was issued by ${claims.iss}, not by ${issuer}.`);
  }
  if (claims.aud !== audience) {
    const bound = claims.aud === undefined ? 'no audience' : `the audience ${claims.aud}`;
    return no('eligibility_audience', `The token is bound to ${bound}, not to ${audience ?? 'none'}.`);
  }
  if (policy !== undefined && claims.policy_id !== policy) {
    return no('eligibility_policy', `The token is for the policy ${claims.policy_id}, not for ${policy}.`);
  }
  if (claims.iat > seconds + CLOCK_SKEW_S)
    return no('eligibility_not_yet_valid', 'The token was issued in the future.');
  if (claims.exp <= seconds) {
    const at = new Date(claims.exp * 1000).toISOString();
    return no('eligibility_expired', `The token expired at ${at}; check the subject again for a new one.`);
  }
  return { active: true as const, claims };
}

const refused = (reason: EligibilityRefusal, detail: string) => ({ active: false as const, reason, detail });

/** Strict base64url without padding: every byte string has exactly one encoding. */
function bytesOf(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return text !== '' && bytes.toString('base64url') === text ? bytes : undefined;
}

function jsonOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytesOf(text)?.toString('utf8') ?? '');
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Keys already imported, by `x`. A set has a few keys; the bound is for callers with many sets. */
const imported = new Map<string, KeyObject>();
const MAX_IMPORTED = 100;

function keyFor(kid: unknown, jwks: VerifyOptions['jwks']): KeyObject | undefined {
  const jwk = typeof kid === 'string' ? jwks.keys.find((candidate) => candidate.kid === kid) : undefined;
  if (jwk?.kty !== 'OKP' || jwk.crv !== 'Ed25519' || typeof jwk.x !== 'string') return undefined;
  const known = imported.get(jwk.x);
  if (known) return known;
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: jwk.x }, format: 'jwk' });
    if (imported.size >= MAX_IMPORTED) imported.clear();
    imported.set(jwk.x, key);
    return key;
  } catch {
    return undefined;
  }
}

const TEXTS = ['iss', 'sub', 'jti', 'policy_id', 'policy_hash', 'as_of', 'position'] as const;

function isClaims(payload: Record<string, unknown>): payload is EligibilityClaims & Record<string, unknown> {
  const { aud, iat, exp, lens, model } = payload;
  return (
    TEXTS.every((name) => typeof payload[name] === 'string') &&
    (aud === undefined || typeof aud === 'string') &&
    [iat, exp].every(Number.isSafeInteger) &&
    [lens, model].every((part) => typeof part === 'object' && part !== null)
  );
}
