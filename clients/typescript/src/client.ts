import createFetchClient, {
  type Client as FetchClient,
  type ClientPathsWithMethod,
  type MaybeOptionalInit,
} from 'openapi-fetch';
import { type EligibilityOptions, type EligibilityVerification, type Jwks, verifyEligibility } from './eligibility.js';
import { live, type LiveEvent, type LiveOptions } from './live.js';
import { ProblemError } from './problem.js';
import type { paths } from './schema.js';
import type { Tokens } from './session.js';
import { Transport, type TransportOptions } from './transport.js';

export { ConnectionError, type FieldError, type ProblemCode } from './problem.js';
export { ProblemError };
export type { LiveEvent, LiveOptions } from './live.js';
export type { components, paths } from './schema.js';
export type { Tokens } from './session.js';

export interface ClientOptions extends TransportOptions {}

type Method = 'get' | 'post' | 'patch' | 'delete';
type Path<M extends Method> = ClientPathsWithMethod<FetchClient<paths>, M>;
type Init<P extends keyof paths, M extends Method> = MaybeOptionalInit<paths[P], M>;
/** Optional if nothing in it is required. */
type InitArgument<I> = undefined extends I ? [init?: I] : [init: I];

type Content<R> = R extends { content: infer C } ? C[keyof C] : never;
/**
 * The body of an answer by method and path: `Data<'get', '/v1/disc/score/{tris_id}'>`. Not by the type of openapi-fetch,
 * which makes arrays of tuples, and so no answer with one would be of the type of its schema.
 */
export type Data<M extends Method, P extends Path<M>> =
  paths[P] extends Record<M, { responses: infer R }> ? Content<R[keyof R]> : never;

type Sent<M extends Method, P extends Path<M>> = NonNullable<Init<P, M>>;
/** The JSON body of a request: `Body<'post', '/api/decision-relay'>`. */
export type Body<M extends Method, P extends Path<M>> =
  Sent<M, P> extends { body?: infer T } ? Exclude<NonNullable<T>, string> : never; // A text is NDJSON.
/** The query of a request: `Query<'get', '/v1/disc/score/{tris_id}'>`. */
export type Query<M extends Method, P extends Path<M>> =
  Sent<M, P> extends { params?: { query?: infer T } } ? NonNullable<T> : never;

export interface Answer<T> {
  data: T;
  /** Its status and headers can be used; its body has been read. */
  response: Response;
}

type Call<M extends Method> = <P extends Path<M>>(
  path: P,
  ...init: InitArgument<Init<P, M>>
) => Promise<Answer<Data<M, P>>>;

/** The paths of lists: answers have a `next_cursor`. */
export type ListPath = {
  [P in Path<'get'>]: Data<'get', P> extends { next_cursor: string | null } ? P : never;
}[Path<'get'>];

type ItemIn<Page> = { [K in keyof Page]-?: Page[K] extends readonly (infer T)[] ? T : never }[keyof Page];
/** The type of a list's items. */
export type Item<P extends ListPath> = ItemIn<Data<'get', P>>;

/** A key set is fetched again for a token with an unknown key, but not more often than this, ms. */
const KEY_SET_MS = 60_000;

/**
 * A client of one service. Paths, parameters and bodies are those of its OpenAPI document:
 * `client.get('/v1/disc/score/{tris_id}', { params: { path: { tris_id } } })`.
 * Every method throws ProblemError if the service refuses and ConnectionError if no answer comes.
 */
export class CredenceClient {
  readonly #baseUrl: string;
  readonly #transport: Transport;
  readonly #calls: FetchClient<paths>;
  #jwks: Promise<Jwks> | undefined;
  #jwksAt = 0;

