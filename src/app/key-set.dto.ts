export class PublicJwkDto {
  kty: string;
  crv: string;
  /** The public key, base64url. */
  x: string;
  /** RFC 7638 thumbprint. */
  kid: string;
  use: string;
  alg: string;
}

export class JwkSetDto {
  /** The keys (RFC 7517). */
  keys: PublicJwkDto[];
}
