import { randomUUID } from 'node:crypto';
import { sha256Hex } from '../kernel/hash.js';
import { Problem } from '../kernel/problems.js';
import { FOREVER_MS, type KeyValue, TEXT_KEY } from '../stores/ports/key-value.js';

/** Free text is stored beside the log under its SHA-256, so that it can be deleted (docs/decisions/0010). */

/** A text whose request may still be refused, and then removes it. Another request for the same text prevents that. */
type Tentative = { text: string; by: string };
/** Replaces a removed text for a moment. */
const REMOVED = '';

const keyOf = (hash: string) => TEXT_KEY + hash;

/**
 * Stores a text, before the event that names its hash is appended.
 * @returns removes the text, unless another request has stored it too: to be called if the event is refused
 */
export async function keepText(keyValue: KeyValue, text: string): Promise<() => Promise<void>> {
  const key = keyOf(sha256Hex(text));
  const mine: Tentative = { text, by: randomUUID() };
  const remove = async () => void (await keyValue.replace(key, mine, REMOVED, 1));
  for (;;) {
    if (await keyValue.putIfAbsent(key, mine, FOREVER_MS)) return remove;
    const kept = (await keyValue.get(key)) as Tentative | string | undefined;
    if (kept === REMOVED && (await keyValue.replace(key, REMOVED, mine, FOREVER_MS))) return remove;
    if (kept === text || (isTentative(kept) && (await keyValue.replace(key, kept, text, FOREVER_MS)))) {
      return async () => undefined;
    }
  }
}

/** Stores texts and then appends the event that names their hashes. If that is refused, the texts are removed. */
export async function withTexts<T>(keyValue: KeyValue, texts: readonly string[], append: () => Promise<T>): Promise<T> {
  const removals = await Promise.all(texts.map((text) => keepText(keyValue, text)));
  try {
    return await append();
  } catch (error) {
    if (error instanceof Problem) await Promise.all(removals.map((remove) => remove()));
    throw error;
  }
}

/** @returns null if no text is stored under this hash, or it was deleted */
export async function keptText(keyValue: KeyValue, hash: string): Promise<string | null> {
  const kept = (await keyValue.get(keyOf(hash))) as Tentative | string | undefined;
  return (isTentative(kept) ? kept.text : kept) || null;
}

/** @returns false if no text was stored under this hash */
export async function deleteText(keyValue: KeyValue, hash: string): Promise<boolean> {
  return (await keyValue.take(keyOf(hash))) !== undefined;
}

const isTentative = (kept: Tentative | string | undefined): kept is Tentative => typeof kept === 'object';
