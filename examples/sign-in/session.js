/**
 * A wallet's session with Credence, for a page: sign-in by EIP-4361, linking, refresh and sign-out. It knows nothing of
 * the page's elements, so it also runs outside a browser. Tokens are in the memory of this object only: neither another
 * page nor a later visitor of this browser finds them, and a reload asks the wallet again.
 */

/** What went wrong, in words for whoever sits before the page. `code` is the service's, or one of this file. */
export class Trouble extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

const START_AGAIN = 'Start again, and sign the new message.';
const SIGNED_OUT = 'Your session has ended. Sign in again.';
/** For problems whose own sentence is about the protocol rather than about what to do. */
const WORDS = {
  nonce_used: `That message was used already. ${START_AGAIN}`,
  siwe_nonce_unknown: `The service does not remember that message. ${START_AGAIN}`,
  siwe_expired: `It took too long until the message was signed. ${START_AGAIN}`,
  siwe_signature: 'The signature is not by the wallet that signs in. Choose that account in the wallet.',
  siwe_no_contract: 'The signature is not by the wallet that signs in. Choose that account in the wallet.',
  chain_not_configured: 'This wallet is a contract on a chain the service does not read. Use another wallet.',
  wallet_already_linked: 'This wallet belongs to a TRIS already. Unlink it there first.',
  refresh_reused: 'Somebody used an old token of this session, so it was ended for safety. Sign in again.',
  refresh_unknown: SIGNED_OUT,
  refresh_revoked: SIGNED_OUT,
  session_revoked: SIGNED_OUT,
  position_unknown: 'The service has other data than before. Reload the page.',
  rate_limited: 'Too many requests. Wait a minute, then try again.',
  projection_behind: 'The service is catching up. Try again in a moment.',
  projection_rebuilding: 'The service is rebuilding its scores. Try again in a few minutes.',
};

/** Errors of wallets (EIP-1193, EIP-1474). */
const WALLET_WORDS = {
  4001: ['wallet_refused', 'You declined in the wallet. Nothing was changed.'],
  4100: ['wallet_unauthorized', 'The wallet does not let this page use that account.'],
  4900: ['wallet_disconnected', 'The wallet is not connected to any network.'],
  [-32002]: ['wallet_busy', 'The wallet is waiting for an answer already. Open it.'],
};

export class Session {
  #origin;
  #fetch;
  #tokens = null;
  #refreshing = null;
  /** Credence-Position of the last write: reads wait for it. */
  #position;

  /**
   * @param {string} origin of the page; the service answers under it, and its sign-in messages must be for it
   * @param {(url: string, request: object) => Promise<Response>} fetch for trials
   */
  constructor(origin, fetch = globalThis.fetch.bind(globalThis)) {
    this.#origin = origin;
    this.#fetch = fetch;
  }

  /** EIP-55; null when signed out. */
  get wallet() {
    return this.#tokens?.wallet ?? null;
  }
  /** The TRIS the session acts for; null: none, or signed out. */
  get trisId() {
    return this.#tokens?.tris_id ?? null;
  }

  /**
   * @param provider EIP-1193
   * @param purpose `sign_in`, or `claim`: also make the wallet the first of a TRIS of its own
   * @throws Trouble
   */
  async signIn(provider, purpose = 'sign_in') {
    const accounts = await request(provider, 'eth_requestAccounts');
    const account = this.wallet ? accounts.find((one) => isSame(one, this.wallet)) : accounts[0];
    if (!account) {
      const wanted = this.wallet ? `Choose the account ${this.wallet} in the wallet.` : 'The wallet offers no account.';
      throw new Trouble('no_account', wanted);
    }
    const signed = await this.#consent(provider, account, { purpose });
    const before = this.#tokens;
    this.#tokens = await this.#post('/v1/tris/auth/siwe/verify', signed);
    // Of no more use. It runs out by itself should the service not hear of it.
    if (before) await this.#revoke(before).catch(() => undefined);
  }

