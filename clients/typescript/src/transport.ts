import { ConnectionError, ProblemError } from './problem.js';
import { Session, type Tokens } from './session.js';

export interface TransportOptions {
  /** Where the service is, such as `https://credence.example`; a path is kept. */
  baseUrl: string;
  /** Sent as `X-API-Key`. A function is asked for each request; null: none. */
  apiKey?: string | (() => string | null);
  /** A wallet's session instead of a key. Its tokens are replaced before they expire. */
  session?: Tokens;
  /** Told of each replacement: whoever stores tokens must store these, since the old ones cannot be used again. */
  onTokens?: (tokens: Tokens) => unknown;
  /** How often a request is repeated at most. Default 3; 0: never. */
  retries?: number;
  /** How long each attempt may take, ms. Default 30,000. */
  timeout?: number;
  /** Default: that of the platform. */
  fetch?: (request: Request) => Promise<Response>;
}

/** The first wait before a repetition; each further one is twice as long, ms. */
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
/** A service that wants to be asked later than this gets no repetition, ms: its rate limit is by the minute. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/**
 * How long a refresh may take, ms: the service answers the same refresh again for 15 s, and ends the session if the token
 * comes later.
 */
const REFRESH_MS = 10_000;

/** Refused before anything was done. */
const TOO_MANY = 429;
/** It is not known whether anything was done. */
const UNCERTAIN = new Set([408, 502, 503, 504]);
/** Writes that ignore `Idempotency-Key` and would do something again. */
const ONCE =
  /\/v1\/(ops\/keys|tris\/auth\/siwe\/verify|tris\/sessions\/end)$|\/v1\/webhooks\/[^/]+\/(test|deliveries\/[^/]+\/redeliver)$/;
const REFRESH = '/v1/tris/token/refresh';

