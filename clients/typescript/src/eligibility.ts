/** Verifies eligibility tokens without calling the service, by WebCrypto. */

/** An Ed25519 public key (RFC 7517, RFC 8037). */
export interface Jwk {
  kty: string;
  crv?: string;
  x?: string;
  kid?: string;
}

/** What `GET /.well-known/jwks.json` answers. */
export interface Jwks {
  keys: readonly Jwk[];
}

/** The claims of a token. Times in seconds since the epoch (RFC 7519). */
export interface EligibilityClaims {
  /** Address of the service that decided. */
  iss: string;
  /** The TRIS id that was checked. */
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
  | { active: true; claims: EligibilityClaims; reason?: never }
  /** `claims` only where the signature is sound. */
  | { active: false; reason: EligibilityRefusal; claims?: EligibilityClaims };

export interface EligibilityOptions {
  /** The service's key set. Fetch it again when a token is refused with `eligibility_signature`: keys rotate. */
  jwks: Jwks;
  /** The expected audience. Tokens with an audience are refused without it; tokens without one are refused with it. */
  audience?: string;
  /** The id of the only policy to accept. Default: any. */
  policy?: string;
  /** The only issuer to accept. Default: any. */
  issuer?: string;
  /** Milliseconds since the epoch; default: now. */
  now?: number;
}

/** How far ahead of ours the issuer's clock may be, s. Expiry has no tolerance. */
const CLOCK_SKEW_S = 60;
const MAX_TOKEN_LENGTH = 8_192;

/** Never throws for a token, whatever it is. @throws NotSupportedError where WebCrypto has no Ed25519 */
export async function verifyEligibility(token: unknown, options: EligibilityOptions): Promise<EligibilityVerification> {
  const parts = typeof token === 'string' && token.length <= MAX_TOKEN_LENGTH ? token.split('.') : [];
  const [header, claims] = parts.slice(0, 2).map(objectOf);
  const signature = bytesOf(parts[2] ?? '');
  if (!header || !claims || !signature || parts.length !== 3) return refused('eligibility_malformed');
  if (header['typ'] !== 'eligibility+jwt' || header['alg'] !== 'EdDSA' || 'crit' in header || 'b64' in header) {
    return refused('eligibility_malformed');
  }
  const key = await keyFor(header['kid'], options.jwks);
  const signed = new TextEncoder().encode(`${parts[0]}.${parts[1]}`);
  if (!key || !(await crypto.subtle.verify('Ed25519', key, signature, signed))) return refused('eligibility_signature');
  if (!isClaims(claims)) return refused('eligibility_malformed');
  const reason = objection(claims, options);
  return reason === undefined ? { active: true, claims } : { active: false, reason, claims };
}

function objection(claims: EligibilityClaims, options: EligibilityOptions): EligibilityRefusal | undefined {
  const { audience, policy, issuer, now = Date.now() } = options;
  if (issuer !== undefined && claims.iss !== issuer) return 'eligibility_issuer';
  if (claims.aud !== audience) return 'eligibility_audience';
  if (policy !== undefined && claims.policy_id !== policy) return 'eligibility_policy';
  if (claims.iat > now / 1_000 + CLOCK_SKEW_S) return 'eligibility_not_yet_valid';
  if (claims.exp <= now / 1_000) return 'eligibility_expired';
  return undefined;
}

const refused = (reason: EligibilityRefusal): EligibilityVerification => ({ active: false, reason });

async function keyFor(kid: unknown, { keys }: Jwks): Promise<Parameters<typeof crypto.subtle.verify>[1] | undefined> {
  const jwk = typeof kid === 'string' ? keys.find((candidate) => candidate.kid === kid) : undefined;
  const x = jwk?.kty === 'OKP' && jwk.crv === 'Ed25519' ? bytesOf(jwk.x ?? '') : undefined;
  return x?.length === 32 ? crypto.subtle.importKey('raw', x, 'Ed25519', false, ['verify']) : undefined;
}

/** Strict base64url without padding: every byte string has exactly one encoding. */
function bytesOf(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[\w-]+$/.test(text)) return undefined;
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
    const encoded = btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
    return encoded === text ? Uint8Array.from(binary, (character) => character.charCodeAt(0)) : undefined;
  } catch {
    return undefined;
  }
}

function objectOf(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytesOf(text)));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

const TEXTS = ['iss', 'sub', 'jti', 'policy_id', 'policy_hash', 'as_of', 'position'];

function isClaims(claims: Record<string, unknown>): claims is EligibilityClaims & Record<string, unknown> {
  const { aud, iat, exp, lens, model } = claims;
  return (
    TEXTS.every((name) => typeof claims[name] === 'string') &&
    (aud === undefined || typeof aud === 'string') &&
    Number.isSafeInteger(iat) &&
    Number.isSafeInteger(exp) &&
    typeof lens === 'object' &&
    lens !== null &&
    typeof model === 'object' &&
    model !== null
  );
}
