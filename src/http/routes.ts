import { applyDecorators, HttpCode } from '@nestjs/common';
import { RouteConfig } from '@nestjs/platform-fastify';
import {
  ApiExtension,
  ApiExtraModels,
  ApiHeader,
  ApiOperation,
  ApiProduces,
  ApiResponse,
  ApiSecurity,
  getSchemaPath,
} from '@nestjs/swagger';
import { type ProblemCode, PROBLEMS } from '../kernel/problems.js';
import type { Caller, Scope } from '../credentials/caller.js';
import { PUBLIC_READS, type PublicReads } from '../kernel/config.js';
import { IDEMPOTENCY_KEY } from '../kernel/identifiers.js';
import { type ListOfBody, NDJSON } from './json-body.js';
import { TrisIdParams } from './common.dto.js';
import { parametersOf } from './nest-internals.js';
import { type Class, codesOf } from './validation.js';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null;
    /** Code of the problem that was returned, if any. */
    problem: ProblemCode | null;
    /** The pattern of its route; `none` without a route. */
    pattern: string;
    /** That of its route; null until the route’s hooks run, and without a route. */
    policy: RoutePolicy | null;
    /** Milliseconds of `performance.now()`. */
    startedAt: number;
    /** Counts among those that may append. */
    isAdmitted: boolean;
    /** Whether it has waited for the turn of its caller. */
    hasTurn: boolean;
    /** Whether its credential, if it has one, is still accepted for the same. Asked again after every wait. */
    isAccepted(): boolean;
  }
}

/** What a route says of itself, and what the hooks do for that before its handler runs. Read once, when it is registered. */
export interface RoutePolicy extends RouteOptions {
  /** `session`: no key has it. null: no credential is needed, and the client's address is rate limited. */
  scope: Scope | 'any' | 'session' | null;
  /** Of a public query: which settings of CREDENCE_PUBLIC_READS leave it public; with others it needs a key. */
  publicWith: readonly PublicReads[];
  /** A session is accepted instead of a key. */
  session: boolean;
  /** A query about one identity: a session that needs a key or its own identity gets no other than its own. */
  own: boolean;
  /** No rate limit and no `Credence-Min-Position`: health, metrics, documents. */
  plain: boolean;
  write: boolean;
  waits: boolean;
  /** Default status of its answers. */
  status: number;
  controller: new (...args: never[]) => object;
  method: string | symbol;
  body?: Class;
  query?: Class;
  params?: Class;
  admitsEach: boolean;
}
const POLICY = 'credence';
/** The scope that a key needs. An extension, since OpenAPI knows scopes of OAuth only. */
const SCOPE = 'x-scope';
export const policyOf = (config: unknown): RoutePolicy | undefined =>
  (config as { [POLICY]?: RoutePolicy } | undefined)?.[POLICY];

/** All routes, by the id of their operation in the OpenAPI document. */
export const ROUTES = new Map<string, RoutePolicy>();
/** @param controller name of its class */
export const operationIdOf = (controller: string, method: string): string =>
  `${controller.replace(/Controller$/, '')}_${method}`;

export interface RouteOptions {
  /** One line for the OpenAPI document. */
  summary: string;
  description?: string;
  /**
   * A body for the OpenAPI document. The examples of all routes are about the same few things: sent to a new service,
   * in an order that creates first what others need, each succeeds (test/e2e/examples.test.ts).
   */
  example?: object;
  /** The path parameters of the example, where the DTO does not say them. */
  at?: Readonly<Record<string, string>>;
  /** The DTO of the answer's body; `[Dto]` for an array of it. */
  type?: Class | [Class];
  /** Default 200; 202 or 201 if the route says so. */
  status?: number;
  /** Its body must not be empty, although each of its members is optional. */
  needsBody?: boolean;
  /** A command that decides on the read models: it may wait for `Credence-Min-Position`, as every query may. */
  waits?: boolean;
  /** A command that ignores the Idempotency-Key, since repeating it changes nothing. */
  ignoresIdempotencyKey?: boolean;
  /** Its body is a list, and may be NDJSON. In place of an item that JSON refuses, the list contains a Problem. */
  list?: ListOfBody;
  /** A batch: each item of this list of its body counts as a request, where requests are limited. */
  counts?: string;
  /**
   * A batch of commands: the request counts as one that appends only until the body is read, since the handler admits
   * each item itself. So does every `list`.
   */
  admitsEach?: boolean;
  /** It answers with an ETag, and 304 to a request that has the same version (`Read`). */
  etag?: true;
  /** Answers with `Live`. Its cursor is that of the list above it, and `Last-Event-ID` overrides it. */
  live?: true;
  /** Its answers say what is left of the quota of a day. */
  quota?: true;
  /** Answers with `Lines`. */
  lines?: true;
  /** Answers with `ForPeople`. */
  forPeople?: true;
  /** Problems in addition to those of every route of its kind, and of the fields of its input. */
  problems?: readonly ProblemCode[];
  /** Of a public query: `feed` for one that lists all identities, `verifier` for what verifies tokens elsewhere. */
  audience?: keyof typeof PUBLIC_TO;
  /**
   * Also for the session of a wallet. Anyone can have one: it has no scopes and no organization. A query gets the TRIS
   * that the session may act for now, and a query about one identity (`:tris_id`) only that identity's sessions. The
   * handler of a command must ask what the session may act for (`RefreshFamilies.standingOf`).
   */
  session?: boolean;
}

