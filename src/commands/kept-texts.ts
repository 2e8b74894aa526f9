import { sha256Hex } from '../kernel/hash.js';
import type { KeyValue } from '../stores/ports/key-value.js';

/**
 * Free text is stored beside the log under its SHA-256, so that it can be deleted (docs/decisions/0010). It does not
 * expire.
 */
const TEXT_TTL_MS = 100 * 365 * 86_400_000;

/** Call it before the event that names the text's hash is appended. */
export async function keepText(keyValue: KeyValue, text: string): Promise<void> {
  await keyValue.put(`text:${sha256Hex(text)}`, text, TEXT_TTL_MS);
}

/** @returns null if no text is stored under this hash, or it was deleted */
export async function keptText(keyValue: KeyValue, hash: string): Promise<string | null> {
  return ((await keyValue.get(`text:${hash}`)) as string | undefined) ?? null;
}

/** @returns false if no text was stored under this hash */
export async function deleteText(keyValue: KeyValue, hash: string): Promise<boolean> {
  return (await keyValue.take(`text:${hash}`)) !== undefined;
}