  /**
   * Has another account of a wallet agree to be linked, and links it.
   * @returns the linked wallet
   * @throws Trouble
   */
  async link(provider) {
    if (!this.trisId) throw new Trouble('no_tris', 'There is no TRIS to link to. Claim one first.');
    const account = await this.#otherAccount(provider);
    const signed = await this.#consent(provider, account, { purpose: 'link', tris_id: this.trisId });
    return (await this.#authorized('POST', '/v1/wallets/link', signed)).wallet;
  }

  /** What is known of the session's TRIS; null: it has none. `rank` is null for whoever is no vetted organization. */
  async standing() {
    const id = this.trisId;
    if (!id) return null;
    const of = (path) => this.#call('GET', `${path}/${encodeURIComponent(id)}`);
    const [score, rank, credonations, wallets] = await Promise.all([
      of('/v1/disc/score'),
      of('/api/disc-rank').catch((error) => {
        if (error.code === 'organization_not_vetted') return null;
        throw error;
      }),
      of('/api/tris-validations'),
      this.#authorized('GET', `/v1/wallets/${encodeURIComponent(id)}`),
    ]);
    return { score, rank, credonations: credonations.validations, wallets: wallets.wallets };
  }

  /** Replaces both tokens. Asked for twice at once it happens once: a token that is used twice ends the session. */
  refresh() {
    this.#refreshing ??= this.#rotate().finally(() => {
      this.#refreshing = null;
    });
    return this.#refreshing;
  }

  /** Ends the session at the service, and forgets it here in any case. */
  async signOut() {
    await this.#refreshing?.catch(() => undefined);
    const tokens = this.#tokens;
    this.#tokens = null;
    if (!tokens) return;
    await this.#revoke(tokens).catch(() => {
      throw new Trouble('not_revoked', 'The service could not be told: there, the session lives on until it runs out.');
    });
  }

  #revoke({ refresh_token }) {
    return this.#post('/v1/tris/token/revoke', { refresh_token });
  }

  async #rotate() {
    if (!this.#tokens) throw new Trouble('signed_out', SIGNED_OUT);
    const rotate = () => this.#post('/v1/tris/token/refresh', { refresh_token: this.#tokens.refresh_token });
    try {
      this.#tokens = await rotate().catch((error) => {
        // Perhaps only the answer was lost: within 15 seconds the same token gets the same successor.
        if (error.code === 'unreachable') return rotate();
        throw error;
      });
    } catch (error) {
      if (error.code.startsWith('refresh_')) this.#tokens = null;
      throw error;
    }
  }

  async #otherAccount(provider) {
    const { wallets } = await this.#authorized('GET', `/v1/wallets/${encodeURIComponent(this.trisId)}`);
    const isNew = (account) => !wallets.some(({ wallet }) => isSame(wallet, account));
    // Lets people choose accounts where the wallet can; others offer the account that is active in them.
    await request(provider, 'wallet_requestPermissions', [{ eth_accounts: {} }]).catch((error) => {
      if (error.code !== 'wallet_cannot') throw error;
    });
    const account = (await request(provider, 'eth_requestAccounts')).find(isNew);
    if (account) return account;
    throw new Trouble('no_other_account', 'That account is linked already. Choose another one in the wallet.');
  }

  /** The service words what the wallet agrees to; the wallet shows it, and signs. */
  async #consent(provider, account, wish) {
    const chain_id = Number(await request(provider, 'eth_chainId'));
    const { message } = await this.#post('/v1/tris/auth/siwe/start', { address: account, chain_id, ...wish });
    const { host } = new URL(this.#origin);
    const [greeting, address] = message.split('\n');
    const domain = greeting.split(' ')[0];
    // What is signed for this page must not be of use elsewhere; wallets warn of it too.
    if (domain !== host) {
      const advice = `Open the page there, or start the service with CREDENCE_PUBLIC_URL=${this.#origin}`;
      throw new Trouble(
        'other_domain',
        `The service signs people in at ${domain}, and this page is at ${host}. ${advice}`,
      );
    }
    if (!isSame(address, account)) {
      throw new Trouble('other_address', 'The service asks for the consent of another wallet. Nothing was signed.');
    }
    const bytes = new TextEncoder().encode(message);
    const hex = `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
    return { message, signature: await request(provider, 'personal_sign', [hex, account]) };
  }

  /** A request of the session; its access token is renewed when it has run out. */
  async #authorized(method, path, body) {
    const attempt = () => {
      if (!this.#tokens) throw new Trouble('signed_out', SIGNED_OUT);
      return this.#call(method, path, body, { authorization: `Bearer ${this.#tokens.access_token}` });
    };
    try {
      return await attempt();
    } catch (error) {
      if (error.code === 'session_revoked') this.#tokens = null;
      if (error.code !== 'token_expired') throw error;
      await this.refresh();
      return attempt();
    }
  }

  #post(path, body) {
    return this.#call('POST', path, body);
  }

  async #call(method, path, body, headers = {}) {
    const all = { ...headers, ...(body && { 'content-type': 'application/json' }) };
    if (method === 'GET' && this.#position) all['credence-min-position'] = this.#position;
    const asked = { method, headers: all, cache: 'no-store', ...(body && { body: JSON.stringify(body) }) };
    let answer, json;
    try {
      answer = await this.#fetch(this.#origin + path, asked);
      json = await answer.json();
    } catch {
      throw new Trouble('unreachable', 'The service cannot be reached. Check that it runs, then try again.');
    }
    if (!answer.ok) {
      throw new Trouble(
        json.code ?? 'unknown',
        WORDS[json.code] ?? json.detail ?? `The service answered ${answer.status}.`,
      );
    }
    this.#position = answer.headers.get('credence-position') ?? this.#position;
    return json;
  }
}

/** Wallets write addresses with or without their checksum. */
const isSame = (one, other) => one.toLowerCase() === other.toLowerCase();

/** Asks a wallet. @throws Trouble */
async function request(provider, method, params) {
  try {
    return await provider.request({ method, ...(params && { params }) });
  } catch (error) {
    if ([4200, -32601, -32004].includes(error?.code)) {
      throw new Trouble('wallet_cannot', `The wallet does not know ${method}.`);
    }
    const known = WALLET_WORDS[error?.code];
    throw new Trouble(...(known ?? ['wallet_failed', `The wallet failed: ${error?.message ?? 'it does not say why'}`]));
  }
}

/**
 * The wallets of this browser: those that announce themselves (EIP-6963), else the one that took `window.ethereum`.
 * @param found called with [{name, provider}] at once, and again with every wallet that turns up
 */
export function discoverWallets(window, found) {
  const announced = new Map();
  const tell = () => {
    const injected = window.ethereum ? [{ name: 'Browser wallet', provider: window.ethereum }] : [];
    found(announced.size > 0 ? [...announced.values()] : injected);
  };
  window.addEventListener('eip6963:announceProvider', ({ detail }) => {
    announced.set(detail.info.uuid, { name: detail.info.name, provider: detail.provider });
    tell();
  });
  tell();
  window.dispatchEvent(new Event('eip6963:requestProvider'));
}
