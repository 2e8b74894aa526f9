import type { components } from './schema.js';

/** What `POST /v1/tris/auth/siwe/verify` and `POST /v1/tris/token/refresh` answer. */
export type Tokens = components['schemas']['TokensDto'];

/** An access token is replaced this long before it expires, ms. */
const EARLY_MS = 10_000;

/** The tokens of a wallet's session. A refresh token can be used once, so there is one refresh at a time. */
export class Session {
  #tokens: Tokens;
  #expiresAt: number;
  #refreshing: Promise<void> | undefined;

  constructor(
    tokens: Tokens,
    private readonly exchange: (refreshToken: string) => Promise<Tokens>,
    private readonly onTokens: (tokens: Tokens) => unknown,
  ) {
    this.#tokens = tokens;
    this.#expiresAt = expiry(tokens);
  }

  /** A valid access token, as far as this clock tells. @throws ProblemError if the session has ended */
  async accessToken(): Promise<string> {
    if (this.#refreshing || Date.now() > this.#expiresAt - EARLY_MS) await this.refresh();
    return this.#tokens.access_token;
  }

  /** The service refused this access token: replaces it, unless that was done since. */
  async replace(accessToken: string): Promise<void> {
    if (accessToken === this.#tokens.access_token) await this.refresh();
  }

  private refresh(): Promise<void> {
    return (this.#refreshing ??= this.exchangeTokens().finally(() => (this.#refreshing = undefined)));
  }

  private async exchangeTokens(): Promise<void> {
    this.#tokens = await this.exchange(this.#tokens.refresh_token);
    this.#expiresAt = expiry(this.#tokens);
    await this.onTokens(this.#tokens);
  }
}

const expiry = (tokens: Tokens): number => Date.now() + tokens.expires_in * 1_000;