/** The settings of CREDENCE_PUBLIC_READS that leave a query of this kind public. */
const PUBLIC_TO = { feed: ['all'], scores: ['all', 'scores'], verifier: PUBLIC_READS } as const;

/**
 * A public query, unless CREDENCE_PUBLIC_READS says otherwise: no key is needed (but a wrong one is refused), requests are
 * limited per address, and it may wait for `Credence-Min-Position`.
 */
export const PublicRead = (options: RouteOptions): MethodDecorator =>
  route(options, { scope: null, write: false, plain: false }, [...CREDENTIAL_PROBLEMS, ...WAITING]);

/** A command without a credential, such as sign-in: rate limited per address; retries are not recognised. */
export const PublicWrite = (options: Omit<RouteOptions, 'waits' | 'session'>): MethodDecorator =>
  route(options, { scope: null, write: true, plain: false }, ['unauthorized', 'rate_limited', ...WRITE_PROBLEMS]);

/** A query that needs a key with this scope (`any`: any valid key; `session`: the session of a wallet instead). */
export const Keyed = (options: RouteOptions & { scope: Scope | 'any' | 'session' }): MethodDecorator =>
  route(options, { scope: options.scope, write: false, plain: false }, [...CREDENTIAL_PROBLEMS, ...WAITING]);

/** A command that needs a key with this scope. Answer with `Written`; `@Context()` brings the Idempotency-Key. */
export const Write = (options: RouteOptions & { scope: Scope | 'any' }): MethodDecorator =>
  route(options, { scope: options.scope, write: true, plain: false }, [...CREDENTIAL_PROBLEMS, ...WRITE_PROBLEMS]);

/** Health, metrics, documents. A wrong key is still refused and counted. */
export const Plain = (options: RouteOptions): MethodDecorator =>
  route(options, { scope: null, write: false, plain: true }, ['unauthorized', 'rate_limited']);

/** Includes rate_limited: a wrong credential counts as a public request does. */
const CREDENTIAL_PROBLEMS: ProblemCode[] = ['unauthorized', 'forbidden', 'rate_limited'];
const WRITE_PROBLEMS: ProblemCode[] = [
  'store_unavailable',
  'store_busy',
  'store_full',
  'log_replaced',
  'read_models_foreign',
  'read_models_damaged',
];
const BODY_PROBLEMS: ProblemCode[] = ['malformed_json', 'payload_too_large', 'unsupported_media_type'];
/** An invalid access token is refused on every route; listed where sessions are accepted. */
const SESSION_PROBLEMS: ProblemCode[] = [
  'token_malformed',
  'token_type',
  'token_algorithm',
  'token_signature',
  'token_audience',
  'token_expired',
  'session_revoked',
];
const WAITING: ProblemCode[] = ['position_unknown', 'projection_behind', 'projection_rebuilding'];

function route(
  options: RouteOptions,
  rules: Pick<RoutePolicy, 'scope' | 'write' | 'plain'>,
  problems: readonly ProblemCode[],
): MethodDecorator {
  return (target, property, descriptor) => {
    const inputs = inputsOf(target, property);
    const session = options.session ?? rules.scope === 'session';
    const policy: RoutePolicy = {
      ...options,
      ...rules,
      // Parameter decorators have run by now, so the classes of @Body(), @Query() and @Param() are known.
      ...inputs,
      publicWith: isPublicRead(rules) ? PUBLIC_TO[options.audience ?? 'scores'] : PUBLIC_READS,
      session,
      own: !rules.write && inputs.params === TrisIdParams && (session || isPublicRead(rules)),
      waits: options.waits ?? (!rules.write && !rules.plain),
      admitsEach: options.list !== undefined || (options.admitsEach ?? false),
      status: options.status ?? 200,
      controller: target.constructor as RoutePolicy['controller'],
      method: property,
    };
    ROUTES.set(operationIdOf(target.constructor.name, String(property)), policy);
    applyDecorators(
      RouteConfig({ [POLICY]: policy }),
      HttpCode(policy.status),
      ...describedRequest(policy),
      ...describedAnswers(policy, problems),
    )(target, property, descriptor);
  };
}

