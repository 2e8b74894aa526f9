import { hashOf } from '../../kernel/hash.js';
import type { Json } from '../../kernel/json.js';

/**
 * The port to short-lived state: nonces, cached answers, rate limits. Losing it loses no fact.
 * An adapter must pass `test/contracts/key-value.contract.ts`. Every entry has a time to live; an expired entry is absent.
 *
 * Keys with the same part in braces form a group, which is on one server. A server that loses its last writes loses them
 * from the end: of a group, never an earlier write without the later ones.
 */
export interface KeyValue {
  get(key: string): Promise<Json | undefined>;
  put(key: string, value: Json, ttlMs: number): Promise<void>;
  /** False, and no effect, if the key is present. */
  putIfAbsent(key: string, value: Json, ttlMs: number): Promise<boolean>;
  /** Replaces a value deeply equal to `expected`, else false; one of many callers wins. @param ttlMs 0: removes it */
  replace(key: string, expected: Json, next: Json, ttlMs: number): Promise<boolean>;
  /** Reads and removes in one step: of many concurrent takers, one gets the value. */
  take(key: string): Promise<Json | undefined>;
  /** Adds `by`, default 1, to a counter that starts at 0 and lives `ttlMs` from its first increment. */
  increment(key: string, ttlMs: number, by?: number): Promise<{ count: number; resets_at: number }>;
  close(): Promise<void>;
}
export const KEY_VALUE = Symbol('KeyValue');

/** A time to live for what does not expire. */
export const FOREVER_MS = 100 * 365 * 86_400_000;

/** Begins the keys of texts that events name by their hash (src/commands/kept-texts.ts). */
export const TEXT_KEY = 'text:';

/**
 * Changes a value to which other callers may make changes at the same time.
 * @param change gets what is stored, and is called again if that changes meanwhile; undefined: nothing changes
 */
export async function changeValue<T extends Json>(
  keyValue: KeyValue,
  key: string,
  ttlMs: number,
  change: (stored: T | undefined) => Promise<T | undefined>,
): Promise<void> {
  for (;;) {
    const stored = (await keyValue.get(key)) as T | undefined;
    const next = await change(stored);
    if (next === undefined) return;
    const isStored = await (stored === undefined
      ? keyValue.putIfAbsent(key, next, ttlMs)
      : keyValue.replace(key, stored, next, ttlMs));
    if (isStored) return;
  }
}

/** Longer keys are stored under their hash: LMDB refuses more than 1,978 bytes. */
const MAX_KEY_LENGTH = 400;

/** The name under which a store keeps a key. That of a short key begins with `=` and the key. */
export function storedKey(key: string): string {
  return key.length > MAX_KEY_LENGTH ? `#${hashOf(key)}` : `=${key}`;
}
