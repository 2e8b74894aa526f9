import { ConnectionError, ProblemError } from './problem.js';
import type { components } from './schema.js';
import { pause, type Transport } from './transport.js';

/** The id of an event is a cursor of the feed of changes: `cursor` of a later call continues after it. */
export type LiveEvent =
  | { type: 'change'; id: string; data: components['schemas']['LiveChangeDto'] }
  /** The lens, the model or the log changed: every score may differ, and all identities follow. */
  | { type: 'reset'; id: string; data: Record<string, unknown> }
  /** Every 15 s, and as the first event of a stream without a cursor. All changes up to this position have come. */
  | { type: 'heartbeat'; id: string; data: { position: string } };

export interface LiveOptions {
  /** Only changes of these identities, at most 100. */
  trisIds?: readonly string[];
  /** A `next_cursor` of `GET /v1/disc/changes`, or the id of an event. Default: from now on. */
  cursor?: string | undefined;
  /** false: the iteration ends with its first connection, and what ends that otherwise is thrown. */
  reconnects?: boolean;
  /** Ends the iteration with its reason. */
  signal?: AbortSignal;
}

/** The service sends a heartbeat every 15 s; a connection without anything for longer than this is lost, ms. */
const SILENCE_MS = 40_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * The events of `GET /v1/disc/changes/stream`, without a gap or a repeat: a connection that ends is replaced by one that
 * continues after the last event, for as long as the caller iterates.
 * @throws ProblemError if the service refuses the request itself, such as its key; ConnectionError only without `reconnects`
 */
export async function* live(transport: Transport, url: URL, options: LiveOptions): AsyncGenerator<LiveEvent, void> {
  const { trisIds, cursor, reconnects = true, signal } = options;
  if (trisIds) url.searchParams.set('tris_ids', trisIds.join(','));
  if (cursor !== undefined) url.searchParams.set('cursor', cursor);
  let lastId: string | undefined;
  let wait = FIRST_WAIT_MS;
  for (;;) {
    let retryAfter = 0;
    const ending = new AbortController();
    const abort = () => ending.abort(signal!.reason);
    signal?.addEventListener('abort', abort);
    try {
      signal?.throwIfAborted();
      const headers = { accept: 'text/event-stream', ...(lastId !== undefined && { 'last-event-id': lastId }) };
      const response = await transport.send(new Request(url, { headers, signal: ending.signal }), true);
      for await (const part of parts(response.body!, ending)) {
        if (part.retry !== undefined) wait = part.retry;
        if (part.event === undefined) continue;
        lastId = part.id;
        yield { type: part.event, id: part.id, data: JSON.parse(part.data) } as LiveEvent;
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (!reconnects || !isPassing(error)) throw error;
      if (error instanceof ProblemError) retryAfter = error.retryAfter ?? 0;
      wait = Math.min(LONGEST_WAIT_MS, wait * 2);
    } finally {
      // Also if the caller leaves the loop.
      ending.abort();
      signal?.removeEventListener('abort', abort);
    }
    if (!reconnects) return;
    await pause(retryAfter + wait * (0.5 + Math.random() / 2), signal ?? new AbortController().signal);
  }
}

/** Whether the same request may succeed later. */
function isPassing(error: unknown): boolean {
  return !(error instanceof ProblemError) || error.status === 429 || error.status >= 500;
}

/** An event, or the time after which the service wants to be asked again, ms. */
type Part = { event?: undefined; retry?: number } | { event: string; id: string; data: string; retry?: number };

/**
 * Reads server-sent events (HTML, section 9.2) as the service writes them: each has an id and one line of data.
 * @param ending ends the reading with its reason; is aborted after a silence
 */
async function* parts(body: ReadableStream<Uint8Array>, ending: AbortController): AsyncGenerator<Part> {
  const reader = body.getReader();
  const cancel = () => void reader.cancel().catch(() => undefined);
  ending.signal.addEventListener('abort', cancel, { once: true });
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      ending.signal.throwIfAborted();
      const timer = setTimeout(() => ending.abort(new ConnectionError('The stream is silent.')), SILENCE_MS);
      const { done, value } = await reader
        .read()
        .catch((cause: unknown) =>
          Promise.reject(new ConnectionError(`The stream was cut: ${String(cause)}`, { cause })),
        )
        .finally(() => clearTimeout(timer));
      if (done) break;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop()!;
      for (const block of blocks) yield partOf(block);
    }
    ending.signal.throwIfAborted();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function partOf(block: string): Part {
  const fields: Record<string, string> = {};
  for (const line of block.split('\n')) {
    const [, name, value] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (name !== undefined) fields[name] = value!;
  }
  const { event, id = '', data = '', retry } = fields;
  return {
    ...(event !== undefined && { event, id, data }),
    ...(retry !== undefined && { retry: Number(retry) }),
  } as Part;
}
