/** Verifies webhooks as the Standard Webhooks specification says (HMAC-SHA256, `v1`), by WebCrypto. */

import type { components } from './schema.js';

/** What the service posts to a webhook; docs/webhooks.md says when. */
export type WebhookMessage = components['schemas']['WebhookMessageDto'];

export type WebhookRefusal = 'headers' | 'timestamp' | 'signature' | 'body';

/** The message is not from the service, or too old: answer 400, and do nothing else. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError';

  constructor(
    readonly reason: WebhookRefusal,
    message: string,
  ) {
    super(message);
  }
}

export interface WebhookOptions {
  /** How old a message may be, or how far ahead of this clock, s. Default 300. */
  tolerance?: number;
  /** Milliseconds since the epoch; default: now. */
  now?: number;
}

interface Readable {
  get(name: string): string | null;
}

/**
 * @param body the body as it was received, or what yields it, such as a request of Node: parsed and written again it may
 *   have another signature
 * @param headers of the request: a Headers, or an object with names in lower case, as Node has them
 * @param secret `whsec_…`; several: one of them must have signed
 * @returns the message. Its `webhook-id` is the same each time it is sent: ignore those that you have seen
 * @throws WebhookError
 */
export async function verifyWebhook(
  body: string | Uint8Array | AsyncIterable<Uint8Array>,
  headers: Readable | Readonly<Record<string, string | string[] | undefined>>,
  secret: string | readonly string[],
  { tolerance = 300, now = Date.now() }: WebhookOptions = {},
): Promise<WebhookMessage> {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    headerOf(headers, name),
  ) as [string, string, string];
  // The specification leaves no dot in an id: one would move the border between what is signed.
  if (!/^[^.]+$/.test(id) || !/^\d+$/.test(timestamp) || signatures === '') {
    throw new WebhookError('headers', 'webhook-id, webhook-timestamp or webhook-signature is missing or malformed.');
  }
  if (Math.abs(Number(timestamp) - now / 1_000) > tolerance) {
    throw new WebhookError('timestamp', `The message was sent at ${timestamp}, more than ${tolerance} s from now.`);
  }
  const bytes = await bytesOf(body);
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + bytes.length);
  signed.set(head);
  signed.set(bytes, head.length);
  for (const one of [secret].flat()) {
    const key = await crypto.subtle.importKey('raw', secretBytes(one), HMAC, false, ['verify']);
    for (const signature of signatures.split(' ')) {
      const [, value] = /^v1,(.+)$/.exec(signature) ?? [];
      const given = value === undefined ? undefined : base64(value);
      // WebCrypto compares in constant time.
      if (given && (await crypto.subtle.verify('HMAC', key, given, signed))) return messageOf(bytes);
    }
  }
  throw new WebhookError('signature', 'No signature of the message is by this secret.');
}

/** More than any message of the service: whoever sends it is not the service. */
const MOST_BYTES = 1_048_576;
const HMAC = { name: 'HMAC', hash: 'SHA-256' };

function headerOf(headers: Parameters<typeof verifyWebhook>[1], name: string): string {
  const value = typeof headers['get'] === 'function' ? headers['get'](name) : (headers as Record<string, string>)[name];
  return typeof value === 'string' ? value : '';
}

function secretBytes(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = base64(secret.replace(/^whsec_/, ''));
  if (!bytes || bytes.length === 0) throw new TypeError('The secret of a webhook is "whsec_" and base64.');
  return bytes;
}

function base64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

async function bytesOf(body: Parameters<typeof verifyWebhook>[0]): Promise<Uint8Array> {
  if (typeof body === 'string') return new TextEncoder().encode(body);
  if (body instanceof Uint8Array) return body;
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const part of body) {
    size += part.length;
    if (size > MOST_BYTES) throw new WebhookError('body', `The body has more than ${MOST_BYTES} bytes.`);
    parts.push(part as Uint8Array<ArrayBuffer>);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function messageOf(bytes: Uint8Array): WebhookMessage {
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as WebhookMessage;
  } catch {
    throw new WebhookError('body', 'The body is not JSON.');
  }
}