/** Sends requests: credentials, idempotency keys, the position of the last write, and repetitions where they are safe. */
export class Transport {
  readonly #options: TransportOptions;
  readonly #fetch: (request: Request) => Promise<Response>;
  #session: Session | undefined;
  /** Kept until they are answered: in Node 20 the signal of a request that has been collected ends nothing. */
  readonly #underWay = new Set<Request>();
  /** `Credence-Position` of the last write; null: there was none. Reads wait until the service has applied it. */
  position: string | null = null;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#fetch = options.fetch ?? ((request) => globalThis.fetch(request));
    this.session = options.session ?? null;
  }

  /** Acts with a wallet's session from now on; null: with none. */
  set session(tokens: Tokens | null) {
    const told = (replaced: Tokens) => this.#options.onTokens?.(replaced);
    this.#session = tokens === null ? undefined : new Session(tokens, (token) => this.#refresh(token), told);
  }

  /**
   * @param isStream the answer is returned with its head; its body has no limit of time, and the signal does not end it
   * @returns an answer with a status of 2xx
   * @throws ProblemError the service refused, ConnectionError no answer came, the reason of the signal
   */
  async send(request: Request, isStream = false): Promise<Response> {
    const { retries = 3 } = this.#options;
    const isRepeatable = prepare(request);
    let isRenewed = false;
    for (let attempt = 0; ; attempt++) {
      const [sent, accessToken] = await this.#authorized(request);
      const failure = await this.#attempt(sent, request.signal, isStream);
      if (failure instanceof Response) return failure;
      const code = failure instanceof ProblemError ? failure.code : '';
      if (code === 'token_expired' && accessToken !== null && !isRenewed) {
        isRenewed = true;
        await this.#session?.replace(accessToken);
        attempt--;
        continue;
      }
      if (code === 'position_unknown' && this.position !== null && this.position === sent.headers.get(MIN_POSITION)) {
        // The log was replaced: what this client wrote there cannot be waited for.
        this.position = null;
        attempt--;
        continue;
      }
      if (attempt >= retries || !mayRepeat(failure, isRepeatable)) throw failure;
      const wait = waitBefore(attempt, failure);
      if (wait === null) throw failure;
      await pause(wait, request.signal);
    }
  }

  /** @param signal of the call; that of a copy of its request may end nothing, as above */
  async #attempt(
    request: Request,
    signal: AbortSignal,
    isStream: boolean,
  ): Promise<Response | ProblemError | ConnectionError> {
    // A timer that is longer, such as Infinity, would end at once.
    const most = Math.min(this.#options.timeout ?? 30_000, 2 ** 31 - 1);
    const timeout = isRefresh(request) ? Math.min(most, REFRESH_MS) : most;
    // Not AbortSignal.any, which Node 20.0 lacks and which leaks for a signal that outlives many requests.
    const controller = new AbortController();
    const abort = () => controller.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    const late = () => controller.abort(new DOMException(`no answer within ${timeout} ms`, 'TimeoutError'));
    const timer = setTimeout(late, timeout);
    const sent = new Request(request, { signal: controller.signal });
    this.#underWay.add(sent);
    try {
      const response = await this.#fetch(sent);
      if (!response.ok) return await ProblemError.of(response);
      const position = response.headers.get('credence-position');
      if (position !== null) this.position = later(this.position, position);
      if (isStream || response.body === null) return response;
      // An answer that is cut counts as none.
      const body = await response.arrayBuffer();
      return new Response(body, { status: response.status, headers: response.headers });
    } catch (cause) {
      if (signal.aborted) throw signal.reason;
      return new ConnectionError(`${request.method} ${request.url}: no answer came: ${reasonOf(cause)}`, { cause });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      this.#underWay.delete(sent);
    }
  }

  /** A copy of the request as it is sent: its body can be sent again. */
  async #authorized(request: Request): Promise<[Request, accessToken: string | null]> {
    const copy = request.clone();
    const { headers } = copy;
    if (this.position !== null && !headers.has(MIN_POSITION)) headers.set(MIN_POSITION, this.position);
    // The service refuses a key beside a session, and a refresh with an expired access token.
    if (this.#session) {
      if (isRefresh(copy)) return [copy, null];
      const accessToken = await this.#session.accessToken();
      headers.set('authorization', `Bearer ${accessToken}`);
      return [copy, accessToken];
    }
    const { apiKey } = this.#options;
    const key = typeof apiKey === 'function' ? apiKey() : (apiKey ?? null);
    if (key !== null && !headers.has('x-api-key')) headers.set('x-api-key', key);
    return [copy, null];
  }

  async #refresh(token: string): Promise<Tokens> {
    const response = await this.send(
      new Request(`${this.#options.baseUrl}${REFRESH}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ refresh_token: token }),
      }),
    );
    return (await response.json()) as Tokens;
  }
}

/** Node says only "fetch failed", and has the reason in the cause of that. */
const reasonOf = (error: unknown): string => String((error as Error | null)?.cause ?? error);

const MIN_POSITION = 'credence-min-position';

const isRefresh = ({ url }: Request): boolean => new URL(url).pathname.endsWith(REFRESH);

/** Gives a write its key. @returns whether the request may be sent twice */
function prepare(request: Request): boolean {
  if (request.method === 'GET' || request.method === 'HEAD') return true;
  if (!request.headers.has('idempotency-key')) request.headers.set('idempotency-key', idempotencyKey());
  return !ONCE.test(new URL(request.url).pathname);
}

/** 128 random bits; `crypto.randomUUID` is missing on pages without https. */
function idempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function mayRepeat(failure: ProblemError | ConnectionError, isRepeatable: boolean): boolean {
  if (failure instanceof ConnectionError) return isRepeatable;
  if (failure.status === TOO_MANY) return true;
  return isRepeatable && (UNCERTAIN.has(failure.status) || failure.code === 'write_conflict');
}

/** Half of it is chance, so that not all clients return at the same time. @returns ms; null: too long */
function waitBefore(attempt: number, failure: ProblemError | ConnectionError): number | null {
  const retryAfter = failure instanceof ProblemError ? (failure.retryAfter ?? 0) : 0;
  if (retryAfter > LONGEST_RETRY_AFTER_MS) return null;
  const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
  return retryAfter + wait * (0.5 + Math.random() / 2);
}

/** @throws the reason of the signal */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal.addEventListener('abort', abort, { once: true });
  });
}

/** The later of two positions of one log, `<log id>.<number>`: answers to writes may arrive out of order. */
function later(known: string | null, given: string): string {
  const [log, number] = split(given);
  const [knownLog, knownNumber] = split(known ?? '');
  return known !== null && log === knownLog && knownNumber > number ? known : given;
}

function split(position: string): [log: string, number: number] {
  const dot = position.lastIndexOf('.');
  return [position.slice(0, dot), Number(position.slice(dot + 1))];
}