const isPublicRead = ({ scope, write, plain }: Pick<RoutePolicy, 'scope' | 'write' | 'plain'>): boolean =>
  scope === null && !write && !plain;
const takesIdempotencyKey = ({ scope, write, ignoresIdempotencyKey }: RoutePolicy): boolean =>
  write && scope !== null && !ignoresIdempotencyKey;

/** What the OpenAPI document says of the requests of a route. */
function describedRequest(policy: RoutePolicy): MethodDecorator[] {
  const { scope, session, own, summary, description } = policy;
  const decorators = [
    ApiOperation({
      summary,
      description: [description, needs(scope, session)].filter(Boolean).join(' '),
      ...(isPublicRead(policy) && { security: own ? [...WITH_OR_WITHOUT_KEY, { session: [] }] : WITH_OR_WITHOUT_KEY }),
      ...(scope === null && !isPublicRead(policy) && { security: [] }),
    }),
  ];
  if (policy.etag) decorators.push(IF_NONE_MATCH);
  if (scope && scope !== 'any' && scope !== 'session') decorators.push(ApiExtension(SCOPE, scope));
  if (scope && scope !== 'session') decorators.push(ApiSecurity('api_key'));
  if (session) decorators.push(ApiSecurity('session'));
  if (policy.waits) decorators.push(MIN_POSITION);
  if (policy.live) decorators.push(LAST_EVENT_ID);
  if (takesIdempotencyKey(policy)) decorators.push(IDEMPOTENCY_HEADER);
  return decorators;
}

/** What the OpenAPI document says of its answers. @param problems of every route of its kind */
function describedAnswers(policy: RoutePolicy, problems: readonly ProblemCode[]): MethodDecorator[] {
  const { scope, write, plain, session, status, summary, type } = policy;
  const isRepeatable = takesIdempotencyKey(policy);
  const limits = (scope === null && !plain) || session ? RATE_LIMIT : [];
  const headers = headersOf([
    ...(write ? (['Credence-Position'] as const) : []),
    ...(!write && !plain ? (['Credence-Lag'] as const) : []),
    ...(status === 201 ? (['Location'] as const) : []),
    ...(isRepeatable ? (['Idempotency-Replayed'] as const) : []),
    ...(policy.etag ? (['ETag', 'Cache-Control'] as const) : []),
    ...limits,
    ...(policy.quota ? (['RateLimit', 'RateLimit-Policy'] as const) : []),
  ]);
  const refusals: ProblemCode[] = [
    ...problems,
    ...(write || policy.body ? BODY_PROBLEMS : []),
    ...(session || policy.own ? SESSION_PROBLEMS : []),
    ...(policy.params ? (['uri_too_long'] as const) : []),
    ...(policy.waits ? WAITING : []),
    ...(isRepeatable ? (['idempotency_key_reused'] as const) : []),
    ...(policy.problems ?? []),
    ...[policy.body, policy.query, policy.params].flatMap((input) => (input ? codesOf(input) : [])),
    'method_not_allowed',
    'validation_failed',
    'internal_error',
    'history_unreadable',
    'newer_schema',
  ];
  const form = { schema: { $ref: getSchemaPath(type as Class) } };
  const decorators = [
    ApiResponse({
      status,
      description: summary,
      ...(type && !policy.forPeople && { type }),
      ...(policy.forPeople && { content: { 'application/json': form, 'text/plain': TEXT, 'text/html': TEXT } }),
      ...(policy.lines && { content: { [NDJSON]: TEXT } }),
      headers,
    }),
    ...problemResponses(refusals, limits),
  ];
  if (policy.etag) {
    const description = 'The client has this version, which `If-None-Match` names.';
    decorators.push(ApiResponse({ status: 304, description, headers }));
  }
  if (policy.live) decorators.push(ApiProduces('text/event-stream'));
  if (policy.forPeople) decorators.push(ApiExtraModels(type as Class));
  return decorators;
}

