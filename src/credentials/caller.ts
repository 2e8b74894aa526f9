/** What a key permits. A key can have several scopes. */
export const SCOPES = [
  'reads',
  'relay:write',
  'policies:write',
  'access:check',
  'audit:read',
  'identity:write',
  'trove:write',
  'trove:review',
  'webhooks:write',
  'ops',
] as const;
export type Scope = (typeof SCOPES)[number];

/** Who calls, by the credential of the request: an API key, or a session (`session` is set, and there are no scopes). */
export interface Caller {
  /** Of a session: `session:<wallet>`. */
  keyId: string;
  /**
   * Callers with the same value share their Idempotency-Keys. Of an API key its digest, since a later key may get the same
   * id; of a session its `keyId`.
   */
  idempotencyScope: string;
  scopes: ReadonlySet<Scope>;
  /** The TRIS id of the organization the key is bound to. */
  organization: string | null;
  session: Session | null;
  /** When the access token of a session expires, ms. Keys do not expire. */
  expiresAt?: number;
}

/** The content of an access token: a wallet that signed in, and the TRIS it acted for when the token was issued. */
export interface Session {
  /** Id of its refresh family. The session ends with it. */
  family: string;
  /** Address in lower case. */
  wallet: string;
  /** The chain of the contract wallet that signed; null: the key of the address itself signed. */
  chainId: number | null;
  trisId: string | null;
}
