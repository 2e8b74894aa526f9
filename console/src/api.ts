/** The parts of the public HTTP interface that the console uses. */

export interface FieldError {
  pointer: string;
  code: string;
  message: string;
}

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

/** The key stays in this tab: it is gone when the tab is closed. */
const STORED_KEY = 'credence-key';
let key = sessionStorage.getItem(STORED_KEY);

export const currentKey = (): string | null => key;

export function sendKey(value: string | null): void {
  key = value;
  if (value === null) sessionStorage.removeItem(STORED_KEY);
  else sessionStorage.setItem(STORED_KEY, value);
}

type Parameters = Record<string, string | number | undefined>;

/** The page is at `<service>/console`, so relative addresses work behind a proxy with a path of its own. */
export async function get<T>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return send(url, { signal: signal ?? null });
}

/** @throws ApiError if a service refuses the key */
export async function checkKey(candidate: string): Promise<void> {
  // A wrong key is refused on every route, also on public ones.
  await send(new URL('health/live', document.baseURI), { headers: { 'x-api-key': candidate } });
}

async function send<T>(url: URL, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    const headers = { ...(key !== null && { 'x-api-key': key }), ...init.headers };
    response = await fetch(url, { ...init, headers, credentials: 'omit' });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.');
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body as T;
  const retryAfter = response.headers.get('retry-after');
  throw new ApiError(
    response.status,
    body?.code ?? 'unknown',
    body?.detail ?? `The service answered with status ${response.status}.`,
    body?.errors ?? [],
    body?.request_id ?? null,
    retryAfter === null ? null : Number(retryAfter) * 1000,
  );
}

/** What an answer is asked for. Undefined: the default of the service. */
export interface Coordinates {
  as_of?: string | undefined;
  known_at?: string | undefined;
  as_of_position?: string | undefined;
  vp?: string | undefined;
  model?: string | undefined;
}

export interface Lens {
  policy_id: string | null;
  content_hash: string;
}

export interface BadStatus {
  level: number;
  reason_code: string;
  since: string;
}

export interface Score {
  tris_id: string;
  score: number;
  score_rating: string;
  total_tct: number;
  earned_tct: number;
  forfeited_tct: number;
  reliability: number;
  evidence?: { amount: number; word: string };
  reliability_interval?: [number, number];
  disc_metrics: Record<string, number>;
  verification: {
    status: string;
    issuer: string;
    scheme: string;
    expires_at: string | null;
    accredited: boolean;
  }[];
  bad_status: BadStatus | null;
  lens: Lens;
  model: { id: string; hash: string };
  as_of: string;
  position: string;
  generation: string;
  incomplete?: boolean;
}

export interface HistoryEntry {
  position: string;
  occurred_at: string;
  recorded_at: string;
  event_id: string;
  event_type: string;
  metric: string | null;
  platform_id: string | null;
  tct_delta: number;
  total_tct: number;
  score: number;
  score_rating: string;
  bad_status?: BadStatus;
}

export interface History {
  entries: HistoryEntry[];
  next_cursor: string | null;
}

export interface Explanation {
  summary?: string;
  contributions: {
    metric: string;
    category: string;
    actions: number;
    tct: number;
    share: number;
    last_at: string;
  }[];
  platforms: { platform_id: string; actions: number; tct: number; flagged_tct: number }[];
  forfeits: {
    metric: string;
    category: string;
    actions: number;
    flagged_tct: number;
    forfeited_tct: number;
    last_at: string;
  }[];
  next_rating: { rating: string; tct_needed: number; days_needed?: number | null } | null;
}

export interface Credonations {
  validations: { from: string; amount: number; timestamp: string; category: string }[];
  next_cursor: string | null;
}

export interface Wallets {
  wallets: { wallet: string; proof: string; chain_id: number | null; linked_at: string }[];
  next_cursor: string | null;
}

export interface Policies {
  policies: { policy_id: string; tris_org: string; status: string; version: string }[];
  next_cursor: string | null;
}

export interface Models {
  models: { id: string; active: boolean }[];
}

export interface Changes {
  changes: { tris_id: string; score: number; total_tct: number; position: string }[];
  next_cursor: string;
  reset?: boolean;
}
