export class PublicJwkDto {
  /** The family of the algorithm, `OKP`. */
  kty: string;
  /** The curve, `Ed25519`. */
  crv: string;
  /** The public key, base64url. */
  x: string;
  /** RFC 7638 thumbprint. */
  kid: string;
  /** What the key is for: signatures. */
  use: string;
  /** The algorithm, `EdDSA`. */
  alg: string;
}

export class JwkSetDto {
  /** The keys (RFC 7517). */
  keys: PublicJwkDto[];
}