const TEXT = { schema: { type: 'string' as const } };
/** The key selects the lens of its organization, so answers with and without it differ. */
const WITH_OR_WITHOUT_KEY: Record<string, string[]>[] = [{}, { api_key: [] }];
const header = (description: string, schema: object = { type: 'string' }) => ({ description, schema });
const wholeFrom = (minimum: number) => ({ type: 'integer', minimum });
/** The headers of answers, as the OpenAPI document describes them. */
export const ANSWER_HEADERS = {
  'Credence-Position': header(
    'Where the command is in the log; absent if nothing was written. Sent with a later request as `Credence-Min-Position`.',
  ),
  'Credence-Lag': header(
    'For how many seconds the read models have been behind the log, or may have been while the log gives no answer; absent unless that is more than an access check allows.',
    wholeFrom(1),
  ),
  'Idempotency-Replayed': header(
    '`true` if the answer is that of an earlier request with this Idempotency-Key; otherwise absent.',
    { type: 'string', pattern: '^true$' },
  ),
  Location: header('Where to read what was created.', { type: 'string', format: 'uri-reference' }),
  ETag: header('The version of the answer, for `If-None-Match`.'),
  'Cache-Control': header('How long the answer may be used without asking.'),
  RateLimit: header(
    'What is left of each limit: `r` requests (`"address"`), actions or bytes, `t` seconds until all are available again (IETF draft, structured fields).',
  ),
  'RateLimit-Policy': header(
    'The limits: `q` requests (`"address"`), actions or bytes in `w` seconds (IETF draft, structured fields).',
  ),
  'RateLimit-Limit': header('How many requests a minute are accepted from one address.', wholeFrom(1)),
  'RateLimit-Remaining': header('How many of them are left.', wholeFrom(0)),
  'RateLimit-Reset': header('In how many seconds all of them are available again.', wholeFrom(0)),
  'Retry-After': header('Seconds to wait before the request is repeated.', wholeFrom(0)),
  Allow: header('The methods of this address.'),
};
type HeaderName = keyof typeof ANSWER_HEADERS;
/** Of public routes and of sessions, unless there is no limit. */
const RATE_LIMIT: readonly HeaderName[] = [
  'RateLimit',
  'RateLimit-Policy',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
];
const headersOf = (names: readonly HeaderName[]) =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

const requestHeader = (name: string, description: string, schema?: { pattern?: string; maxLength: number }) =>
  ApiHeader({ name, required: false, description, schema });
const IF_NONE_MATCH = requestHeader(
  'If-None-Match',
  'The `ETag` of an earlier answer: the answer is 304 if it is still the same.',
);
const IDEMPOTENCY_HEADER = requestHeader(
  'Idempotency-Key',
  'A retry with the same key and body has no second effect and gets the first answer again.',
  { pattern: IDEMPOTENCY_KEY.source, maxLength: 255 },
);
const LAST_EVENT_ID = requestHeader(
  'Last-Event-ID',
  'The id of the last event received: the stream continues after it. Browsers send it by themselves.',
  { maxLength: 1024 },
);
const MIN_POSITION = requestHeader(
  'Credence-Min-Position',
  'A `Credence-Position` of an earlier answer: the request waits up to 2 s until it is applied.',
);

/** Which credential a request needs, for people. */
function needs(scope: RoutePolicy['scope'], session: boolean): string {
  if (scope === null) return '';
  if (scope === 'session') return 'Needs the session of a wallet.';
  const key = scope === 'any' ? 'a key of any scope' : `a key with the scope \`${scope}\``;
  return `Needs ${key}${session ? ', or the session of a wallet' : ''}.`;
}

function problemResponses(codes: readonly ProblemCode[], limits: readonly HeaderName[]): MethodDecorator[] {
  const byStatus = new Map<number, Set<string>>();
  for (const code of codes) {
    const [status] = PROBLEMS[code];
    byStatus.set(status, (byStatus.get(status) ?? new Set()).add(code));
  }
  return [...byStatus].map(([status, names]) =>
    ApiResponse({
      status,
      description: [...names].map((name) => `\`${name}\``).join(', '),
      content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/ProblemDto' } } },
      headers: headersOf([
        ...(status === 429 || status === 503 ? (['Retry-After'] as const) : []),
        // Wrong credentials count on every route.
        ...(status === 401 || status === 429 ? RATE_LIMIT : limits),
        ...(status === 405 ? (['Allow'] as const) : []),
      ]),
    }),
  );
}

/** The DTO classes a handler takes its body, query and path parameters as. */
function inputsOf(target: object, property: string | symbol) {
  const inputs: Pick<RoutePolicy, 'body' | 'query' | 'params'> = {};
  const types: unknown[] = Reflect.getMetadata('design:paramtypes', target, property) ?? [];
  for (const { kind, index, data } of parametersOf(target.constructor, property)) {
    if (kind !== 'body' && kind !== 'query' && kind !== 'params') continue;
    const type = types[index];
    if (data === undefined && typeof type === 'function' && type !== Object) inputs[kind] = type as Class;
    else {
      const where = `${target.constructor.name}.${String(property)}`;
      throw new TypeError(`${where} must take its ${kind} as a whole and as a DTO class, or it would not be validated`);
    }
  }
  return inputs;
}
