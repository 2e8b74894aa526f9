import { randomUUID } from 'node:crypto';
import { sha256Hex } from '../kernel/hash.js';
import { Problem } from '../kernel/problems.js';
import { type KeyValue, TEXT_KEY } from '../stores/ports/key-value.js';

/**
 * Free text is stored beside the log under its SHA-256, so that it can be deleted (docs/decisions/0010). It does not
 * expire.
 */
const TEXT_TTL_MS = 100 * 365 * 86_400_000;

/** A text that the request which stored it may take away again. Any other request for the same text ends that. */
type Claimed = { text: string; by: string };
/** What a text that was taken away leaves for a moment. */
const GONE = '';

const keyOf = (hash: string) => TEXT_KEY + hash;

/**
 * Call it before the event that names the text's hash is appended.
 * @returns takes the text away again, unless others have kept it: call it if the event is refused
 */
export async function keepText(keyValue: KeyValue, text: string): Promise<() => Promise<void>> {
  const key = keyOf(sha256Hex(text));
  const mine: Claimed = { text, by: randomUUID() };
  const takeAway = async () => void (await keyValue.replace(key, mine, GONE, 1));
  for (;;) {
    if (await keyValue.putIfAbsent(key, mine, TEXT_TTL_MS)) return takeAway;
    const kept = (await keyValue.get(key)) as Claimed | string | undefined;
    if (kept === GONE && (await keyValue.replace(key, GONE, mine, TEXT_TTL_MS))) return takeAway;
    if (kept === text || (isClaimed(kept) && (await keyValue.replace(key, kept, text, TEXT_TTL_MS)))) {
      return async () => undefined;
    }
  }
}

/** Keeps texts and then appends the event that names their hashes. If that is refused, the texts are taken away again. */
export async function withTexts<T>(keyValue: KeyValue, texts: readonly string[], append: () => Promise<T>): Promise<T> {
  const takeAway = await Promise.all(texts.map((text) => keepText(keyValue, text)));
  try {
    return await append();
  } catch (error) {
    if (error instanceof Problem) await Promise.all(takeAway.map((undo) => undo()));
    throw error;
  }
}

/** @returns null if no text is stored under this hash, or it was deleted */
export async function keptText(keyValue: KeyValue, hash: string): Promise<string | null> {
  const kept = (await keyValue.get(keyOf(hash))) as Claimed | string | undefined;
  return (isClaimed(kept) ? kept.text : kept) || null;
}

/** @returns false if no text was stored under this hash */
export async function deleteText(keyValue: KeyValue, hash: string): Promise<boolean> {
  return (await keyValue.take(keyOf(hash))) !== undefined;
}

const isClaimed = (kept: Claimed | string | undefined): kept is Claimed => typeof kept === 'object';
