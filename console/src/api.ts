/** The parts of the public HTTP interface that the console uses. */

import {
  ConnectionError,
  CredenceClient,
  type components,
  type FieldError,
  type LiveEvent,
  ProblemError,
} from '../../clients/typescript/src/client.ts';

export type { FieldError, LiveEvent };

/** The schemas of the OpenAPI document. */
export type Schemas = components['schemas'];

/** A refusal of the service (application/problem+json), or the reason why no answer came. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  constructor(
    /** 0: no answer. */
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly errors: readonly FieldError[] = [],
    readonly requestId: string | null = null,
    /** In milliseconds, if the service said when to ask again. */
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
  }
}

/** What is wrong with which part of a request that was refused. */
export const errorsOf = (error: Error | null): readonly FieldError[] => (error instanceof ApiError ? error.errors : []);

/** The key stays in this tab: it is gone when the tab is closed. */
const STORED_KEY = 'credence-key';
let key = sessionStorage.getItem(STORED_KEY);

export const currentKey = (): string | null => key;

export type Tokens = Schemas['TokensDto'];

/** Whose session requests are sent with, instead of the key. Its tokens are in memory only: a reload forgets them. */
let session: Tokens | null = null;

export const currentSession = (): Tokens | null => session;

/** Whether requests are sent with a key, or with a session. */
export const hasCredential = (): boolean => key !== null || session !== null;

export function sendSession(tokens: Tokens | null): void {
  session = tokens;
  client.session = tokens;
  watchers.forEach((changed) => changed());
}

const watchers = new Set<() => void>();

/** Calls `changed` when somebody signs in or out. @returns what ends that */
export function watchSession(changed: () => void): () => void {
  watchers.add(changed);
  return () => watchers.delete(changed);
}

/** Ends the session here, and at the service. @throws ApiError */
export async function signOut(): Promise<void> {
  await post('v1/tris/token/revoke', { refresh_token: session?.refresh_token }).finally(() => sendSession(null));
}

export function sendKey(value: string | null): void {
  sendSession(null);
  key = value;
  if (value === null) sessionStorage.removeItem(STORED_KEY);
  else sessionStorage.setItem(STORED_KEY, value);
}

export type Parameters = Record<string, string | number | undefined>;

/** Paths are not those of the document, but with their parameters in them. */
interface Calls {
  get(path: string, init: object): Promise<{ data: unknown }>;
  post(path: string, init: object): Promise<{ data: unknown }>;
  patch(path: string, init: object): Promise<{ data: unknown }>;
  delete(path: string, init: object): Promise<{ data: unknown }>;
}

const client = new CredenceClient({
  onTokens: (tokens) => (session = tokens),
  // The page is at `<service>/console`, also behind a proxy that adds a path.
  baseUrl: new URL('.', document.baseURI).href,
  apiKey: () => key,
  // The views say that they wait, and may be told not to.
  retries: 0,
  fetch: (request) => fetch(request, { credentials: 'omit' }),
});
const calls: Calls = client as unknown as Calls;

/** @throws ApiError */
export function get<T>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return answer(calls.get(`/${path}`, { params: { query: parameters }, signal }));
}

/** @throws ApiError */
export function post<T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  return answer(calls.post(`/${path}`, { body, signal }));
}

/** @throws ApiError */
export function patch<T>(path: string, body: unknown): Promise<T> {
  return answer(calls.patch(`/${path}`, { body }));
}

/** An answer that is not JSON. @throws ApiError */
export function getText(path: string): Promise<string> {
  return answer(calls.get(`/${path}`, { parseAs: 'text' }));
}

/** `DELETE`. @throws ApiError */
export function remove<T>(path: string, parameters: Parameters = {}): Promise<T> {
  return answer(calls.delete(`/${path}`, { params: { query: parameters } }));
}

/** @throws ApiError if a service refuses the key */
export async function checkKey(candidate: string): Promise<void> {
  // A wrong key is refused on every route, also on public ones.
  await answer(calls.get('/health/live', { headers: { 'x-api-key': candidate } }));
}

/**
 * Reads the live changes until the service ends them. `onEvents` gets those that arrived together.
 * @throws ApiError
 */
export async function followChanges(
  cursor: string | undefined,
  onEvents: (events: LiveEvent[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const together: LiveEvent[] = [];
  try {
    for await (const event of client.live({ ...(cursor !== undefined && { cursor }), reconnects: false, signal })) {
      if (together.push(event) === 1) setTimeout(() => onEvents(together.splice(0)));
    }
  } catch (error) {
    throw asApiError(error);
  }
}

async function answer<T>(call: Promise<{ data: unknown }>): Promise<T> {
  try {
    return (await call).data as T;
  } catch (error) {
    // The client renews tokens: the session has ended.
    if (error instanceof ProblemError && error.status === 401 && session !== null) sendSession(null);
    throw asApiError(error);
  }
}

function asApiError(error: unknown): unknown {
  if (error instanceof ConnectionError) return new ApiError(0, 'unreachable', 'The service cannot be reached.');
  if (!(error instanceof ProblemError)) return error;
  const { status, code, detail, errors, requestId, retryAfter } = error;
  return new ApiError(status, code, detail, errors, requestId, retryAfter);
}

/** What an answer is asked for. Undefined: the default of the service. */
export interface Coordinates {
  as_of?: string | undefined;
  known_at?: string | undefined;
  as_of_position?: string | undefined;
  vp?: string | undefined;
  model?: string | undefined;
}

export type Score = Schemas['ScoreDto'];
export type HistoryEntry = Schemas['HistoryEntryDto'];
export type History = Schemas['HistoryDto'];
