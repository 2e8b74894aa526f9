/** What a key may do; one key can hold several. */
export const SCOPES = [
  'relay:write',
  'policies:write',
  'access:check',
  'identity:write',
  'trove:write',
  'trove:review',
  'ops',
] as const;
export type Scope = (typeof SCOPES)[number];

/** Who calls, by the credential of the request: an API key, or a session (`session` is set, and there are no scopes). */
export interface Caller {
  /** Of a session: `session:<wallet>`. */
  keyId: string;
  scopes: ReadonlySet<Scope>;
  /** The TRIS id of the organization the key is bound to. */
  organization: string | null;
  session: Session | null;
}

/** What an access token stands for: a wallet that signed in, and the TRIS it acted for when the token was issued. */
export interface Session {
  /** Id of the refresh family it belongs to: ends with it. */
  family: string;
  /** Address in small letters. */
  wallet: string;
  /** The chain whose contract vouched for the wallet; null: the key of the address itself. */
  chainId: number | null;
  trisId: string | null;
}