  constructor(options: ClientOptions) {
    this.#baseUrl = new URL(options.baseUrl).href.replace(/\/$/, '');
    this.#transport = new Transport({ ...options, baseUrl: this.#baseUrl });
    this.#calls = createFetchClient<paths>({
      baseUrl: this.#baseUrl,
      fetch: (request) => this.#transport.send(request),
      querySerializer: { array: { style: 'form', explode: false } },
    });
  }

  get: Call<'get'> = (path, ...init) => this.#call('GET', path, init);
  post: Call<'post'> = (path, ...init) => this.#call('POST', path, init);
  patch: Call<'patch'> = (path, ...init) => this.#call('PATCH', path, init);
  delete: Call<'delete'> = (path, ...init) => this.#call('DELETE', path, init);

  /**
   * The pages of a list, one request each. Those of `/v1/disc/changes` end where nothing more has changed; `next_cursor`
   * of the last one is what `live` continues from.
   */
  async *pages<P extends ListPath>(
    path: P,
    ...[init]: InitArgument<Init<P, 'get'>>
  ): AsyncGenerator<Data<'get', P>, void> {
    const { params, ...rest } = (init ?? {}) as { params?: { query?: { cursor?: string } } };
    let cursor = params?.query?.cursor;
    for (;;) {
      const query = { ...params?.query, ...(cursor !== undefined && { cursor }) };
      const { data } = await this.#call<Data<'get', P>>('GET', path, [{ ...rest, params: { ...params, query } }]);
      yield data;
      const { next_cursor: next } = data as { next_cursor: string | null };
      if (next === null || (next === cursor && itemsOf(data).length === 0)) return;
      cursor = next;
    }
  }

  /** The items of a list, from all of its pages. */
  async *list<P extends ListPath>(path: P, ...init: InitArgument<Init<P, 'get'>>): AsyncGenerator<Item<P>, void> {
    for await (const page of this.pages(path, ...init)) yield* itemsOf(page) as Item<P>[];
  }

  /** Changes of scores as they happen. The iteration does not end by itself; leaving it closes the connection. */
  live(options: LiveOptions = {}): AsyncGenerator<LiveEvent, void> {
    return live(this.#transport, new URL(`${this.#baseUrl}/v1/disc/changes/stream`), options);
  }

  /**
   * Verifies an eligibility token by the key set of the service, which is fetched once, and again for an unknown key.
   * It does not see revocations: `POST /v1/eligibility/verify` does.
   */
  async verifyEligibility(token: string, options: Omit<EligibilityOptions, 'jwks'>): Promise<EligibilityVerification> {
    const verification = await verifyEligibility(token, { ...options, jwks: await this.#keySet(Infinity) });
    if (verification.active || verification.reason !== 'eligibility_signature') return verification;
    return verifyEligibility(token, { ...options, jwks: await this.#keySet(KEY_SET_MS) });
  }

  /** `Credence-Position` of the last write: reads wait for it. Hand it to another client to let that wait for it, too. */
  get position(): string | null {
    return this.#transport.position;
  }
  set position(position: string | null) {
    this.#transport.position = position;
  }

  /** Acts with a wallet's session from now on; null: with none. */
  set session(tokens: Tokens | null) {
    this.#transport.session = tokens;
  }

  async #call<T>(method: Uppercase<Method>, path: string, [init]: readonly unknown[]): Promise<Answer<T>> {
    const call = this.#calls[method] as (path: string, init: unknown) => Promise<Answer<T>>;
    const { parseAs, headers } = (init ?? {}) as {
      parseAs?: string;
      headers?: ConstructorParameters<typeof Headers>[0];
    };
    const { data, response } = await call(path, { parseAs: 'text', ...(init as object) });
    if (parseAs !== undefined || typeof data !== 'string') return { data, response };
    const type = response.headers.get('content-type') ?? '';
    const isText = type.startsWith('text/') && new Headers(headers).get('accept')?.startsWith('text/');
    return { data: isText || type.startsWith('application/x-ndjson') ? data : parsed(data, response), response };
  }

  #keySet(maxAge: number): Promise<Jwks> {
    if (!this.#jwks || Date.now() - this.#jwksAt > maxAge) {
      this.#jwksAt = Date.now();
      const fetched = this.get('/.well-known/jwks.json').then(({ data }) => data as Jwks);
      this.#jwks = fetched;
      fetched.catch(() => (this.#jwks = undefined));
    }
    return this.#jwks;
  }
}

function parsed<T>(text: string, { status }: Response): T {
  try {
    return (text === '' ? undefined : JSON.parse(text)) as T;
  } catch {
    throw new ProblemError(status, 'unknown', 'The answer is not JSON.', [], null, null, {});
  }
}

function itemsOf(page: object): unknown[] {
  return Object.values(page).find(Array.isArray) ?? [];
}
